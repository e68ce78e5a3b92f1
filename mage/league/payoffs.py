"""The pay-off table: what each learner scores against each member, with how much evidence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import fsum, inf, isfinite, sqrt
from typing import NamedTuple

import msgspec

from mage.errors import ConfigError, PlayError
from mage.stats import Z95

SETTLED = 5
"""Observations from which on a cell's own variance is trusted."""
_NOTHING = 1e-9
"""Rounding of weights that are all but gone."""
INHERITED = 0.5
"""What the evidence of a parent weighs for a learner that copied it."""


class MatchScore(NamedTuple):
    """One observation: the mean last-episode score of the siblings of one group."""

    row: str
    """The learner who played."""
    column: str
    """The member it met."""
    score: float


class PayoffCell(msgspec.Struct, frozen=True):
    """What one learner scored against one member: sums over observations, each with a weight that decays.

    >>> cell = PayoffCell.of(1.0, 0).plus(0.0, 1, 0.5)  # weights 1/2 and 1
    >>> round(cell.mean, 4), round(cell.variance, 4), round(cell.effective, 4)
    (0.3333, 0.5, 1.8)
    """

    weight: float
    """Sum of the weights."""
    total: float
    """Sum of weight x score."""
    squares: float
    """Sum of weight x score squared."""
    count: int
    """Observations, old ones too."""
    updated: int
    """The step of the last one."""
    weight_squares: float
    """Sum of the squared weights: it says how many observations of equal weight these are worth."""

    @classmethod
    def of(cls, score: float, step: int) -> PayoffCell:
        """A first observation."""
        return cls(1.0, score, score * score, 1, step, 1.0)

    def plus(self, score: float, step: int, decay: float) -> PayoffCell:
        """With one more observation of weight 1, after the older ones were multiplied by `decay`."""
        old = self.faded(decay)
        return PayoffCell(
            old.weight + 1.0,
            old.total + score,
            old.squares + score * score,
            self.count + 1,
            step,
            old.weight_squares + 1.0,
        )

    def faded(self, factor: float) -> PayoffCell:
        """With all weights multiplied by a factor: the figures stay, and what comes next counts for more."""
        weights = (self.weight * factor, self.total * factor, self.squares * factor)
        return PayoffCell(*weights, self.count, self.updated, self.weight_squares * factor * factor)

    @property
    def mean(self) -> float:
        return self.total / self.weight

    @property
    def effective(self) -> float:
        """How many observations of equal weight have the same error: (sum of w)² / sum of w² (Kish 1965)."""
        return self.weight * self.weight / self.weight_squares

    @property
    def variance(self) -> float:
        """Unbiased variance of one observation, whatever the weights; infinite where all but one are forgotten."""
        known = 1.0 - 1.0 / self.effective
        if known < _NOTHING:
            return inf
        return max(0.0, self.squares / self.weight - self.mean * self.mean) / known

    def error(self, pooled: float) -> float:
        """Standard error of the mean; a cell with few observations takes the variance of the table, `pooled`."""
        variance = self.variance if self.count >= SETTLED else pooled
        return sqrt(variance / self.effective)

    def half_width(self, pooled: float) -> float:
        """Half of the mean's 95 % interval."""
        return Z95 * self.error(pooled)


class Payoffs(msgspec.Struct, frozen=True):
    """All cells, by learner (row) and member (column); nobody has a cell against itself."""

    cells: Mapping[str, Mapping[str, PayoffCell]]

    def cell(self, row: str, column: str) -> PayoffCell | None:
        """What a learner scored against a member; None where they have not met."""
        return self.row(row).get(column)

    def row(self, learner: str) -> Mapping[str, PayoffCell]:
        """A learner's cells, by the member met."""
        return self.cells.get(learner, {})

    def column(self, member: str) -> dict[str, PayoffCell]:
        """The cells against a member, by learner."""
        return {learner: row[member] for learner, row in self.cells.items() if member in row}

    def pooled_variance(self) -> float:
        """Mean of the cells' variances, each by its degrees of freedom; infinite where no cell has two observations."""
        cells = [cell for row in self.cells.values() for cell in row.values() if isfinite(cell.variance)]
        freedom = fsum(cell.effective - 1.0 for cell in cells)
        return fsum((cell.effective - 1.0) * cell.variance for cell in cells) / freedom if cells else inf

    def distance(self, one: str, other: str) -> float:
        """How differently two members pay: root mean square over learners that met both; infinite where none did."""
        a, b = self.column(one), self.column(other)
        squares = [(a[learner].mean - b[learner].mean) ** 2 for learner in a if learner in b]
        return sqrt(fsum(squares) / len(squares)) if squares else inf

    def with_results(
        self, results: Iterable[MatchScore], step: int, half_life: float, live: Collection[str]
    ) -> Payoffs:
        """With observations added one by one, in the order given.

        Each first multiplies the older ones of its cell by 0.5 ** (1 / half_life) where the row or the column is in
        `live`: who is trained changes, so what it once scored is forgotten. A learner against itself is left out.
        """
        if not half_life > 0:
            raise ConfigError(f"half_life = {half_life}: takes a number of observations above 0")
        decay = 0.5 ** (1.0 / half_life)
        cells = {learner: dict(row) for learner, row in self.cells.items()}
        for row, column, score in results:
            if row == column:
                continue
            if not isfinite(score):
                raise PlayError(f"{row} against {column}: a score must be a finite number, not {score}")
            own = cells.setdefault(row, {})
            old = own.get(column)
            fading = decay if row in live or column in live else 1.0
            own[column] = PayoffCell.of(score, step) if old is None else old.plus(score, step, fading)
        return Payoffs(cells)

    def inherit(self, new: str, old: str) -> Payoffs:
        """With what is known about `old` as the first guess about `new`, who has just taken its weights.

        A snapshot, which has no row, begins with a copy of its parent's column. A learner, which has one, gives up
        its row and its column for the other's at half their weight. Neither knows how it does against its parent.
        """
        is_learner = new in self.cells
        factor = INHERITED if is_learner else 1.0
        cells: dict[str, dict[str, PayoffCell]] = {}
        for learner, row in self.cells.items():
            source = self.row(old) if learner == new else row
            kept = {column: cell for column, cell in source.items() if column != new}
            if learner == new:
                kept = {column: cell.faded(factor) for column, cell in kept.items()}
            elif old in row:
                kept[new] = row[old].faded(factor)
            cells[learner] = kept
        return Payoffs(cells)

    def without(self, ids: Collection[str]) -> Payoffs:
        """Without the rows and columns of some members."""
        return Payoffs(
            {
                learner: {column: cell for column, cell in row.items() if column not in ids}
                for learner, row in self.cells.items()
                if learner not in ids
            }
        )


EMPTY = Payoffs({})
"""What a league begins with."""
