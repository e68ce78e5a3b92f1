"""Tokens as text, without torch: by the tokenizer that a checkpoint holds, or by the bytes of scripted models."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mage.agents.byte_format import ByteFormat
from mage.errors import RecordError

_END = "<|end|>"
_PLAIN_NAMES = ("scripted:", "remote:", "remote(")
"""Agents whose tokens are bytes."""


class _Tokenizer(msgspec.Struct):
    """What every tokenizer file has."""

    model: dict[str, Any]


class Reader(Protocol):
    """Makes text of tokens."""

    def text(self, tokens: Sequence[int]) -> str:
        """Many tokens at once, control tokens shown by their names."""

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text of each; a character of several tokens stands with its last one."""


class PlainReader:
    """Reads `ByteFormat`: bytes and four control ids."""

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
    """Reads what a tokenizer in a `tokenizer.json` has written."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        try:
            content = path.read_bytes()
            msgspec.json.decode(content, type=_Tokenizer)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RecordError(f"{path} cannot be read: {error}") from None
        self._tokenizer = Tokenizer.from_buffer(content)

    def text(self, tokens: Sequence[int]) -> str:
        known = self._tokenizer.get_vocab_size()
        return str(self._tokenizer.decode([t for t in tokens if 0 <= t < known], skip_special_tokens=False))

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        from tokenizers.decoders import DecodeStream

        stream: Any = DecodeStream(skip_special_tokens=False)
        return [stream.step(self._tokenizer, token) or "" for token in tokens]


PLAIN = PlainReader()


def is_plain(name: str) -> bool:
    """Whether whoever has this name speaks in bytes."""
    return name.startswith(_PLAIN_NAMES)


def tokenizer_reader(path: Path) -> Reader | None:
    """The reader of a tokenizer file, read once; None where the library for it is not installed."""
    if find_spec("tokenizers") is None:
        return None
    return _cached(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _cached(path: Path, mtime: int) -> Reader:
    return TokenizerReader(path)
