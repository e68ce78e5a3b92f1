"""The tutor: early in training it replaces an agent's reflections by notes extracted from the outcome.

With memory `reflections` and random weights, writing notes has no value while the agent cannot use them, and using them
has no value while they are random. With a tutor, the agent first learns to use notes: a regular expression extracts
them from the outcome, and the agent's own are neither remembered nor trained. If the tutor stopped at once, the first
random notes would teach the agent to ignore notes, so it is faded out task by task.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mage.agents.language import Rewrite, as_written
from mage.errors import ConfigError
from mage.seeds import uniform
from mage.types import Memory, Observation, Reply, Task


@dataclass(frozen=True, slots=True)
class Tutor:
    """Decides by task and step whether an agent in training remembers its own notes or the tutor's."""

    pattern: str
    """A regular expression with one group; its last match in the outcome is the note. Empty for no tutor."""
    steps: int
    """Steps in which it is active in all tasks."""
    fade: int
    """Further steps over which it is faded out, task by task."""

    def share(self, step: int) -> float:
        """The share of a step's tasks in which the tutor is active.

        >>> [Tutor("(.)", steps=1, fade=1).share(step) for step in range(3)]
        [1.0, 0.5, 0.0]
        """
        left = self.steps + self.fade - step
        return 0.0 if not self.pattern or left <= 0 else min(1.0, left / (self.fade + 1))

    def is_active(self, task: Task, step: int) -> bool:
        """Whether the tutor replaces the agent's notes in a task of a step."""
        return uniform(task.seed, "tutor") < self.share(step)

    def rewrite(self, step: int) -> Rewrite:
        """What is remembered of a reflection in training at a step."""
        return self._notes(step) if self.share(step) > 0 else as_written

    def note(self, outcome: Observation) -> str | None:
        """The tutor's note on an episode; None where the pattern finds nothing in its outcome."""
        found = _compiled(self.pattern).findall(outcome.text)
        return str(found[-1]) if found else None

    def _notes(self, step: int) -> Rewrite:
        def rewrite(task: Task, outcome: Observation, reflection: Reply) -> Reply | None:
            if not self.is_active(task, step):
                return reflection
            note = self.note(outcome)
            return None if note is None else Reply(note, note, ())

        return rewrite


def check_tutor(pattern: str, memory: Memory) -> None:
    """Refuse an invalid pattern, and a memory in which notes are not told again."""
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
