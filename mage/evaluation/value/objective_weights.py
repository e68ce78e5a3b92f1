"""The objectives of training as weights of a trial's episodes, from the formula that training uses."""

from __future__ import annotations

from typing import NamedTuple

from mage.credit.returns import ReturnSpec, trial_returns
from mage.types import Objective


class PlannedObjective(NamedTuple):
    """An objective whose best play is planned."""

    name: str
    """A key: that of the objective, or `sum` for the cumulative one without a discount."""
    method: str
    """The method that trains with it; empty where it has no name."""
    return_spec: ReturnSpec

    def weights(self, episodes: int) -> tuple[float, ...]:
        """What a trial's return at its start pays for the score of each episode; nothing is lost between turns.

        >>> named = {objective.name: objective for objective in objectives(0.6)}
        >>> [round(weight, 3) for weight in named["differential"].weights(3)]
        [0.4, 0.24, 0.36]
        >>> named["final"].weights(3)
        (0.0, 0.0, 1.0)
        """
        return tuple(self._paid([float(k == episode) for k in range(episodes)]) for episode in range(episodes))

    def _paid(self, scores: list[float]) -> float:
        return trial_returns([[score] for score in scores], scores, self.return_spec).starts[0]

    @property
    def label(self) -> str:
        """The name with its discount and method.

        >>> [objective.label for objective in objectives(0.6)][1:4]
        ['cumulative 0.6 (LaMer)', 'cumulative 1', 'differential 0.6 (MAGE)']
        """
        kind, episode = self.return_spec.objective, self.return_spec.episode
        is_discounted = kind in (Objective.CUMULATIVE, Objective.DIFFERENTIAL)
        return f"{kind}{f' {episode:g}' if is_discounted else ''}{f' ({self.method})' if self.method else ''}"


SINGLE, SUM, FINAL = "single", "sum", "final"


def objectives(discount: float) -> tuple[PlannedObjective, ...]:
    """All objectives, with this discount across an episode boundary where they have one.

    `single` pays each episode for itself: its best plays are those of myopic Bayes, not of one weighting.
    `cumulative-paper` differs from `cumulative` by discounts between turns alone.
    """
    kinds = (
        (SINGLE, "GRPO", Objective.SINGLE, discount),
        ("cumulative", "LaMer", Objective.CUMULATIVE, discount),
        (SUM, "", Objective.CUMULATIVE, 1.0),
        ("differential", "MAGE", Objective.DIFFERENTIAL, discount),
        (FINAL, "", Objective.FINAL, 1.0),
    )
    return tuple(
        PlannedObjective(name, method, ReturnSpec(kind, 1.0, episode)) for name, method, kind, episode in kinds
    )
