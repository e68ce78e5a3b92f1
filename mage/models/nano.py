"""`nano`: a tiny Llama with a word-level vocabulary, small enough to learn on two CPU cores.

It is a transformers model with a tokenizer, a chat template and Hugging Face layout on disk. The chat template adds one
token before a message and one before an answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from mage.errors import ConfigError, RecordError, library_errors
from mage.models.vocabulary import DROPPED, piece_pattern, vocabulary

WORLDS_KEY = "mage_worlds"
"""The key of a tokenizer's settings that has the worlds whose words it knows; saved with it."""
PAD, UNKNOWN, END = "<pad>", "<unk>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ '<|end|>' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
_EMBEDDING_STD = 0.02
"""Small, and tied to the head: the first policy is close to uniform."""


def build_tokenizer(worlds: tuple[str, ...] = (), extra: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """A word-level tokenizer. Its ids depend on the words of the worlds and on `extra` words."""
    words = vocabulary(worlds, extra)
    ids = {word: number for number, word in enumerate((PAD, UNKNOWN, END, *ROLES, *words))}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Replace(Regex(DROPPED), "")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(piece_pattern(words)), "removed", invert=True)
    return _wrapped(tokenizer, worlds)


def read_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """A tokenizer of `build_tokenizer` from the directory it was saved to; saved again, it gives the same files."""
    with library_errors(lambda why: RecordError(f"the tokenizer in {folder} cannot be read: {why}")):
        settings = msgspec.json.decode((folder / "tokenizer_config.json").read_bytes(), type=_TokenizerSettings)
        tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
        return _wrapped(tokenizer, settings.worlds)


class _TokenizerSettings(msgspec.Struct):
    worlds: tuple[str, ...] = msgspec.field(default=(), name=WORLDS_KEY)


def _wrapped(tokenizer: Tokenizer, worlds: Sequence[str]) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        extra_special_tokens=list(ROLES),
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        **{WORLDS_KEY: list(worlds)},
    )


def build_model(
    tokenizer: PreTrainedTokenizerFast,
    *,
    seed: int,
    hidden: int,
    layers: int,
    heads: int,
    feedforward: int,
    context: int,
    rope: int,
) -> Any:
    """A Llama with random weights fixed by `seed`; the global generator is not changed.

    `rope` is the base of the rotary frequencies: a smaller one has more of them for short distances.
    """
    if hidden % heads or (hidden // heads) % 2:
        raise ConfigError(f"hidden must be an even multiple of heads, not {hidden} and {heads}")
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=feedforward,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=context,
        rope_parameters={"rope_type": "default", "rope_theta": float(rope)},
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,  # padding is known by lengths; a padding id would freeze its embedding
    )
    with torch.random.fork_rng(devices=[]):
        model: Any = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
    generator = torch.Generator().manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
    for name, weight in model.named_parameters():
        _initialise(name, weight, layers, generator)
    return model.eval()


@torch.no_grad()
def _initialise(name: str, weight: torch.Tensor, layers: int, generator: torch.Generator) -> None:
    """Variance-preserving initialisation; projections into the residual stream are scaled down by depth."""
    if weight.dim() < 2:
        weight.fill_(1.0)
        return
    std = _EMBEDDING_STD if "embed_tokens" in name else 1.0 / math.sqrt(weight.shape[1])
    if name.endswith(("o_proj.weight", "down_proj.weight")):
        std /= math.sqrt(2 * layers)
    weight.normal_(0.0, std, generator=generator)
