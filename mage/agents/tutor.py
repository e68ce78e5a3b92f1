"""A tutor keeps an agent's notes for it until it has learned to read them; what to write it then finds out itself.

A model with random weights faces a riddle when notes are all it remembers: what it writes is worth nothing while it
cannot read, and reading is worth nothing while it writes at random. While a tutor is there, the agent remembers what
the tutor finds in the outcome, and its own notes are neither remembered nor trained. A tutor that leaves all at once
takes the reading along: the first random notes teach the agent not to look. So it leaves by and by, task by task.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from mage.agents.language import Rewrite, as_written
from mage.errors import ConfigError
from mage.protocols import AgentFactory
from mage.seeds import uniform
from mage.types import Memory, Observation, Reply, Task


@dataclass(frozen=True, slots=True)
class Tutor:
    """Seats the agent in training with notes of its own or of the tutor, by task and step."""

    pattern: str
    """A regular expression with one group: what it finds last in how an episode ended is the note. Empty: no tutor."""
    steps: int
    """How many steps it stays in all tasks."""
    fade: int
    """Over how many further steps it leaves, task by task."""

    def share(self, step: int) -> float:
        """The share of a step's tasks in which the tutor keeps the notes: all at first, then ever fewer.

        >>> [Tutor("(.)", steps=1, fade=1).share(step) for step in range(3)]
        [1.0, 0.5, 0.0]
        """
        left = self.steps + self.fade - step
        return 0.0 if not self.pattern or left <= 0 else min(1.0, left / (self.fade + 1))

    def is_there(self, task: Task, step: int) -> bool:
        """Whether the tutor keeps the agent's notes in a task of a step."""
        return uniform(task.seed, "tutor") < self.share(step)

    def make_agent(self, seated: Callable[[Rewrite], AgentFactory], step: int) -> AgentFactory:
        """The seating for training at a step; `seated` seats the agent by what it remembers of its reflections."""
        return seated(self._notes(step) if self.share(step) > 0 else as_written)

    def _notes(self, step: int) -> Rewrite:
        compiled = _compiled(self.pattern)

        def note(task: Task, outcome: Observation, reflection: Reply) -> Reply | None:
            if not self.is_there(task, step):
                return reflection
            found = compiled.findall(outcome.text)
            return Reply(found[-1], found[-1], ()) if found else None

        return note


def check_tutor(pattern: str, memory: Memory) -> None:
    """Refuse what cannot be a tutor. Only notes that are told anew can be told by another."""
    if pattern:
        _compiled(pattern)
        if memory is not Memory.REFLECTIONS:
            raise ConfigError(
                f"agent.tutor needs agent.memory = reflections, not {memory}: only there are notes told anew"
            )


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"agent.tutor = {pattern!r} is not a regular expression: {error}") from None
    if compiled.groups != 1:
        raise ConfigError(f"agent.tutor = {pattern!r} must have one group, which finds the note, not {compiled.groups}")
    return compiled
