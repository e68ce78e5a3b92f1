"""The memory of one agent in one trial: token streams that only grow.

A stream begins with the system message and continues with user messages and sampled answers; nothing in it is encoded
twice. A new stream begins when memory is rewritten: with memory reflections or none, on overflow, or when a reflection
is replaced. Earlier answers in a new stream are context and not trained.

Text that a prompting method retrieves for a decision is put before that decision's message, and dropped first on
overflow.

If thoughts are stripped, the message after an answer with a thought begins a new stream that holds the answer without
it and without its prefilled start: a thought is trained only in the stream where it was sampled. The cost is quadratic
in the number of such answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import NamedTuple

from mage.agents.messages import notes_message
from mage.agents.parsing import opens_thought, strip_thoughts
from mage.errors import PlayError
from mage.protocols import ChatFormat
from mage.types import Completion, Thoughts

Note = tuple[int, str]
"""A reflection with the episode it followed."""
THOUGHT, NO_THOUGHT = "<think>", "\n</think>\n\n"
"""The tag that opens a thought, and the text that closes an empty one which the template has opened."""


class _Recall(NamedTuple):
    """Text retrieved for one decision, best first."""

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
    """The part about its own episode; the part before it is memory that can be dropped."""
    ids: tuple[int, ...]
    begun: tuple[int, ...]
    """The prefilled start of its answer, at the end of `ids`."""
    spoken: Callable[[str], str]
    """What is left of its answer where thoughts are stripped."""


class _Answer(NamedTuple):
    """A sampled answer with its end token."""

    episode: int
    ids: tuple[int, ...]
    stripped: tuple[int, ...] | None = None
    """What later messages see instead of the prefilled start and `ids`; None if they see both."""


class Context:
    """Builds the streams. `limit` is the most tokens of a prompt with its answer."""

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
        self._preface = ""
        """Prefix of the next message: how earlier episodes ended."""
        self._recall = _NOTHING
        """Retrieved text for the next message."""
        self._carried: list[Note] = []
        """The notes at the start of the current stream."""
        self.notes: list[Note] = []
        """Reflections still in memory."""
        self.overflows: list[int] = []
        """Episodes in which the context was full and the oldest memory was dropped."""

    def fork(self) -> Context:
        """An independent copy."""
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
        """All streams with more than their opening; only the newest can be without."""
        return tuple(tuple(s) for s in self._streams if len(s) > len(self._opening))

    @property
    def recalled(self) -> frozenset[str]:
        """The retrieved items in the current stream."""
        return frozenset(item for piece in self._pieces if isinstance(piece, _Message) for item in piece.recall.items)

    def restart(self, notes: Sequence[Note]) -> None:
        """Begin a new stream with `notes` as its only memory."""
        self._preface, self._recall = "", _NOTHING
        self._carried = list(notes)
        self._pieces = []
        self._begin_stream(list(self._opening))

    def add_to_next_message(self, text: str) -> None:
        """Text that the next message begins with, such as how an episode ended. It is dropped with that episode."""
        self._preface += text

    def recall(self, heading: str, items: Sequence[str]) -> None:
        """Prepend retrieved items, best first, to the next message. They are dropped before anything else."""
        self._recall = _Recall(heading, tuple(items))

    def add_message(
        self, episode: int, text: str, reserved: int, begun: str = "", spoken: Callable[[str], str] = strip_thoughts
    ) -> None:
        """Append a user message and the start of its answer, and reserve tokens for the rest and the end token.

        Where thoughts are stripped, `spoken` says what later messages see of the answer.
        """
        before = ("" if self._pieces else notes_message(self._carried)) + self._preface + self._recall.text
        start = self._chat_format.answer(begun)[:-1] if begun else ()
        message = _Message(episode, self._recall, text, self._chat_format.user(before + text) + start, start, spoken)
        glue = self._chat_format.close if self._pieces else ()
        self._preface, self._recall = "", _NOTHING
        read = self._ids_before_next()
        self._pieces.append(message)
        if len(read) + len(glue) + len(message.ids) + reserved > self._limit:
            self._overflow(episode, reserved)
        else:
            if read is not self.prompt:
                self._begin_stream(read)
            self.prompt.extend((*glue, *message.ids))

    def add_answer(self, episode: int, completion: Completion) -> None:
        """Append a sampled answer. A truncated reply gets its end token as untrained context."""
        answer = self._answer(episode, completion)
        self._pieces.append(answer)
        self.prompt.extend(answer.ids)

    def replace_answer(self, completion: Completion | None, instead: str) -> None:
        """Begin a new stream with another last answer; for None the question is removed too and `instead` is told."""
        *pieces, message, answer = self._pieces
        assert isinstance(message, _Message)
        assert isinstance(answer, _Answer)
        before = self.prompt[: -len(answer.ids)]
        if completion is None:
            # Notes are encoded with the first message: without messages only the opening is left.
            before = before[: -len((*self._chat_format.close, *message.ids))] if pieces else list(self._opening)
            self.add_to_next_message(instead)
        self._pieces = pieces if completion is None else [*pieces, message]
        self._begin_stream(before)
        if completion is not None:
            other = self._answer(answer.episode, completion)
            ids = other.ids if other.stripped is None else other.stripped
            self._pieces.append(_Answer(answer.episode, ids))
            self.prompt.extend(ids)

    def _answer(self, episode: int, completion: Completion) -> _Answer:
        """The answer to the newest message."""
        ids = (*completion.tokens, self._chat_format.end) if completion.truncated else completion.tokens
        message = self._pieces[-1]
        assert isinstance(message, _Message)
        is_free = completion.allowed is None
        return _Answer(episode, ids, self._stripped(message, ids) if self._strips and is_free else None)

    def _stripped(self, message: _Message, ids: tuple[int, ...]) -> tuple[int, ...] | None:
        """An answer with its prefilled start and without its thoughts; None if it has none."""
        text = self._chat_format.decode(message.begun) + self._chat_format.decode(ids)
        if self._opens_thoughts:
            return self._chat_format.answer(NO_THOUGHT + message.spoken(THOUGHT + text).strip())
        spoken = message.spoken(text)
        return None if spoken == text else self._chat_format.answer(spoken.strip())

    def _ids_before_next(self) -> list[int]:
        """The ids before the next message: the current stream, or a copy without the thoughts of the last answer."""
        if not self._pieces:
            return self.prompt
        *pieces, message, answer = self._pieces
        assert isinstance(message, _Message)
        assert isinstance(answer, _Answer)
        if answer.stripped is None:
            return self.prompt
        asked = message._replace(ids=message.ids[: len(message.ids) - len(message.begun)], begun=())
        self._pieces = [*pieces, asked, _Answer(answer.episode, answer.stripped)]
        return [*self.prompt[: -len(message.begun) - len(answer.ids)], *answer.stripped]

    def _begin_stream(self, ids: list[int]) -> None:
        """Make `ids` the current stream. A stream without messages is replaced, so that stream numbers have no gaps."""
        if len(self.prompt) > len(self._opening):
            self._streams.append(ids)
        else:
            self._streams[-1] = ids

    def _overflow(self, episode: int, reserved: int) -> None:
        """Drop the oldest whole episodes, then retrieved text, then the older half of the notes; begin a new stream.

        Episodes are dropped until half of the context is free: otherwise every further message would overflow again and
        begin another stream. Notes are dropped only when nothing else is left.
        """
        if episode not in self.overflows:
            self.overflows.append(episode)
        space = self._limit - reserved
        pieces, notes, ids = self._pieces, self._carried, self._encode_pieces(self._pieces, self._carried)
        for oldest in range(self._pieces[0].episode + 1, episode + 1):
            if len(ids) <= space // 2:
                break
            pieces = [piece for piece in self._pieces if piece.episode >= oldest]
            notes = [note for note in self.notes if note[0] < oldest]
            ids = self._encode_pieces(pieces, notes)
        while len(ids) > space:
            if any(isinstance(piece, _Message) and piece.recall.items for piece in pieces):
                pieces = self._with_less_recall(pieces)
            elif notes:
                notes = notes[(len(notes) + 1) // 2 :]
            else:
                raise PlayError(
                    f"a context of {self._limit} tokens is too small for episode {episode + 1} alone "
                    f"with {reserved} tokens to answer; raise agent.context or shorten the answers"
                )
            ids = self._encode_pieces(pieces, notes)
        self.notes = [*notes, *(note for note in self.notes if note[0] >= pieces[0].episode)]
        self._pieces, self._carried = pieces, notes
        self._begin_stream(ids)

    def _with_less_recall(self, pieces: Sequence[_Message | _Answer]) -> list[_Message | _Answer]:
        """Drop the retrieved text of earlier decisions; if there is none, half of that of the newest."""
        *earlier, newest = pieces
        assert isinstance(newest, _Message)
        if any(isinstance(piece, _Message) and piece.recall.items for piece in earlier):
            cleared = (self._with_recall(piece, 0) if isinstance(piece, _Message) else piece for piece in earlier)
            return [*cleared, newest]
        return [*earlier, self._with_recall(newest, len(newest.recall.items) // 2)]

    def _with_recall(self, message: _Message, num: int) -> _Message:
        """A message with only the first `num` retrieved items."""
        # Text about earlier episodes need not be kept: they were all dropped by now.
        recall = _Recall(message.recall.heading, message.recall.items[:num])
        return message._replace(recall=recall, ids=self._chat_format.user(recall.text + message.text) + message.begun)

    def _encode_pieces(self, pieces: Sequence[_Message | _Answer], notes: Sequence[Note]) -> list[int]:
        """The ids of a stream of these pieces. Only the first message, which gets the notes, is encoded again."""
        first, *others = pieces
        assert isinstance(first, _Message)
        told = self._chat_format.user(notes_message(notes) + first.recall.text + first.text)
        ids = [*self._opening, *told, *first.begun]
        for piece in others:
            ids += self._chat_format.close if isinstance(piece, _Message) else ()
            ids += piece.ids
        return ids
