"""PPO: generalised advantage estimation with a value head, turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from statistics import fmean, pstdev
from typing import Annotated, ClassVar

import msgspec

from mage.credit.estimators.base import Advantages
from mage.credit.returns import discounted
from mage.credit.running_stats import Stats
from mage.credit.steps import CreditGroup, Step

TINY = 1e-6


class AdvantageScale(StrEnum):
    """What advantages are divided by."""

    NONE = "none"
    """Nothing."""
    BATCH = "batch"
    """The standard deviation of all advantages of the step, after their mean is subtracted."""


class Ppo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TD errors (reward + discount x next value - value), summed along the trial with decay discount x lambda.

    The value head depends on the state, a group's mean on the task only; in return the head must be learned. Turns,
    not tokens, are the steps of the decision process. The trial is one chain: an episode boundary is a step like any
    other, with the objective's discount: 0 under `single`, so nothing crosses; 1 from a reflection to the move after
    it. Rewards are defined so that the chain reproduces the return under every objective: with lambda = 1 the
    advantage is `return_ - value` exactly. The head is fitted to the return.

    `scale = batch` is how PPO is mostly run: advantages of a step minus their mean, divided by their standard
    deviation, so that the entropy bonus has the same relative weight whatever the scale of scores.

    Rewards 0 and 1, discount 1, values 1/2 and 1/4, lambda 1/2: the last TD error is 3/4, the first 0 + 1/4 -
    1/2 = -1/4, so the advantages are -1/4 + 1/2 x 3/4 = 1/8 and 3/4.
    """

    needs_values: ClassVar[bool] = True

    lam: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.95
    """GAE's lambda: 0 uses the value head alone, 1 the return alone."""
    scale: AdvantageScale = AdvantageScale.NONE

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        raw = tuple(tuple(self._advantages(trial) for trial in group.trials) for group in groups)
        return (raw if self.scale is AdvantageScale.NONE else _whitened(groups, raw)), stats

    def _advantages(self, steps: Sequence[Step]) -> tuple[float, ...]:
        following = [step.value for step in steps[1:]] + [0.0]
        errors = [
            step.reward + step.discount * value - step.value for step, value in zip(steps, following, strict=False)
        ]
        advantages = discounted(errors, [self.lam * step.discount for step in steps])
        return tuple(a if step.trained else 0.0 for step, a in zip(steps, advantages, strict=True))


def _whitened(groups: Sequence[CreditGroup], raw: Advantages) -> Advantages:
    """Advantages with mean 0 and standard deviation 1 over all trained steps."""
    trained = [
        a
        for group, found in zip(groups, raw, strict=True)
        for steps, numbers in zip(group.trials, found, strict=True)
        for step, a in zip(steps, numbers, strict=True)
        if step.trained
    ]
    if not trained:
        return raw
    mean, spread = fmean(trained), pstdev(trained) + TINY
    return tuple(
        tuple(
            tuple((a - mean) / spread if step.trained else 0.0 for step, a in zip(steps, numbers, strict=True))
            for steps, numbers in zip(group.trials, found, strict=True)
        )
        for group, found in zip(groups, raw, strict=True)
    )
