"""A codec without a model: UTF-8 bytes and four control ids. Scripted engines and tests speak it."""

from __future__ import annotations

from collections.abc import Sequence

_SYSTEM, _USER, _ASSISTANT, _END = 256, 257, 258, 259
_NAMES = {_SYSTEM: "<|system|>\n", _USER: "\n<|user|>\n", _ASSISTANT: "\n<|assistant|>\n", _END: ""}


class PlainCodec:
    """Control ids are not bytes, so no text can contain one.

    >>> codec = PlainCodec()
    >>> codec.decode(codec.choice("rock"))
    'rock'
    """

    end = _END
    close: tuple[int, ...] = ()

    def opening(self, system: str) -> tuple[int, ...]:
        return (_SYSTEM, *system.encode())

    def user(self, text: str) -> tuple[int, ...]:
        return (_USER, *text.encode(), _ASSISTANT)

    def choice(self, action: str) -> tuple[int, ...]:
        return (*action.encode(), _END)

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(t for t in tokens if t < 256).decode(errors="replace")

    def transcript(self, tokens: Sequence[int]) -> str:
        """A whole stream as text, with the roles marked: what a scripted model reads."""
        parts: list[str] = []
        start = 0
        for at, token in enumerate(tokens):
            if token >= 256:
                parts += [bytes(tokens[start:at]).decode(errors="replace"), _NAMES[token]]
                start = at + 1
        return "".join([*parts, bytes(tokens[start:]).decode(errors="replace")])
