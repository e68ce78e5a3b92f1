"""The memory of one agent in one trial: token streams that only grow.

A stream begins with the system message and goes on by user messages and sampled answers; nothing in it is
encoded twice. Memory that is rewritten (reflections only, none, a full context, or another's reflection) begins
a new stream, in which earlier answers are mere context.

What a method brings back for one decision stands before that decision's message, and is the first to go when the
context is full.

Where thoughts are stripped, the message that follows an answer with a thought begins a new stream, in which the answer
stands without it: the thought is read and trained where it was sampled and nowhere else. A stream for each answer costs
the square of what one costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

from mage.agents.messages import notes_message
from mage.agents.parsing import opens_thought, strip_thoughts
from mage.errors import PlayError
from mage.protocols import ChatFormat
from mage.types import Completion, Thoughts

Note = tuple[int, str]
"""A reflection with the episode it followed."""
_THOUGHT, _NO_THOUGHT = "<think>", "\n</think>\n\n"
"""What opens a thought, and what closes one that a template has opened and nobody thinks."""


class _Recall(NamedTuple):
    """What a method brings back for one decision, best first."""

    heading: str
    items: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join((self.heading, *self.items)) + "\n\n" if self.items else ""


_NOTHING = _Recall("", ())


class _Message(NamedTuple):
    """A user message of the current stream."""

    episode: int
    recall: _Recall
    text: str
    """What it says of its own episode: what comes before belongs to memory that can be dropped."""
    ids: tuple[int, ...]
    begun: tuple[int, ...]
    """How its answer begins, at the end of `ids`."""


class _Answer(NamedTuple):
    """What was sampled, with its end."""

    episode: int
    ids: tuple[int, ...]
    kept: tuple[int, ...]
    """What later messages find in its place: the same, less thoughts that are stripped."""


class Context:
    """Builds the streams. `limit` is the most tokens that a prompt and its answer may have together."""

    def __init__(self, chat_format: ChatFormat, system: str, limit: int, thoughts: Thoughts = Thoughts.KEEP) -> None:
        self._chat_format = chat_format
        self._opening = chat_format.opening(system)
        self._limit = limit
        self._strips = thoughts is Thoughts.STRIP
        self._opens_thoughts = self._strips and opens_thought(chat_format.decode(chat_format.user("")))
        """Some templates open a thought before each answer."""
        self._streams: list[list[int]] = [list(self._opening)]
        self._pieces: list[_Message | _Answer] = []
        """The current stream after its opening: messages and answers in turn."""
        self._told = ""
        """What the next message starts with: how earlier episodes ended."""
        self._recall = _NOTHING
        """What the next message brings back."""
        self._carried: list[Note] = []
        """The notes that the current stream opens with."""
        self.notes: list[Note] = []
        """Reflections that are still remembered."""
        self.overflows: list[int] = []
        """Episodes in which the context was full and the oldest memory was dropped."""

    def fork(self) -> Context:
        """A copy that grows on its own."""
        other = copy(self)
        other._streams = [*self._streams[:-1], list(self.prompt)]
        other._pieces, other._carried = list(self._pieces), list(self._carried)
        other.notes, other.overflows = list(self.notes), list(self.overflows)
        return other

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

    @property
    def recalled(self) -> frozenset[str]:
        """What was brought back in the current stream and still stands there."""
        return frozenset(item for piece in self._pieces if isinstance(piece, _Message) for item in piece.recall.items)

    def forget(self, notes: Sequence[Note]) -> None:
        """Begin a new stream that opens with `notes` and nothing else."""
        self._told, self._recall = "", _NOTHING
        self._carried = list(notes)
        self._pieces = []
        self._begin(list(self._opening))

    def tell(self, text: str) -> None:
        """Put how an episode ended before the next message. It is dropped with that episode."""
        self._told += text

    def recall(self, heading: str, items: Sequence[str]) -> None:
        """Put what was found, best first, before the next message. It is dropped before anything else."""
        self._recall = _Recall(heading, tuple(items))

    def say(self, episode: int, text: str, room: int, begun: str = "") -> None:
        """Append a user message and how its answer begins, leaving `room` tokens for the rest and the end."""
        before = ("" if self._pieces else notes_message(self._carried)) + self._told + self._recall.text
        start = self._chat_format.answer(begun)[:-1] if begun else ()
        message = _Message(episode, self._recall, text, self._chat_format.user(before + text) + start, start)
        glue = self._chat_format.close if self._pieces else ()
        self._told, self._recall = "", _NOTHING
        read = self._read()
        self._pieces.append(message)
        if len(read) + len(glue) + len(message.ids) + room > self._limit:
            self._overflow(episode, room)
        else:
            if read is not self.prompt:
                self._begin(read)
            self.prompt.extend((*glue, *message.ids))

    def answer(self, episode: int, completion: Completion) -> None:
        """Append what was sampled. A reply that was cut short gets its end as untrained context."""
        answer = self._answer(episode, completion)
        self._pieces.append(answer)
        self.prompt.extend(answer.ids)

    def reword(self, completion: Completion | None, instead: str) -> None:
        """Begin a new stream that differs in its last answer; without one its question goes too, `instead` is told."""
        *pieces, message, answer = self._pieces
        assert isinstance(message, _Message)
        assert isinstance(answer, _Answer)
        before = self.prompt[: -len(answer.ids)]
        if completion is None:
            # What a stream opens with is encoded with its first message: without any, only the opening is left.
            before = before[: -len((*self._chat_format.close, *message.ids))] if pieces else list(self._opening)
            self.tell(instead)
        self._pieces = pieces if completion is None else [*pieces, message]
        self._begin(before)
        if completion is not None:
            kept = self._answer(answer.episode, completion).kept
            self._pieces.append(_Answer(answer.episode, kept, kept))
            self.prompt.extend(kept)

    def _answer(self, episode: int, completion: Completion) -> _Answer:
        ids = (*completion.tokens, self._chat_format.end) if completion.truncated else completion.tokens
        is_free = completion.allowed is None
        return _Answer(episode, ids, self._stripped(ids) if self._strips and is_free else ids)

    def _stripped(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """An answer without its thoughts; as it is where it has none."""
        text = self._chat_format.decode(ids)
        if self._opens_thoughts:
            return self._chat_format.answer(_NO_THOUGHT + strip_thoughts(_THOUGHT + text).strip())
        spoken = strip_thoughts(text)
        return ids if spoken == text else self._chat_format.answer(spoken.strip())

    def _read(self) -> list[int]:
        """What the next message follows: the current stream, or its copy with the newest answer as it is kept."""
        if not self._pieces:
            return self.prompt
        answer = self._pieces[-1]
        assert isinstance(answer, _Answer)
        if answer.kept == answer.ids:
            return self.prompt
        self._pieces[-1] = _Answer(answer.episode, answer.kept, answer.kept)
        return [*self.prompt[: -len(answer.ids)], *answer.kept]

    def _begin(self, ids: list[int]) -> None:
        """Make `ids` the current stream. One in which nothing was said is replaced, so that numbers stay true."""
        if len(self.prompt) > len(self._opening):
            self._streams.append(ids)
        else:
            self._streams[-1] = ids

    def _overflow(self, episode: int, room: int) -> None:
        """Drop the oldest whole episodes, then what was brought back, then the older half of the notes, and begin anew.

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
            if any(isinstance(piece, _Message) and piece.recall.items for piece in pieces):
                pieces = self._less_recalled(pieces)
            elif notes:
                notes = notes[(len(notes) + 1) // 2 :]
            else:
                raise PlayError(
                    f"a context of {self._limit} tokens is too small for episode {episode + 1} alone "
                    f"with {room} tokens to answer; raise agent.context or shorten the answers"
                )
            ids = self._encoded(pieces, notes)
        self.notes = [*notes, *(note for note in self.notes if note[0] >= pieces[0].episode)]
        self._pieces, self._carried = pieces, notes
        self._begin(ids)

    def _less_recalled(self, pieces: Sequence[_Message | _Answer]) -> list[_Message | _Answer]:
        """Without what was brought back for earlier decisions; where nothing was, with half of what the newest has."""
        *earlier, newest = pieces
        assert isinstance(newest, _Message)
        if any(isinstance(piece, _Message) and piece.recall.items for piece in earlier):
            return [*(self._recalling(piece, 0) if isinstance(piece, _Message) else piece for piece in earlier), newest]
        return [*earlier, self._recalling(newest, len(newest.recall.items) // 2)]

    def _recalling(self, message: _Message, num: int) -> _Message:
        """A message with the first items only of what it brings back."""
        # What was told of earlier episodes need not be kept: they have all left by now.
        recall = _Recall(message.recall.heading, message.recall.items[:num])
        return message._replace(recall=recall, ids=self._chat_format.user(recall.text + message.text) + message.begun)

    def _encoded(self, pieces: Sequence[_Message | _Answer], notes: Sequence[Note]) -> list[int]:
        """A stream of these pieces. Only the message that the notes are put before is encoded anew."""
        first, *others = pieces
        assert isinstance(first, _Message)
        told = self._chat_format.user(notes_message(notes) + first.recall.text + first.text)
        ids = [*self._opening, *told, *first.begun]
        for piece in others:
            ids += self._chat_format.close if isinstance(piece, _Message) else ()
            ids += piece.ids if isinstance(piece, _Message) else piece.kept
        return ids
