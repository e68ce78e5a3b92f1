"""Members of a league: anchors, snapshots and learners."""

from __future__ import annotations

from enum import StrEnum

import msgspec

SPEC_PREFIX = "member:"
"""Prefix of the spec of a member with weights in the run."""


class MemberKind(StrEnum):
    """The kind of a member."""

    ANCHOR = "anchor"
    """Given by the config: a script, a family, search, a solver, a remote model."""
    SNAPSHOT = "snapshot"
    """A learner frozen at a step."""
    LEARNER = "learner"
    """In training."""


class Member(msgspec.Struct, frozen=True):
    """A possible opponent."""

    id: str
    kind: MemberKind
    spec: str
    """The opponent spec; `member:ID` for learners and snapshots."""
    family: str
    """Groups members in statistics and eviction: the family of an anchor's spec, else the learner."""
    born: int = 0
    """The step it joined at."""
    parents: tuple[str, ...] = ()
    """Members whose weights it copied, in order."""
    retired: int | None = None
    """The step it was evicted at; it stays listed for the family tree."""
    weight: float = 1.0
    """Its relative weight in the weighted sampler."""


def anchor(spec: str, weight: float = 1.0) -> Member:
    """A member of the config's population; its id is its spec.

    >>> anchor("automaton(states=3, seed=7)").family
    'automaton'
    """
    from mage.opponents.registry import family  # imports OpenSpiel

    return Member(spec, MemberKind.ANCHOR, spec, family(spec), weight=weight)


def learner(index: int) -> Member:
    """The learner with an index, from 0.

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
