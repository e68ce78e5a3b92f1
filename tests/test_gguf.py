"""GGUF files as models: tiny ones are written here, and read back to the same logits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter, dequantize, quantize
from tokenizers import pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM
from typer.testing import CliRunner

from mage.cli import app
from mage.errors import ConfigError
from mage.models import gguf_file
from mage.models.gguf_tokenizer import build_tokenizer
from mage.models.gguf_weights import transformers_name
from mage.models.load import base_directory, load_model

LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGED = ["ro", "Ġp", "12"]
TOKENS = [*CONTROL, *LETTERS, *MERGED, "<tool>"]
TYPES = [3] * len(CONTROL) + [1] * (len(LETTERS) + len(MERGED)) + [4]
MERGES = ["r o", "Ġ p", "1 2"]
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SIZES: dict[str, Any] = {
    "vocab_size": len(TOKENS),
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def plain(theta: float) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta}


def random_model(kind: str) -> Any:
    """A tiny model with random weights; biases and norms too."""
    torch.manual_seed(0)
    build: Any
    build, config = {
        "llama": (LlamaForCausalLM, LlamaConfig(**SIZES, rope_parameters=plain(1e4), tie_word_embeddings=True)),
        "llama3": (LlamaForCausalLM, LlamaConfig(**SIZES, rope_parameters=LLAMA3)),
        "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SIZES, rope_parameters=plain(1e6))),
        "qwen3": (Qwen3ForCausalLM, Qwen3Config(**SIZES, head_dim=16, rope_parameters=plain(1e6))),
    }[kind]
    made = build(config)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


def write_gguf(path: Path, model: Any, change: Callable[[GGUFWriter, str], None] | None = None, **kwargs: Any) -> Path:
    """Write a model as llama.cpp's converter does; `change` may add to the metadata."""
    config, kind = model.config, kwargs.get("kind", model.config.model_type)
    writer = GGUFWriter(path, kind)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if config.model_type == "qwen3":
        writer.add_key_length(config.head_dim)
    writer.add_tokenizer_model(kwargs.get("tokenizer", "gpt2"))
    writer.add_tokenizer_pre(kwargs.get("pre", "qwen2"))
    writer.add_token_list(TOKENS)
    writer.add_token_types(TYPES)
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)  # another than the end of a turn
    writer.add_chat_template(CHATML)
    if change is not None:
        change(writer, kind)
    for name, numbers in gguf_tensors(model):
        rounded = kwargs.get("quantised") if name.endswith("ffn_up.weight") else None
        data = numbers.numpy() if rounded is None else quantize(numbers.numpy(), rounded)
        writer.add_tensor(name, data, raw_dtype=rounded)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_tensors(model: Any) -> list[tuple[str, torch.Tensor]]:
    """The weights with GGUF's names, Llama's queries and keys in pairs of neighbours."""
    parts = [f"attn_{part}" for part in ("q", "k", "v", "output", "q_norm", "k_norm", "norm")]
    parts += [f"ffn_{part}" for part in ("gate", "up", "down", "norm")]
    blocks = [f"blk.{n}.{part}.{end}" for n in range(2) for part in parts for end in ("weight", "bias")]
    names = {transformers_name(name): name for name in [*blocks, "token_embd.weight", "output_norm.weight"]}
    config, found = model.config, []
    for name, parameter in model.named_parameters():
        numbers = parameter.detach()
        if config.model_type == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            numbers = numbers.reshape(heads, 2, -1, numbers.shape[1]).transpose(1, 2).reshape(numbers.shape)
        found.append((names.get(name, "output.weight"), numbers.contiguous()))
    if config.rope_parameters["rope_type"] == "llama3":
        slowed, usual = model.model.rotary_emb.inv_freq, 500_000.0 ** -(torch.arange(0, 8, 2) / 8)
        found.append(("rope_freqs.weight", usual / slowed))
    return found


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("kind", ["llama", "llama3", "qwen2", "qwen3"])
def test_a_file_has_the_logits_of_the_model_it_was_written_from(kind: str, tmp_path: Path) -> None:
    model = random_model(kind)
    path = write_gguf(tmp_path / "tiny.gguf", model)
    loaded = load_model(str(path))
    ids_BT = torch.randint(0, len(TOKENS), (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(loaded.model(ids_BT).logits, model(ids_BT).logits)
    assert loaded.model.config.tie_word_embeddings == model.config.tie_word_embeddings
    assert loaded.chat_format.end == TOKENS.index("<|im_end|>") == loaded.tokenizer.eos_token_id
    assert loaded.name == str(path)


def test_rounded_weights_stay_what_the_rounding_left(tmp_path: Path) -> None:
    kind, model = GGMLQuantizationType.Q8_0, random_model("qwen2")
    loaded = load_model(str(write_gguf(tmp_path / "tiny.gguf", model, quantised=kind)))
    own = model.model.layers[0].mlp.up_proj.weight.detach().numpy()
    got = loaded.model.model.layers[0].mlp.up_proj.weight.detach().numpy()
    assert np.array_equal(got, dequantize(quantize(own, kind), kind))
    assert not np.array_equal(got, own)


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("qwen2", ["ro", "Ġp", "1", "2", ".", "<tool>"]),
        ("smollm", ["ro", "Ġp", "1", "2", ".", "<tool>"]),
        ("llama-bpe", ["ro", "Ġp", "12", ".", "<tool>"]),
        ("gpt-2", ["ro", "Ġp", "12", ".", "<tool>"]),
    ],
)
def test_text_is_split_as_the_file_says(pre: str, expected: list[str], tmp_path: Path) -> None:
    tokenizer = load_model(str(write_gguf(tmp_path / "tiny.gguf", random_model("llama"), pre=pre))).tokenizer
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("ro p12.<tool>")) == expected
    for text in ("don't 3.14", " two  spaces ", "é 🎉 日本", "tabs\tand\r\nlines"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_sentence_piece_merges_by_score_and_falls_back_to_bytes() -> None:
    pieces = {"▁a": -1.0, "ab": -2.0, "▁ab": -3.0, "▁": -4.0, "a": -5.0, "b": -6.0}
    bytes_of = [f"<0x{number:02X}>" for number in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *bytes_of, *pieces]
    values = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.scores": [0.0] * (3 + 256) + list(pieces.values()),
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * len(pieces)],
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 0,
        "general.architecture": "llama",
        "llama.context_length": 64,
    }

    fields = {key: SimpleNamespace(contents=lambda value=value: value) for key, value in values.items()}
    tokenizer, end = build_tokenizer(SimpleNamespace(fields=fields))
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("ab ab")) == ["ab", "▁ab"]
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("aé")) == ["a", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(tokenizer.encode(" ab é")) == " ab é"
    assert end == 2, "without a template it is the file's own"


def test_conversion_is_kept_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write_gguf(tmp_path / "one.gguf", random_model("llama"))
    directory = base_directory(str(one))
    monkeypatch.setattr(gguf_file, "convert", lambda *_: pytest.fail("converted again"))
    other = one.rename(tmp_path / "other.gguf")
    assert base_directory(str(other)) == directory


def test_it_plays(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", random_model("qwen3"))
    where = ["--opponents", "rps-seven", "--trials", "2", "--context", "2048", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["evaluate", str(path), *where], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "score, episode 3" in done.output


def add(key: str, value: int | str) -> Callable[[GGUFWriter, str], None]:
    """Metadata that a file has besides."""
    return lambda writer, kind: (
        writer.add_string(f"{kind}.{key}", value)
        if isinstance(value, str)
        else writer.add_uint32(f"{kind}.{key}", value)
    )


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"kind": "gemma"}, r"its architecture is gemma; known: llama, qwen2, qwen3"),
        ({"tokenizer": "bert"}, r"its tokenizer is bert; known: gpt2, llama"),
        ({"pre": "tekken"}, r"its tokenizer splits text as tekken; known: default, gpt-2, llama-bpe"),
        ({"change": add("rope.scaling.type", "yarn")}, r"its rotary positions are scaled \(yarn\)"),
        ({"change": add("rope.scaling.factor", 4)}, r"its rotary positions are scaled \(linear\)"),
        ({"change": add("rope.scale_linear", 4)}, r"its rotary positions are scaled \(linear\)"),
        ({"change": add("rope.dimension_count", 4)}, r"it turns 4 of 8 dimensions"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, Any], why: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", random_model("llama"), **options)
    with pytest.raises(ConfigError, match=rf"cannot use .*tiny\.gguf as a model: {why}") as caught:
        load_model(str(path))
    assert "\n" not in str(caught.value)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    def change(writer: GGUFWriter, kind: str) -> None:
        writer.add_tensor("blk.0.attn_sinks.weight", np.zeros(4, dtype=np.float32))

    path = write_gguf(tmp_path / "tiny.gguf", random_model("llama"), change)
    with pytest.raises(ConfigError, match=r"it has weights blk\.0\.attn_sinks\.weight, which Llama"):
        load_model(str(path))


@pytest.mark.parametrize(
    ("name", "shape", "why"),
    [
        ("blk.0.attn_q.bias", 32, r"self_attn\.q_proj\.bias, which a llama model of 2 layers does not have"),
        ("blk.0.attn_q_norm.weight", 8, r"self_attn\.q_norm\.weight, which a llama model of 2 layers does not have"),
        ("blk.2.attn_norm.weight", 32, r"layers\.2\.input_layernorm\.weight, which a llama model of 2 layers"),
    ],
)
def test_weights_that_the_model_would_leave_out_are_refused(name: str, shape: int, why: str, tmp_path: Path) -> None:
    def change(writer: GGUFWriter, kind: str) -> None:
        writer.add_tensor(name, np.ones(shape, dtype=np.float32))

    path = write_gguf(tmp_path / "tiny.gguf", random_model("llama"), change)
    with pytest.raises(ConfigError, match=rf"cannot use .*tiny\.gguf as a model: it has weights .*{why}"):
        load_model(str(path))


@pytest.mark.parametrize(
    ("says", "value", "why"),
    [
        ("add_block_count", 1, r"it has weights model\.layers\.1\..*, which a llama model of 1 layers does not have"),
        ("add_block_count", 3, r"it has no weights model\.layers\.2\.input_layernorm\.weight"),
        ("add_block_count", 10**9, r"it says that it has 1000000000 layers, and has 20 weights"),
        ("add_head_count_kv", 4, r"k_proj\.weight have the shape \[16, 32\], and by its sizes \[32, 32\]"),
    ],
)
def test_sizes_that_are_not_those_of_the_weights_are_refused(
    says: str, value: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = getattr(GGUFWriter, says)
    monkeypatch.setattr(GGUFWriter, says, lambda writer, _: write(writer, value))
    path = write_gguf(tmp_path / "tiny.gguf", random_model("llama"))
    with pytest.raises(ConfigError, match=rf"cannot use .*tiny\.gguf as a model: .*{why}"):
        load_model(str(path))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all", None])
def test_damaged_files_are_one_line(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    if content is None:
        whole = write_gguf(path, random_model("llama")).read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
    else:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"cannot use .*tiny\.gguf as a model: ") as caught:
        load_model(str(path))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.gguf: No such file"):
        load_model(str(tmp_path / "none.gguf"))
