"""Texts shared by terminal transcripts and the viewer: seat names, carried memory, and what was hidden."""

from __future__ import annotations

from collections.abc import Mapping

from mage.types import AgentInfo, Fact, Failure, Memory, Trial

_CARRIES: Mapping[Memory, str] = {
    Memory.NONE: "nothing",
    Memory.HISTORY: "all that happened",
    Memory.REFLECTIONS: "its notes, and nothing else",
    Memory.BOTH: "all that happened, and its notes",
}
_METHODS_CARRY: Mapping[str, str] = {
    "reflexion": "its last three notes, and nothing else",
    "linked-notes": "its notes, of which those that fit are brought back",
    "cases": "its decisions, of which those that fit are brought back",
}
"""What is carried where a method has its own memory."""


def carried_memory(agent: AgentInfo) -> str:
    """What an agent carries from one episode to the next, as text."""
    if agent.memory is None:
        return "nothing: this player keeps no notes"
    usual = _CARRIES[agent.memory]
    return usual if agent.memory is Memory.NONE else _METHODS_CARRY.get(agent.method or "", usual)


def seat_names(outcome: Trial | Failure) -> tuple[str, ...]:
    """The player in each seat."""
    agent = outcome.agent.name if isinstance(outcome, Trial) else "(no agent)"
    names = list(outcome.task.opponents)
    names.insert(outcome.task.seat, agent)
    return tuple(names)


def revealed_facts(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """The facts of a result for people: where the trial has words of its own, what is hidden in these.

    >>> revealed_facts({"hidden": "red", "revealed": "blue"})
    {'hidden': 'blue (level red)'}
    """
    found = {name: value for name, value in facts.items() if name != "revealed"}
    if "revealed" in facts and "hidden" in facts:
        found["hidden"] = f"{facts['revealed']} (level {facts['hidden']})"
    return found
