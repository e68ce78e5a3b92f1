"""Decodes tokens without torch: by the tokenizer file of a checkpoint, or as bytes for scripted and remote models."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from mage.agents.byte_format import ByteFormat
from mage.errors import RecordError, library_errors

_END = "<|end|>"
_BYTE_PREFIXES = ("scripted:", "remote:", "remote(")
"""Name prefixes of agents whose tokens are bytes."""


class Reader(Protocol):
    """Decodes tokens."""

    def text(self, tokens: Sequence[int]) -> str:
        """The text of many tokens, control tokens by name."""

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text of each token; a character of several tokens is in the last one."""


class ByteReader:
    """Decodes `ByteFormat`: bytes and four control ids."""

    def __init__(self) -> None:
        self._chat_format = ByteFormat()

    def text(self, tokens: Sequence[int]) -> str:
        return self._chat_format.transcript(tokens)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return [decoder.decode(bytes([token])) if token < 256 else self._control(token) for token in tokens]

    def _control(self, token: int) -> str:
        return _END if token == self._chat_format.end else self._chat_format.transcript([token])


class TokenizerReader:
    """Decodes with a `tokenizer.json`."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        self._path = path
        with library_errors(lambda why: RecordError(f"{path} cannot be read: {why}")):
            self._tokenizer = Tokenizer.from_buffer(path.read_bytes())

    def text(self, tokens: Sequence[int]) -> str:
        with library_errors(self._refusal):
            known = self._tokenizer.get_vocab_size()
            return str(self._tokenizer.decode([t for t in tokens if 0 <= t < known], skip_special_tokens=False))

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        from tokenizers.decoders import DecodeStream

        with library_errors(self._refusal):
            stream: Any = DecodeStream(skip_special_tokens=False)
            return [stream.step(self._tokenizer, token) or "" for token in tokens]

    def _refusal(self, why: str) -> RecordError:
        return RecordError(f"{self._path} has no text for the tokens of this trial: {why}")


BYTES = ByteReader()


def uses_bytes(name: str) -> bool:
    """Whether the tokens of an agent are bytes, by its name."""
    return name.startswith(_BYTE_PREFIXES)


def tokenizer_reader(path: Path) -> Reader | None:
    """The cached reader of a tokenizer file; None if tokenizers is not installed."""
    if find_spec("tokenizers") is None:
        return None
    return _cached(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _cached(path: Path, mtime: int) -> Reader:
    return TokenizerReader(path)
