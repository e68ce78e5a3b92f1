"""Members of a league: whoever may sit opposite, and where they come from."""

from __future__ import annotations

from enum import StrEnum

import msgspec

SPEC_PREFIX = "member:"
"""Begins the spec of a member whose player is made of weights that the run holds."""


class MemberKind(StrEnum):
    """What a member is made of."""

    ANCHOR = "anchor"
    """Given by the config: a script, a family, search, a solver, a remote model."""
    SNAPSHOT = "snapshot"
    """A learner as it was at some step."""
    LEARNER = "learner"
    """Trained now."""


class Member(msgspec.Struct, frozen=True):
    """Anyone who may sit opposite."""

    id: str
    kind: MemberKind
    spec: str
    """What a world makes a player of; `member:ID` for learners and snapshots."""
    family: str
    """What statistics and eviction group it by: the family of an anchor's spec, the learner of all others."""
    born: int = 0
    """The step at which it joined."""
    parents: tuple[str, ...] = ()
    """Whose weights it took, in the order of time."""
    retired: int | None = None
    """The step at which it was evicted; it stays in the list for the family tree."""
    weight: float = 1.0
    """How often the weighted sampler draws it, relative to others."""


def anchor(spec: str, weight: float = 1.0) -> Member:
    """A member of the config's population, called by its spec.

    >>> anchor("automaton(states=3, seed=7)").family
    'automaton'
    """
    from mage.opponents.registry import family  # imports OpenSpiel

    return Member(spec, MemberKind.ANCHOR, spec, family(spec), weight=weight)


def learner(index: int) -> Member:
    """The learner of an index, from 0.

    >>> learner(2).id, learner(2).spec
    ('learner-2', 'member:learner-2')
    """
    name = f"learner-{index}"
    return Member(name, MemberKind.LEARNER, SPEC_PREFIX + name, name)


def snapshot(parent: Member, step: int) -> Member:
    """A learner frozen at a step.

    >>> snapshot(learner(0), 40).id
    'learner-0@40'
    """
    name = f"{parent.id}@{step}"
    return Member(
        name, MemberKind.SNAPSHOT, SPEC_PREFIX + name, parent.family, step, (parent.id,), weight=parent.weight
    )
