"""The memory of one agent in one trial: token streams that only grow.

A stream begins with the system message and goes on by user messages and sampled answers; nothing in it is
encoded twice. Memory that is rewritten (reflections only, none, or a full context) begins a new stream, in
which earlier answers are mere context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mage.errors import PlayError
from mage.prompts.messages import notes_message
from mage.protocols import Codec
from mage.types import Sampled


class _Piece(NamedTuple):
    episode: int
    text: str
    """A user message; empty for an answer."""
    ids: tuple[int, ...]
    """An answer as sampled; empty for a user message."""


class Context:
    """Builds the streams. `limit` is the most tokens that a prompt and its answer may have together."""

    def __init__(self, codec: Codec, system: str, limit: int) -> None:
        self._codec = codec
        self._opening = codec.opening(system)
        self._limit = limit
        self._pieces: list[_Piece] = []
        self._streams: list[list[int]] = [list(self._opening)]
        self._answered = False
        self.notes: list[tuple[int, str]] = []
        """Reflections so far, each with the episode it followed."""
        self._carried: list[tuple[int, str]] = []
        """The notes that the current stream opens with."""
        self.overflows: list[int] = []

    @property
    def stream(self) -> int:
        """Number of the current stream."""
        return len(self._streams) - 1

    @property
    def prompt(self) -> list[int]:
        """The current stream."""
        return self._streams[-1]

    def streams(self) -> tuple[tuple[int, ...], ...]:
        """All streams that hold more than their opening."""
        return tuple(tuple(s) for s in self._streams if len(s) > len(self._opening))

    def forget(self, notes: Sequence[tuple[int, str]]) -> None:
        """Begin a new stream that opens with `notes` and nothing else."""
        self._pieces.clear()
        self._carried = list(notes)
        if len(self.prompt) > len(self._opening):
            self._streams.append(list(self._opening))
        self._answered = False

    def say(self, episode: int, text: str, room: int) -> None:
        """Append a user message, leaving `room` tokens for the answer."""
        self._pieces.append(_Piece(episode, text, ()))
        if len(self._pieces) == 1:
            text = notes_message(self._carried) + text
        ids = (*(self._codec.close if self._answered else ()), *self._codec.user(text))
        if len(self.prompt) + len(ids) + room > self._limit:
            self._overflow(episode, room)
        else:
            self.prompt.extend(ids)
        self._answered = False

    def answer(self, episode: int, sampled: Sampled) -> None:
        """Append what was sampled. A reply that was cut short gets its end as untrained context."""
        ids = (*sampled.tokens, self._codec.end) if sampled.cut else sampled.tokens
        self._pieces.append(_Piece(episode, "", ids))
        self.prompt.extend(ids)
        self._answered = True

    def _overflow(self, episode: int, room: int) -> None:
        """Drop the oldest whole episodes, then the oldest notes, until the rest fits a new stream."""
        if not self.overflows or self.overflows[-1] != episode:
            self.overflows.append(episode)
        first_kept = self._pieces[0].episode
        carried = self._carried
        while True:
            if first_kept < episode:
                first_kept += 1
                carried = [(e, note) for e, note in self.notes if e < first_kept]
            elif carried:
                carried = carried[1:]
            else:
                raise PlayError(
                    f"a context of {self._limit} tokens is too small for episode {episode + 1} alone "
                    f"with {room} tokens to answer; raise agent.context or shorten the answers"
                )
            pieces = [p for p in self._pieces if p.episode >= first_kept]
            ids = self._encode(pieces, carried)
            if len(ids) + room <= self._limit:
                break
        self._pieces, self._carried = pieces, carried
        self._streams.append(ids)

    def _encode(self, pieces: Sequence[_Piece], notes: Sequence[tuple[int, str]]) -> list[int]:
        ids = list(self._opening)
        for index, piece in enumerate(pieces):
            if piece.text:
                ids += self._codec.close if index else ()
                ids += self._codec.user(piece.text if index else notes_message(notes) + piece.text)
            else:
                ids += piece.ids
        return ids


ContextFactory = Callable[[str], Context]
