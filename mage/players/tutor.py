"""A tutor keeps an agent's notes for it until it has learned to read them; what to write it then finds out itself.

A model with random weights faces a riddle when notes are all it remembers: what it writes is worth nothing while it
cannot read, and reading is worth nothing while it writes at random. While a tutor is there, the agent remembers what
the tutor finds in the outcome, and its own notes are neither remembered nor trained. A tutor that leaves all at once
takes the reading along: the first random notes teach the agent not to look. So it leaves by and by, task by task.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mage.errors import ConfigError
from mage.players.agent import Rewrite
from mage.types import Memory, Observation, Reply, Task


def tutor(pattern: str, is_tutored: Callable[[Task], bool]) -> Rewrite:
    """Remembers what the only group of a regular expression finds last in how an episode ended; in some tasks only.

    >>> outcome = Observation(0, 0, 0, "Last round: you rock, opponent paper.", (), (), "", {})
    >>> tutor(r"opponent (\\w+)", lambda task: True)(None, outcome, Reply("anything", "anything", ())).action
    'paper'
    """
    compiled = _compiled(pattern)

    def note(task: Task, outcome: Observation, reflection: Reply) -> Reply | None:
        if not is_tutored(task):
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
