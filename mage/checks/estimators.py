"""Contract check for estimators."""

from __future__ import annotations

from math import isfinite

import msgspec

from mage.credit.estimators.base import Estimator
from mage.credit.running_stats import EMPTY, Stats
from mage.credit.steps import CreditGroup, Step
from mage.types import Phase


def check_estimator(estimator: Estimator) -> None:
    """Raise AssertionError unless it is pure, finite and aligned, and its statistics survive a checkpoint."""
    groups = [_group("rock", (1.0, -1.0, 0.25)), _group("paper", (0.5, 0.5)), _group("rock", (2.0,)), _group("x", ())]
    before = msgspec.json.encode(groups)
    stats = EMPTY
    for _ in range(3):
        advantages, following = estimator.estimate(groups, stats)
        assert (advantages, following) == estimator.estimate(groups, stats), "the same input gives other advantages"
        assert msgspec.json.encode(groups) == before, "the groups were changed"
        assert len(advantages) == len(groups), "one entry for each group"
        for group, found in zip(groups, advantages, strict=True):
            assert [len(trial) for trial in found] == [len(trial) for trial in group.trials], "one number for each step"
            for steps, numbers in zip(group.trials, found, strict=True):
                assert all(isfinite(a) for a in numbers), "advantages are finite"
                assert all(step.trained or a == 0.0 for step, a in zip(steps, numbers, strict=True)), "untrained: 0"
        assert msgspec.json.decode(msgspec.json.encode(following), type=Stats) == following, "statistics as JSON"
        stats = following
    assert estimator.estimate((), stats) == ((), stats), "no groups: no advantages, unchanged statistics"


def _group(opponent: str, returns: tuple[float, ...]) -> CreditGroup:
    """Siblings with one move, a reflection that is trained or not, and a second episode of two moves."""

    def steps(return_: float, trained: bool) -> tuple[Step, ...]:
        return (
            Step(0, Phase.PLAY, 0, "start", True, return_, 0.5, 0.0, 0.1),
            Step(0, Phase.REFLECT, 0, "reflection", trained, 2 * return_, 1.0, 0.0, 0.2),
            Step(1, Phase.PLAY, 0, "start", True, 2 * return_, 1.0, 0.0, 0.3),
            Step(1, Phase.PLAY, 1, f"after {return_}", True, 2 * return_, 0.0, 2 * return_, 0.4),
        )

    return CreditGroup(opponent, 0, "main", tuple(steps(return_, index != 1) for index, return_ in enumerate(returns)))
