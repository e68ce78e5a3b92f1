"""Linked notes: a note after each episode, linked with earlier ones, of which those that fit are brought back.

It follows A-MEM (Xu et al. 2025, arXiv 2502.12110). A note has content, keywords and tags, which the model writes in
one answer; it is found by them and by what was seen in its episode. Links join notes that say similar things, and a
note that is found brings those it is linked with along. The model neither judges the links nor rewrites earlier notes,
and likeness is that of words (`similarity.py`), not of an embedding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from mage.agents.language import LanguageAgent
from mage.agents.messages import reflect_message, system_message
from mage.agents.methods.similarity import best, similarities
from mage.types import Memory, Observation, Reply

NUM_FOUND = 3
"""How many notes are brought back for a decision, besides those that they are linked with."""
NUM_LINKS = 2
"""With how many earlier notes a new one is linked, and how many linked ones a note brings along."""
LEAST_LIKE = 0.1
"""How alike notes must be to be linked."""
NOTE_REQUEST = "Then write a line Keywords: with a few words to find the note by, and a line Tags: with its kinds."
_CARRIED = "After each you write a note to yourself; before you act you see your notes that fit."
_HEADING = "Your notes that fit:"
_LABEL = re.compile(r"\b(keywords|tags)\s*+:", re.IGNORECASE)
_MOST = 8
"""Most keywords, and most tags, of one note."""


class LinkedNote(NamedTuple):
    """A note, and the places of the earlier notes that it is linked with."""

    episode: int
    content: str
    keywords: tuple[str, ...]
    tags: tuple[str, ...]
    seen: str
    """What its episode looked like: a part of what it is found by, which is not shown."""
    links: tuple[int, ...]

    @property
    def said(self) -> str:
        """What the model wrote, in one line."""
        keywords = f" Keywords: {', '.join(self.keywords)}." if self.keywords else ""
        tags = f" Tags: {', '.join(self.tags)}." if self.tags else ""
        return f"{self.content}{keywords}{tags}"


class LinkedNotesAgent(LanguageAgent):
    """Keeps all its notes outside the context, and brings back those that fit what it sees."""

    method: ClassVar[str] = "linked-notes"
    memories: ClassVar[tuple[Memory, ...]] = (Memory.REFLECTIONS, Memory.NONE)
    _notes: tuple[LinkedNote, ...] = ()
    _seen: tuple[str, ...] = ()
    """What was seen in the current episode."""

    def _system(self, rules: str) -> str:
        how = self._settings
        return system_message(rules, self._num_episodes, how.memory, how.reply, carried=_CARRIED)

    def _recall(self, observation: Observation) -> None:
        """Bring back the notes that fit, unless they stand in the stream already."""
        if self._settings.memory is Memory.NONE:
            return
        self._seen = (*self._seen, observation.text)
        found = retrieved(observation.text, self._notes)
        items = [line(place, self._notes) for place in found]
        known = self._context.recalled
        self._context.recall(_HEADING, [item for item in items if item not in known])

    def _request(self, outcome: Observation) -> str:
        return f"{reflect_message(outcome)}\n{NOTE_REQUEST}"

    def _remember(self, outcome: Observation, written: Reply) -> None:
        super()._remember(outcome, written)
        self._seen = ()

    def _keep(self, outcome: Observation, note: str) -> None:
        content, keywords, tags = parts_of(note)
        if content:
            seen = "\n".join((*self._seen, outcome.text))
            new = LinkedNote(outcome.episode, content, keywords, tags, seen, ())
            links = similarities(new.said, [earlier.said for earlier in self._notes])
            self._notes = (*self._notes, new._replace(links=tuple(best(links, NUM_LINKS, LEAST_LIKE))))


def parts_of(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Content, keywords and tags of what a model wrote. Without labels, all of it is content.

    >>> parts_of("They bluff.\\nKeywords: bluff, king\\nTags: poker")
    ('They bluff.', ('bluff', 'king'), ('poker',))
    """
    head, *labelled = _LABEL.split(text)
    values = {label.casefold(): value for label, value in zip(labelled[::2], labelled[1::2], strict=True)}
    content = " ".join(head.split()) or " ".join(text.split())
    return content, _listed(values.get("keywords", "")), _listed(values.get("tags", ""))


def retrieved(query: str, notes: Sequence[LinkedNote]) -> list[int]:
    """The places of the notes that fit, best first, each followed by a few that it is linked with, newest first."""
    scores = similarities(query, [f"{note.said}\n{note.seen}" for note in notes])
    found: dict[int, None] = {}
    for place in best(scores, NUM_FOUND):
        linked = [other for other, note in enumerate(notes) if other in notes[place].links or place in note.links]
        found.update(dict.fromkeys((place, *linked[: -NUM_LINKS - 1 : -1])))
    return list(found)


def line(place: int, notes: Sequence[LinkedNote]) -> str:
    """A note as it is shown."""
    note = notes[place]
    links = ", ".join(str(notes[link].episode + 1) for link in sorted(note.links))
    return f"After episode {note.episode + 1}{f' (see also {links})' if links else ''}: {note.said}"


def _listed(value: str) -> tuple[str, ...]:
    words = (" ".join(word.split()).strip(" .") for word in re.split(r"[,;\n]", value))
    return tuple(word for word in words if word)[:_MOST]
