"""Leave-one-out advantages divided by a spread: the opponent's own (agent-specific normalisation), or another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import sqrt
from typing import Annotated, NamedTuple

import msgspec

from mage.credit.estimators.base import Advantages
from mage.credit.group_baselines import Place, TrialAdvantages, Unit, compare, leave_one_out, variance_by_episode
from mage.credit.running_stats import EMPTY, Pools, RunningMean, StatKey, Stats, merge, pooled
from mage.credit.steps import CreditGroup


class Scale(StrEnum):
    """Which groups the within-group variance is averaged over."""

    OPPONENT = "opponent"
    """All groups against this opponent so far."""
    GROUP = "group"
    """This group alone."""
    BATCH = "batch"
    """The learner's groups of this step, against any opponent."""
    NONE = "none"
    """None: differences are not divided."""


class _History(NamedTuple):
    """The variances from before this step, and those of this step's groups pooled."""

    opponents: Mapping[StatKey, RunningMean]
    pooled: Pools
    batch: Pools


class AgentSpecific(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A = (return - mean of the other siblings) / max(s, s_min), where s is the spread that `scale` names.

    The default divides all groups of a step alike, by one number for each episode, so that no opponent weighs more or
    less than it pays. The method's own way is `opponent`; the "agent" in the name, which is the paper's, is the
    opponent. It makes all opponents weigh alike, and takes away what exploring for those that pay more would win.
    There s is the root of the running within-group variance for (learner, opponent, seat, episode), where a reflection
    belongs to the episode before it. One group counts once, dead groups too. All groups of a step use the statistics
    from before it; their own are merged in afterwards, in the order given.

    An opponent played in n < `settled` groups has s = n/settled x its own + (1 - n/settled) x the pooled s, that of
    all opponents of this learner and episode. With no history at all, this step's groups are pooled: the first
    step scales as `batch` does.
    """

    scale: Scale = Scale.BATCH
    decay: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.99
    """Weight of the past after one more group."""
    settled: Annotated[int, msgspec.Meta(ge=1)] = 5
    """Groups after which an opponent's own s is used alone."""
    s_min: Annotated[float, msgspec.Meta(gt=0)] = 0.1
    """Smallest divisor, in units of return: rare losses to an opponent that is nearly always beaten stay small."""
    unit: Unit = Unit.EPISODE
    """What siblings are compared by."""

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        own = [_variances(group, self.unit) for group in groups]
        observed = [item for variances in own for item in variances.items()]
        batch = pooled(merge(EMPTY, observed, 1.0))
        history = _History(stats.table(), {**batch, **pooled(stats)}, batch)
        advantages = tuple(self._advantages(g, found, history) for g, found in zip(groups, own, strict=True))
        return advantages, merge(stats, observed, self.decay)

    def _advantages(self, group: CreditGroup, own: Mapping[StatKey, float], history: _History) -> TrialAdvantages:
        # An episode that at most one sibling reached has no scale: its differences are zero.
        scales = {key.episode: self._scale(key, variance, history) for key, variance in own.items()}

        def advantages_at(place: Place, returns: Sequence[float]) -> list[float]:
            return [difference / scales.get(place.episode, 1.0) for difference in leave_one_out(returns)]

        return compare(group, self.unit, advantages_at)

    def _scale(self, key: StatKey, own: float, history: _History) -> float:
        """The divisor of differences in a group whose own variance is `own`."""
        pool = (key.learner, key.episode, key.phase)
        match self.scale:
            case Scale.NONE:
                return 1.0
            case Scale.GROUP:
                s = sqrt(own)
            case Scale.BATCH:
                s = sqrt(history.batch[pool])
            case Scale.OPPONENT:
                s = self._running_scale(history.opponents.get(key), sqrt(history.pooled[pool]))
        return max(s, self.s_min)

    def _running_scale(self, past: RunningMean | None, pooled_s: float) -> float:
        if past is None:
            return pooled_s
        trust = min(1.0, past.count / self.settled)
        return trust * sqrt(past.mean) + (1.0 - trust) * pooled_s


def _variances(group: CreditGroup, unit: Unit) -> dict[StatKey, float]:
    found = variance_by_episode(group, unit)
    return {
        StatKey(group.learner, group.opponent, group.seat, episode, None): value for episode, value in found.items()
    }
