"""Linked notes: a note after each episode, linked to similar earlier ones; relevant notes are retrieved.

It follows A-MEM (Xu et al. 2025, arXiv 2502.12110). A note has content, keywords and tags, which the model writes in
one answer; it is retrieved by them and by the observations of its episode. Similar notes are linked, and a retrieved
note brings its linked ones along. Unlike A-MEM, the model neither chooses the links nor rewrites earlier notes, and
similarity is by words (`similarity.py`), not by embeddings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from mage.agents.language import LanguageAgent
from mage.agents.messages import reflect_message
from mage.agents.methods.similarity import similarities, top_indices
from mage.types import Memory, Observation, Reply

NUM_FOUND = 3
"""How many notes are retrieved for a decision, besides the linked ones."""
NUM_LINKS = 2
"""Links of a new note to earlier ones, and linked notes that a retrieved note brings along."""
LEAST_LIKE = 0.1
"""Least similarity of linked notes."""
NOTE_REQUEST = "Then write a line Keywords: with a few words to find the note by, and a line Tags: with its kinds."
_CARRIED = "After each you write a note to yourself; before you act you see your notes that fit."
_HEADING = "Your notes that fit:"
_LABEL = re.compile(r"\b(keywords|tags)\s*+:", re.IGNORECASE)
_MOST = 8
"""Most keywords, and most tags, of one note."""


class LinkedNote(NamedTuple):
    """A note with the indices of the earlier notes that it is linked to."""

    episode: int
    content: str
    keywords: tuple[str, ...]
    tags: tuple[str, ...]
    seen: str
    """The observations of its episode: used for retrieval, not shown."""
    links: tuple[int, ...]

    @property
    def said(self) -> str:
        """What the model wrote, in one line."""
        keywords = f" Keywords: {', '.join(self.keywords)}." if self.keywords else ""
        tags = f" Tags: {', '.join(self.tags)}." if self.tags else ""
        return f"{self.content}{keywords}{tags}"


class LinkedNotesAgent(LanguageAgent):
    """Stores all its notes outside the context and retrieves those relevant to the observation."""

    method: ClassVar[str] = "linked-notes"
    memories: ClassVar[tuple[Memory, ...]] = (Memory.REFLECTIONS, Memory.NONE)
    _notes: tuple[LinkedNote, ...] = ()
    _seen: tuple[str, ...] = ()
    """The observations of the current episode."""

    def _system(self) -> str:
        return self._system_message(carried=_CARRIED)

    def _recall(self, observation: Observation) -> None:
        """Retrieve relevant notes that are not in the stream already."""
        if self._settings.memory is Memory.NONE:
            return
        self._seen = (*self._seen, observation.text)
        found = retrieve(observation.text, self._notes)
        items = [format_note(place, self._notes) for place in found]
        known = self._context.recalled
        self._context.recall(_HEADING, [item for item in items if item not in known])

    def _reflection_request(self, outcome: Observation) -> str:
        return f"{reflect_message(outcome, self._briefing.reflect)}\n{NOTE_REQUEST}"

    def _remember(self, outcome: Observation, written: Reply) -> None:
        super()._remember(outcome, written)
        self._seen = ()

    def _keep(self, outcome: Observation, note: str) -> None:
        content, keywords, tags = parse_note(note)
        if content:
            seen = "\n".join((*self._seen, outcome.text))
            new = LinkedNote(outcome.episode, content, keywords, tags, seen, ())
            links = similarities(new.said, [earlier.said for earlier in self._notes])
            self._notes = (*self._notes, new._replace(links=tuple(top_indices(links, NUM_LINKS, LEAST_LIKE))))


def parse_note(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Content, keywords and tags of a model's answer. Without labels, all of it is content.

    >>> parse_note("They bluff.\\nKeywords: bluff, king\\nTags: poker")
    ('They bluff.', ('bluff', 'king'), ('poker',))
    """
    head, *labelled = _LABEL.split(text)
    values = {label.casefold(): value for label, value in zip(labelled[::2], labelled[1::2], strict=True)}
    content = " ".join(head.split()) or " ".join(text.split())
    return content, _split_list(values.get("keywords", "")), _split_list(values.get("tags", ""))


def retrieve(query: str, notes: Sequence[LinkedNote]) -> list[int]:
    """The indices of the most similar notes, best first, each followed by some of its linked notes, newest first."""
    scores = similarities(query, [f"{note.said}\n{note.seen}" for note in notes])
    found: dict[int, None] = {}
    for place in top_indices(scores, NUM_FOUND):
        linked = [other for other, note in enumerate(notes) if other in notes[place].links or place in note.links]
        found.update(dict.fromkeys((place, *linked[: -NUM_LINKS - 1 : -1])))
    return list(found)


def format_note(place: int, notes: Sequence[LinkedNote]) -> str:
    """A note as shown to the model."""
    note = notes[place]
    links = ", ".join(str(notes[link].episode + 1) for link in sorted(note.links))
    return f"After episode {note.episode + 1}{f' (see also {links})' if links else ''}: {note.said}"


def _split_list(value: str) -> tuple[str, ...]:
    words = (" ".join(word.split()).strip(" .") for word in re.split(r"[,;\n]", value))
    return tuple(word for word in words if word)[:_MOST]
