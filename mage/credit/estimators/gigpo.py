"""GiGPO: episode advantages against the siblings' mean, plus turn advantages among turns in the same state."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec

from mage.credit.estimators.base import Advantages
from mage.credit.group_baselines import Place, TrialAdvantages, Unit, centred, compare
from mage.credit.running_stats import Stats
from mage.credit.steps import CreditGroup, Step


class Anchors(StrEnum):
    """Which turns count as in the same state."""

    GLOBAL = "global"
    """Equal keys in any episode of the trial."""
    EPISODE = "episode"
    """Equal keys in the same episode."""


class Gigpo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Advantage = episode term + weight x step term; both are differences from a mean, not divided.

    One advantage for a whole episode cannot separate its good moves from its bad ones. Turns of a group with the
    same key are the same decision, so their returns can be compared wherever in the trial they occurred; a
    state that occurs once has step term zero. All reflections of a group share one key. The anchor is the
    information state, never the opponent's name: a group has one opponent only.

    Siblings scored 1 and 0 (episode terms 1/2 and -1/2), and the returns in their only shared state are 1 and 0 as
    well: there the advantages are 1 and -1, elsewhere 1/2 and -1/2.
    """

    weight: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    """Weight of the step term."""
    anchors: Anchors = Anchors.GLOBAL

    def estimate(self, groups: Sequence[CreditGroup], stats: Stats) -> tuple[Advantages, Stats]:
        return tuple(self._advantages(group) for group in groups), stats

    def _advantages(self, group: CreditGroup) -> TrialAdvantages:
        episodes = compare(group, Unit.EPISODE, _advantages_at)
        steps = self._step_terms(group)
        return tuple(
            tuple(term + self.weight * steps.get((number, index), 0.0) for index, term in enumerate(trial))
            for number, trial in enumerate(episodes)
        )

    def _step_terms(self, group: CreditGroup) -> dict[tuple[int, int], float]:
        """By trial and step, for steps that are trained."""
        alike: dict[Hashable, dict[tuple[int, int], float]] = {}
        for number, trial in enumerate(group.trials):
            for index, step in enumerate(trial):
                if step.trained:
                    alike.setdefault(self._anchor(step), {})[number, index] = step.return_
        return {
            where: term
            for returns in alike.values()
            for where, term in zip(returns, centred(list(returns.values())), strict=True)
        }

    def _anchor(self, step: Step) -> Hashable:
        return step.phase, step.key, step.episode if self.anchors is Anchors.EPISODE else None


def _advantages_at(place: Place, returns: Sequence[float]) -> list[float]:
    return centred(returns)
