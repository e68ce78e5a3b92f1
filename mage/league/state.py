"""The state of a league: members, pay-off table and hyper-parameters, as a frozen value in every checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import exp, fsum, log

import msgspec
import numpy as np

from mage.errors import ConfigError, pick
from mage.league.members import Member, MemberKind, learner, snapshot
from mage.league.payoffs import EMPTY, MatchScore, Payoffs

ALIKE = 0.5
"""The distance of pay-off columns, in units of score, at which similarity is 1/e."""


class League(msgspec.Struct, frozen=True):
    """Members, pay-offs, hyper-parameters, and the sampling probabilities of the last step."""

    members: tuple[Member, ...]
    """In the order they joined, retired ones included."""
    payoffs: Payoffs
    hyper: Mapping[str, Mapping[str, float]]
    """By learner and dotted config key."""
    drawn: Mapping[str, Mapping[str, float]]
    """By learner and member, the sampling probability of the last step."""

    @property
    def present(self) -> tuple[Member, ...]:
        """All members that are not retired."""
        return tuple(m for m in self.members if m.retired is None)

    @property
    def learners(self) -> tuple[Member, ...]:
        return self.of_kind(MemberKind.LEARNER)

    @property
    def snapshots(self) -> tuple[Member, ...]:
        return self.of_kind(MemberKind.SNAPSHOT)

    @property
    def anchors(self) -> tuple[Member, ...]:
        return self.of_kind(MemberKind.ANCHOR)

    def of_kind(self, kind: MemberKind) -> tuple[Member, ...]:
        """Members of one kind that are not retired."""
        return tuple(m for m in self.present if m.kind is kind)

    def member(self, name: str) -> Member:
        """The member with an id, retired or not; raises `ConfigError`."""
        return pick("member", {m.id: m for m in self.members}, name)

    def opponents_of(self, name: str, *, with_itself: bool = False) -> tuple[Member, ...]:
        """The possible opponents of a learner: all present members, itself only `with_itself`."""
        self.member(name)
        return tuple(m for m in self.present if with_itself or m.id != name)

    def ratings(self) -> dict[str, float]:
        """The rating of each present member, in units of score: r with score(row, column) = r_row - r_column.

        Least squares over all cells, each counted once (Massey 1997): an Elo rating on scores instead of wins. Two
        learners with the same opponents differ by the mean difference of their scores. Scores are assumed to be
        zero-sum. Each connected component of the table has mean 0; a member without results has 0.
        """
        place = {m.id: i for i, m in enumerate(self.present)}
        laplacian_NN, wins_N = np.zeros((len(place), len(place))), np.zeros(len(place))
        for row, cells in self.payoffs.cells.items():
            for column, cell in cells.items():
                if row in place and column in place:
                    a, b = place[row], place[column]
                    laplacian_NN[[a, b], [a, b]] += 1.0
                    laplacian_NN[[a, b], [b, a]] -= 1.0
                    wins_N[a] += cell.mean
                    wins_N[b] -= cell.mean
        # The minimum-norm solution: its mean is 0 in each connected component of the table.
        found_N = np.linalg.lstsq(laplacian_NN, wins_N, rcond=1e-10)[0]
        return {name: float(found_N[i]) for name, i in place.items()}

    def leader(self) -> Member:
        """The learner with the best rating, the first of equals."""
        if not self.learners:
            raise ConfigError("a league without learners has no leader")
        ratings = self.ratings()
        return max(self.learners, key=lambda m: ratings[m.id])

    def diversity(self, alike: float = ALIKE) -> float:
        """The effective number of members with results: 1 where all pay-offs are equal, their number where none are.

        exp of the mean of -log(mean similarity of a member to all, itself included), with similarity exp(-distance /
        alike) between pay-off columns: the diversity of order 1 of Leinster and Cobbold (2012). The rank of the table
        would be bounded by the number of learners. 0 without results.
        """
        ids = [m.id for m in self.present if self.payoffs.column(m.id)]
        if not ids:
            return 0.0
        similarity = [fsum(exp(-self._distance(a, b) / alike) for b in ids) / len(ids) for a in ids]
        return exp(-fsum(map(log, similarity)) / len(ids))

    def _distance(self, a: str, b: str) -> float:
        return 0.0 if a == b else self.payoffs.distance(a, b)

    def with_results(self, results: Iterable[MatchScore], step: int, half_life: float) -> League:
        """With the results of a step added; cells of learners decay."""
        live = [m.id for m in self.learners]
        return msgspec.structs.replace(self, payoffs=self.payoffs.with_results(results, step, half_life, live))

    def with_snapshot(self, name: str, step: int) -> League:
        """With a frozen copy of a learner, which inherits the learner's pay-off column."""
        new = snapshot(self.member(name), step)
        _refuse_twice([*self.members, new])
        return msgspec.structs.replace(self, members=(*self.members, new), payoffs=self.payoffs.inherit(new.id, name))

    def with_copy(self, name: str, parent: str, changes: Mapping[str, float]) -> League:
        """With a learner that copied the weights of another member, and changed hyper-parameters by dotted key."""
        known = {m.id: m for m in self.members}
        old = self.member(name)
        self.member(parent)
        known[name] = msgspec.structs.replace(old, parents=(*old.parents, parent))
        return League(
            tuple(known.values()),
            self.payoffs.inherit(name, parent),
            {**self.hyper, name: {**self.hyper.get(name, {}), **changes}},
            self.drawn,
        )

    def with_drawn(self, drawn: Mapping[str, Mapping[str, float]]) -> League:
        """With the sampling probabilities of a step."""
        return msgspec.structs.replace(self, drawn=drawn)

    def retire(self, ids: Collection[str], step: int) -> League:
        """With members evicted: still listed, but not in the table."""
        for name in ids:
            self.member(name)
        members = tuple(msgspec.structs.replace(m, retired=step) if m.id in ids else m for m in self.members)
        return msgspec.structs.replace(self, members=members, payoffs=self.payoffs.without(ids))


def new_league(anchors: Sequence[Member], hyper: Sequence[Mapping[str, float]]) -> League:
    """A new league: the anchors, and a learner for each set of hyper-parameters.

    >>> [m.id for m in new_league([], [{"learner.lr": 1e-3}, {"learner.lr": 3e-3}]).learners]
    ['learner-0', 'learner-1']
    """
    learners = [learner(i) for i in range(len(hyper))]
    members = (*anchors, *learners)
    _refuse_twice(members)
    return League(members, EMPTY, {m.id: dict(h) for m, h in zip(learners, hyper, strict=True)}, {})


def _refuse_twice(members: Sequence[Member]) -> None:
    names = [m.id for m in members]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"a league cannot have two members called {twice[0]!r}; ids must be unique")
