"""Population-based training: learners significantly worse than the leader copy it and perturb its hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import erfc, fsum, inf, sqrt
from typing import NamedTuple

import msgspec

from mage.errors import ConfigError, pick
from mage.league.state import League
from mage.seeds import derive, uniform
from mage.stats import ROUNDING, Z95, holm, paired_difference

LEAST_PAIRS = 2
"""Fewest common opponents: one alone gives no variance of differences."""


class Perturbation(msgspec.Struct, frozen=True):
    """How one hyper-parameter is perturbed."""

    lowest: float = 0.0
    highest: float = inf
    from_one: bool = False
    """Whether 1 - x is multiplied instead of x: a discount of 0.99 becomes 0.988 or 0.9917, never 1.19."""

    def applied(self, value: float, factor: float) -> float:
        """The value (or 1 - value) times the factor, clipped to the bounds.

        >>> round(Perturbation(highest=1.0, from_one=True).applied(0.9, 2.0), 6)
        0.8
        """
        moved = 1.0 - (1.0 - value) * factor if self.from_one else value * factor
        return min(self.highest, max(self.lowest, moved))


DISCOUNT = Perturbation(highest=1.0, from_one=True)
BOUNDS: Mapping[str, Perturbation] = {
    "agent.temperature": Perturbation(highest=10.0),
    "credit.episode": DISCOUNT,
    "credit.turn": DISCOUNT,
    "learner.divergence_weight": Perturbation(),
    "learner.entropy_end": Perturbation(),
    "learner.entropy_even": Perturbation(),
    "learner.entropy_floor": Perturbation(highest=1.0),
    "learner.entropy_reflect": Perturbation(),
    "learner.entropy_start": Perturbation(),
    "learner.lr": Perturbation(),
    "learner.prediction_weight": Perturbation(),
    "learner.value_weight": Perturbation(),
}
"""Hyper-parameters that can be explored, by dotted config key."""


class Event(msgspec.Struct, frozen=True):
    """A learner that copies another."""

    learner: str
    parent: str
    reason: str
    """One line with the numbers."""
    changes: Mapping[str, tuple[float, float]]
    """By dotted key, the learner's value before and after; only those that change."""


class LearnerGap(NamedTuple):
    """The score difference of two learners over their common opponents."""

    behind: float
    reach: float
    """Half of the 95 % interval's width."""
    num_pairs: int
    p_value: float
    """Two-sided."""

    @property
    def words(self) -> str:
        low, high = self.behind - self.reach, self.behind + self.reach
        return f"{self.behind:.3f} behind over {self.num_pairs} opponents ({low:.3f} to {high:.3f})"


def perturb(
    values: Mapping[str, float], seed: int, factor: float, bounds: Mapping[str, Perturbation] = BOUNDS
) -> dict[str, float]:
    """Each value times `factor` or 1 / `factor`, drawn from the seed and its key (Jaderberg et al. 2017).

    Values are clipped to their bounds. A value of 0, or a discount of 1, stays: a term that is off is not turned on.
    """
    if not factor >= 1:
        raise ConfigError(f"a factor of {factor} to explore by: takes 1 or more")
    found = {}
    for key, value in values.items():
        rule = pick("hyper-parameter to explore", bounds, key)
        if not rule.lowest <= value <= rule.highest:
            raise ConfigError(f"{key} = {value}: takes {rule.lowest} to {rule.highest} where it is explored")
        found[key] = rule.applied(value, factor if uniform(seed, "explore", key) < 0.5 else 1.0 / factor)
    return found


def compare_learners(league: League, better: str, worse: str) -> LearnerGap | None:
    """How far `worse` is behind `better`; None where they have fewer than two common opponents.

    Each common opponent has equal weight, however often it was drawn, so a learner that met harder opponents is not
    at a disadvantage. The interval is the wider of two, and the p-value the larger: a normal test with the errors of
    the cells (are the scores known well enough?) and Student's test over opponents (is the difference consistent?).
    """
    ours, theirs = league.payoffs.row(better), league.payoffs.row(worse)
    present = {m.id for m in league.present}
    # No learner has a cell against itself, so neither of the two is among them.
    common = [name for name in ours if name in theirs and name in present]
    if len(common) < LEAST_PAIRS:
        return None
    pooled = league.payoffs.pooled_variance()
    pairs = paired_difference([ours[name].mean for name in common], [theirs[name].mean for name in common])
    behind, high = pairs.estimate.value, pairs.estimate.high
    errors = [row[name].error(pooled) for row in (ours, theirs) for name in common]
    error = sqrt(fsum(e * e for e in errors)) / len(common)
    p_cells = erfc(abs(behind) / error / sqrt(2)) if error > ROUNDING else float(abs(behind) < ROUNDING)
    # Without an interval all differences are equal, and the errors of the cells decide.
    scatter, p_pairs = (high - behind, pairs.p_value) if high is not None else (0.0, float(abs(behind) < ROUNDING))
    return LearnerGap(behind, max(Z95 * error, scatter), len(common), max(p_cells, p_pairs))


def choose_copies(league: League, step: int, seed: int, keys: Sequence[str], factor: float) -> list[Event]:
    """The learners that copy the leader now: those significantly worse, Holm-corrected over all others.

    A copy takes all of the leader's hyper-parameters, with those in `keys` perturbed.
    """
    leader = league.leader().id
    found = [(m.id, compare_learners(league, leader, m.id)) for m in league.learners if m.id != leader]
    known = [(name, comparison) for name, comparison in found if comparison is not None]
    stands = holm([comparison.p_value for _, comparison in known])
    clear = [pair for pair, is_clear in zip(known, stands, strict=True) if is_clear and pair[1].behind > 0]
    events = []
    for name, comparison in clear:
        new = _explored(league.hyper.get(leader, {}), derive(seed, "league", step, name), keys, factor)
        reason = f"{comparison.words}, p = {comparison.p_value:.2g}"
        events.append(Event(name, leader, reason, _changes(name, league.hyper.get(name, {}), new)))
    return events


def _explored(values: Mapping[str, float], seed: int, keys: Sequence[str], factor: float) -> dict[str, float]:
    own = {key: pick("hyper-parameter of the leader", values, key) for key in keys}
    return {**values, **perturb(own, seed, factor)}


def _changes(name: str, old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    pairs = {key: (pick(f"hyper-parameter of {name}", old, key), value) for key, value in new.items()}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
