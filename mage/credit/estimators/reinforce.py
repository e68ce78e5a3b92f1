"""REINFORCE: each turn's return minus the running mean return against that opponent at that place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from mage.credit.estimators.base import Advantages
from mage.credit.running_stats import StatKey, Stats, merge, pooled
from mage.credit.steps import CreditGroup, Step


class Reinforce(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A running mean of past returns is the baseline, so trials need no siblings and every turn has its own return.

    With one mean for all, advantages would mostly say how easy the opponent was; so there is one for each learner,
    opponent, seat, episode and phase. It includes earlier steps only, hence never the return it is compared with. A
    new key uses the mean over all opponents at that episode and phase; before the first step that is zero, and the
    first step learns from raw returns.

    Past returns 1 and 0 with decay 1/2: baseline (1/2 + 0) / (1/2 + 1) = 1/3; a return of 1 has advantage 2/3.
    """

    decay: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.99
    """Weight of the past after one more group; 1 gives the plain mean."""

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        baselines = {key: running.mean for key, running in stats.table().items()}
        pool = pooled(stats)

        def advantage(group: CreditGroup, step: Step) -> float:
            key = _key(group, step)
            return step.return_ - baselines.get(key, pool.get((key.learner, key.episode, key.phase), 0.0))

        advantages = tuple(
            tuple(tuple(advantage(group, step) if step.trained else 0.0 for step in trial) for trial in group.trials)
            for group in groups
        )
        observed = (found for group in groups for found in _means(group))
        return advantages, merge(stats, observed, self.decay)


def _key(group: CreditGroup, step: Step) -> StatKey:
    return StatKey(group.learner, group.opponent, group.seat, step.episode, step.phase)


def _means(group: CreditGroup) -> Iterator[tuple[StatKey, float]]:
    """The mean return of a group under each of its keys: a group counts once, however many turns it has."""
    returns: dict[StatKey, list[float]] = {}
    for trial in group.trials:
        for step in trial:
            if step.trained:
                returns.setdefault(_key(group, step), []).append(step.return_)
    return ((key, sum(found) / len(found)) for key, found in returns.items())
