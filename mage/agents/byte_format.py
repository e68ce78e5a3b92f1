"""A chat format without a tokenizer, for scripted and remote models: UTF-8 bytes and four control ids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_SYSTEM, _USER, _ASSISTANT, _END = 256, 257, 258, 259
_NAMES = {_SYSTEM: "<|system|>\n", _USER: "\n<|user|>\n", _ASSISTANT: "\n<|assistant|>\n", _END: ""}
_ROLES = {_SYSTEM: "system", _USER: "user", _ASSISTANT: "assistant"}


class ByteFormat:
    """Control ids are not bytes, so no text can contain one.

    >>> chat_format = ByteFormat()
    >>> chat_format.decode(chat_format.choice("rock"))
    'rock'
    """

    end = _END
    close: tuple[int, ...] = ()

    def opening(self, system: str) -> tuple[int, ...]:
        return (_SYSTEM, *_bytes(system))

    def user(self, text: str) -> tuple[int, ...]:
        return (_USER, *_bytes(text), _ASSISTANT)

    def choice(self, action: str) -> tuple[int, ...]:
        return self.answer(action)

    def answer(self, text: str) -> tuple[int, ...]:
        return (*_bytes(text), _END)

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(t for t in tokens if t < _SYSTEM).decode(errors="replace")

    def transcript(self, tokens: Sequence[int]) -> str:
        """A whole stream as text with its roles marked: the prompt of a scripted model.

        >>> chat_format = ByteFormat()
        >>> chat_format.transcript(chat_format.opening("Play.") + chat_format.user("Go.") + chat_format.choice("rock"))
        '<|system|>\\nPlay.\\n<|user|>\\nGo.\\n<|assistant|>\\nrock'
        """
        marks = [at for at, token in enumerate(tokens) if token >= _SYSTEM]
        texts = (self.decode(tokens[start:stop]) for start, stop in pairwise((0, *marks, len(tokens))))
        return next(texts) + "".join(_NAMES[tokens[at]] + text for at, text in zip(marks, texts, strict=True))

    def messages(self, tokens: Sequence[int]) -> list[tuple[str, str]]:
        """A stream as (role, text) messages for a chat server, without the answer that it opens.

        >>> form = ByteFormat()
        >>> form.messages(form.opening("Play.") + form.user("Go.") + form.choice("rock") + form.user("On."))
        [('system', 'Play.'), ('user', 'Go.'), ('assistant', 'rock'), ('user', 'On.')]
        """
        marks = [at for at, token in enumerate(tokens) if token in _ROLES]
        spans = pairwise((*marks, len(tokens)))
        said = [(_ROLES[tokens[start]], self.decode(tokens[start:stop])) for start, stop in spans]
        return said[:-1] if tokens[-1] == _ASSISTANT else said


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")  # lone surrogates have no UTF-8
