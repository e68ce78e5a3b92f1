"""The memory of one agent in one trial: token streams that only grow.

A stream begins with the system message and goes on by user messages and sampled answers; nothing in it is
encoded twice. Memory that is rewritten (reflections only, none, a full context, or another's reflection) begins
a new stream, in which earlier answers are mere context.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mage.errors import PlayError
from mage.prompts.messages import notes_message
from mage.protocols import Codec
from mage.types import Sampled

Note = tuple[int, str]
"""A reflection with the episode it followed."""


class _Message(NamedTuple):
    """A user message of the current stream."""

    episode: int
    text: str
    """What it says of its own episode: what comes before belongs to memory that can be dropped."""
    ids: tuple[int, ...]


class _Answer(NamedTuple):
    """What was sampled, with its end."""

    episode: int
    ids: tuple[int, ...]


class Context:
    """Builds the streams. `limit` is the most tokens that a prompt and its answer may have together."""

    def __init__(self, codec: Codec, system: str, limit: int) -> None:
        self._codec = codec
        self._opening = codec.opening(system)
        self._limit = limit
        self._streams: list[list[int]] = [list(self._opening)]
        self._pieces: list[_Message | _Answer] = []
        """The current stream after its opening: messages and answers in turn."""
        self._told = ""
        """What the next message starts with: how earlier episodes ended."""
        self._carried: list[Note] = []
        """The notes that the current stream opens with."""
        self.notes: list[Note] = []
        """Reflections that are still remembered."""
        self.overflows: list[int] = []
        """Episodes in which the context was full and the oldest memory was dropped."""

    @property
    def stream(self) -> int:
        """Number of the current stream."""
        return len(self._streams) - 1

    @property
    def prompt(self) -> list[int]:
        """The current stream."""
        return self._streams[-1]

    def streams(self) -> tuple[tuple[int, ...], ...]:
        """All streams that hold more than their opening; only the newest can hold less."""
        return tuple(tuple(s) for s in self._streams if len(s) > len(self._opening))

    def forget(self, notes: Sequence[Note]) -> None:
        """Begin a new stream that opens with `notes` and nothing else."""
        self._told = ""
        self._carried = list(notes)
        self._pieces = []
        self._begin(list(self._opening))

    def tell(self, text: str) -> None:
        """Put how an episode ended before the next message. It is dropped with that episode."""
        self._told += text

    def say(self, episode: int, text: str, room: int) -> None:
        """Append a user message, leaving `room` tokens for the answer and its end."""
        before = ("" if self._pieces else notes_message(self._carried)) + self._told
        message = _Message(episode, text, self._codec.user(before + text))
        glue = self._codec.close if self._pieces else ()
        self._told = ""
        self._pieces.append(message)
        if len(self.prompt) + len(glue) + len(message.ids) + room > self._limit:
            self._overflow(episode, room)
        else:
            self.prompt.extend((*glue, *message.ids))

    def answer(self, episode: int, sampled: Sampled) -> None:
        """Append what was sampled. A reply that was cut short gets its end as untrained context."""
        ids = (*sampled.tokens, self._codec.end) if sampled.cut else sampled.tokens
        self._pieces.append(_Answer(episode, ids))
        self.prompt.extend(ids)

    def reword(self, sampled: Sampled | None, instead: str) -> None:
        """Begin a new stream that differs in its last answer; without one its question goes too, `instead` is told."""
        *pieces, message, answer = self._pieces
        assert isinstance(message, _Message)
        assert isinstance(answer, _Answer)
        before = self.prompt[: -len(answer.ids)]
        if sampled is None:
            # What a stream opens with is encoded with its first message: without any, only the opening is left.
            before = before[: -len((*self._codec.close, *message.ids))] if pieces else list(self._opening)
            self.tell(instead)
        self._pieces = pieces if sampled is None else [*pieces, message]
        self._begin(before)
        if sampled is not None:
            self.answer(answer.episode, sampled)

    def _begin(self, ids: list[int]) -> None:
        """Make `ids` the current stream. One in which nothing was said is replaced, so that numbers stay true."""
        if len(self.prompt) > len(self._opening):
            self._streams.append(ids)
        else:
            self._streams[-1] = ids

    def _overflow(self, episode: int, room: int) -> None:
        """Drop the oldest whole episodes, then the older half of the notes, and begin a new stream.

        Episodes leave until half of the context is free: otherwise every further message would overflow again
        and begin a stream of its own. Notes leave only when nothing else is left to drop.
        """
        if episode not in self.overflows:
            self.overflows.append(episode)
        space = self._limit - room
        pieces, notes, ids = self._pieces, self._carried, self._encoded(self._pieces, self._carried)
        for oldest in range(self._pieces[0].episode + 1, episode + 1):
            if len(ids) <= space // 2:
                break
            pieces = [piece for piece in self._pieces if piece.episode >= oldest]
            notes = [note for note in self.notes if note[0] < oldest]
            ids = self._encoded(pieces, notes)
        while len(ids) > space:
            if not notes:
                raise PlayError(
                    f"a context of {self._limit} tokens is too small for episode {episode + 1} alone "
                    f"with {room} tokens to answer; raise agent.context or shorten the answers"
                )
            notes = notes[(len(notes) + 1) // 2 :]
            ids = self._encoded(pieces, notes)
        self.notes = [*notes, *(note for note in self.notes if note[0] >= pieces[0].episode)]
        self._pieces, self._carried = pieces, notes
        self._begin(ids)

    def _encoded(self, pieces: Sequence[_Message | _Answer], notes: Sequence[Note]) -> list[int]:
        """A stream of these pieces. Only the message that the notes are put before is encoded anew."""
        first, *others = pieces
        assert isinstance(first, _Message)
        ids = [*self._opening, *self._codec.user(notes_message(notes) + first.text)]
        for piece in others:
            ids += self._codec.close if isinstance(piece, _Message) else ()
            ids += piece.ids
        return ids
