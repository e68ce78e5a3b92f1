"""Metadata of a GGUF file, as its reader has it; no weights are read."""

from __future__ import annotations

from typing import Any

from mage.errors import ConfigError


def value(reader: Any, key: str, default: Any = None) -> Any:
    """A metadata value of a GGUF file; a ConfigError where there is none and no default."""
    field = reader.fields.get(key)
    found = default if field is None else field.contents()
    if found is None:
        raise ConfigError(f"it has no {key}")
    return found


def num_rows(reader: Any) -> int:
    """The rows of the embeddings."""
    for tensor in reader.tensors:
        if tensor.name == "token_embd.weight":
            return int(tensor.shape[1])
    raise ConfigError("it has no weights token_embd.weight")


def sizes(reader: Any) -> dict[str, Any]:
    """The sizes of the model by their names in transformers; `model_type` is the architecture that the file names."""
    kind = str(value(reader, "general.architecture"))
    hidden, heads = int(value(reader, f"{kind}.embedding_length")), int(value(reader, f"{kind}.attention.head_count"))
    return {
        "model_type": kind,
        "vocab_size": num_rows(reader),
        "hidden_size": hidden,
        "intermediate_size": int(value(reader, f"{kind}.feed_forward_length")),
        "num_hidden_layers": int(value(reader, f"{kind}.block_count")),
        "num_attention_heads": heads,
        "num_key_value_heads": int(value(reader, f"{kind}.attention.head_count_kv", heads)),
        "head_dim": int(value(reader, f"{kind}.attention.key_length", hidden // heads)),
        "max_position_embeddings": int(value(reader, f"{kind}.context_length")),
        "tie_word_embeddings": "output.weight" not in {tensor.name for tensor in reader.tensors},
    }
