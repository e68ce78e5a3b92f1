"""The tokenizer of a GGUF file, built from its tables: byte-level BPE, and SentencePiece's BPE.

transformers has a reader of its own, which splits neither numbers nor words as the models were trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mage.agents.chat_format import TemplateFormat
from mage.errors import ConfigError, listing
from mage.models.gguf_fields import value

_CONTROL, _USER_DEFINED = 3, 4
"""GGUF's types of tokens that are not made by merging."""
_SPACE = "▁"
_WORDS = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+",
        r"\p{{N}}{digits}",
        r" ?[^\s\p{{L}}\p{{N}}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""How Llama 3 and Qwen 2 split text before merging; they differ in the digits that stay together."""


def build_tokenizer(reader: Any) -> tuple[PreTrainedTokenizerFast, int]:
    """The tokenizer of a file, and the token that ends a turn.

    That is what the chat template puts after an answer; the file's own end of text is another one in some models.
    """
    tokens = value(reader, "tokenizer.ggml.tokens")
    kind = str(value(reader, "tokenizer.ggml.model"))
    if kind not in _BUILDERS:
        raise ConfigError(f"its tokenizer is {kind}; known: {listing(_BUILDERS)}")
    core = _BUILDERS[kind](reader, tokens)
    types = value(reader, "tokenizer.ggml.token_type")
    kinds = {_CONTROL: True, _USER_DEFINED: False}
    added = [
        AddedToken(token, special=kinds[type_], normalized=False)
        for token, type_ in zip(tokens, types, strict=True)
        if type_ in kinds
    ]
    core.add_special_tokens([token for token in added if token.special])
    core.add_tokens([token for token in added if not token.special])
    eos = int(value(reader, "tokenizer.ggml.eos_token_id"))
    end = _end_of_turn(_wrapped(reader, core, tokens, eos), eos)
    return _wrapped(reader, core, tokens, end), end


def _wrapped(reader: Any, core: Tokenizer, tokens: Sequence[str], end: int) -> PreTrainedTokenizerFast:
    unknown = reader.fields.get("tokenizer.ggml.unknown_token_id")
    architecture = value(reader, "general.architecture")
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core,
        bos_token=tokens[int(value(reader, "tokenizer.ggml.bos_token_id", end))],
        eos_token=tokens[end],
        pad_token=tokens[end],
        chat_template=value(reader, "tokenizer.chat_template", "") or None,
        clean_up_tokenization_spaces=False,
        model_max_length=int(value(reader, f"{architecture}.context_length")),
        **({} if unknown is None else {"unk_token": tokens[int(unknown.contents())]}),
    )


def _end_of_turn(tokenizer: PreTrainedTokenizerFast, eos: int) -> int:
    """The token after an answer; the file's own where the template cannot be used, which is said where it is loaded."""
    try:
        return TemplateFormat(tokenizer).end
    except ConfigError:
        return eos


def _byte_level(reader: Any, tokens: Sequence[str]) -> Tokenizer:
    split = str(value(reader, "tokenizer.ggml.pre", "default"))
    if split not in _SPLITS:
        raise ConfigError(f"its tokenizer splits text as {split}; known: {listing(_SPLITS)}")
    merges = [(left, right) for left, right in (merge.split(" ") for merge in value(reader, "tokenizer.ggml.merges"))]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=split == "llama-bpe"))
    if split == "qwen2":
        made.normalizer = normalizers.NFC()
    made.pre_tokenizer = _SPLITS[split]
    made.decoder = decoders.ByteLevel()
    return made


def _on(words: str) -> Any:
    """Split by a pattern, then bytes as letters."""
    split = pre_tokenizers.Split(Regex(words), behavior="isolated", invert=False)
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


_GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
_SPLITS: Mapping[str, Any] = {
    "default": _GPT2,
    "gpt-2": _GPT2,
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _GPT2]),
    "qwen2": _on(_WORDS.format(digits="")),
    "llama-bpe": _on(_WORDS.format(digits="{1,3}")),
}
"""By `tokenizer.ggml.pre`, how text is split before merging."""


def _sentence_piece(reader: Any, tokens: Sequence[str]) -> Tokenizer:
    """SentencePiece's BPE: pieces are merged by their scores, and unknown letters are bytes. No space is put before."""
    scores = value(reader, "tokenizer.ggml.scores")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    ranked = sorted(range(len(tokens)), key=lambda i: (-scores[i], i))
    merges = [
        (piece[:at], piece[at:])
        for piece in (tokens[i] for i in ranked)
        for at in sorted(range(1, len(piece)), key=lambda at: -at)
        if piece[:at] in vocabulary and piece[at:] in vocabulary
    ]
    unknown = tokens[int(value(reader, "tokenizer.ggml.unknown_token_id", 0))]
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", _SPACE)
    made.decoder = decoders.Sequence([decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    return made


_BUILDERS = {"gpt2": _byte_level, "llama": _sentence_piece}
"""By `tokenizer.ggml.model`."""
