"""The pay-off table: each learner's scores against each member, as decayed sums."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import fsum, inf, isfinite, sqrt
from typing import NamedTuple

import msgspec

from mage.errors import ConfigError, PlayError
from mage.stats import Z95

SETTLED = 5
"""Fewest observations for using a cell's own variance."""
_NOTHING = 1e-9
"""Tolerance for weights that have decayed to nothing."""
INHERITED = 0.5
"""Factor on the weights of a parent's cells for a learner that copied it."""


class MatchScore(NamedTuple):
    """One observation: the mean last-episode score of the siblings of one group."""

    row: str
    """The learner."""
    column: str
    """Its opponent."""
    score: float


class PayoffCell(msgspec.Struct, frozen=True):
    """One learner's scores against one member: sums over observations with decaying weights.

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
    """Number of observations."""
    updated: int
    """Step of the last observation."""
    weight_squares: float
    """Sum of the squared weights, for the effective sample size."""

    @classmethod
    def of(cls, score: float, step: int) -> PayoffCell:
        """A cell with one observation."""
        return cls(1.0, score, score * score, 1, step, 1.0)

    def plus(self, score: float, step: int, decay: float) -> PayoffCell:
        """With one more observation of weight 1, after multiplying the older weights by `decay`."""
        old = self.scaled(decay)
        return PayoffCell(
            old.weight + 1.0,
            old.total + score,
            old.squares + score * score,
            self.count + 1,
            step,
            old.weight_squares + 1.0,
        )

    def scaled(self, factor: float) -> PayoffCell:
        """With all weights multiplied by a factor: mean and variance stay, new observations count for more."""
        weights = (self.weight * factor, self.total * factor, self.squares * factor)
        return PayoffCell(*weights, self.count, self.updated, self.weight_squares * factor * factor)

    @property
    def mean(self) -> float:
        return self.total / self.weight

    @property
    def effective(self) -> float:
        """Effective sample size: (sum of w)² / sum of w² (Kish 1965)."""
        return self.weight * self.weight / self.weight_squares

    @property
    def variance(self) -> float:
        """Unbiased variance of one observation; infinite where the effective sample size is 1."""
        known = 1.0 - 1.0 / self.effective
        if known < _NOTHING:
            return inf
        return max(0.0, self.squares / self.weight - self.mean * self.mean) / known

    def error(self, pooled: float) -> float:
        """Standard error of the mean; a cell with few observations uses the `pooled` variance of the table."""
        variance = self.variance if self.count >= SETTLED else pooled
        return sqrt(variance / self.effective)

    def half_width(self, pooled: float) -> float:
        """Half of the width of the mean's 95 % interval."""
        return Z95 * self.error(pooled)


class Payoffs(msgspec.Struct, frozen=True):
    """All cells, by learner (row) and member (column); the diagonal is empty."""

    cells: Mapping[str, Mapping[str, PayoffCell]]

    def cell(self, row: str, column: str) -> PayoffCell | None:
        """The cell of a learner and a member; None without observations."""
        return self.row(row).get(column)

    def row(self, learner: str) -> Mapping[str, PayoffCell]:
        """A learner's cells, by opponent."""
        return self.cells.get(learner, {})

    def column(self, member: str) -> dict[str, PayoffCell]:
        """The cells against a member, by learner."""
        return {learner: row[member] for learner, row in self.cells.items() if member in row}

    def pooled_variance(self) -> float:
        """Mean of the cells' variances, weighted by degrees of freedom; infinite where no cell has two observations."""
        cells = [cell for row in self.cells.values() for cell in row.values() if isfinite(cell.variance)]
        freedom = fsum(cell.effective - 1.0 for cell in cells)
        return fsum((cell.effective - 1.0) * cell.variance for cell in cells) / freedom if cells else inf

    def distance(self, one: str, other: str) -> float:
        """Root mean square difference of two columns over common learners; infinite where there are none."""
        a, b = self.column(one), self.column(other)
        squares = [(a[learner].mean - b[learner].mean) ** 2 for learner in a if learner in b]
        return sqrt(fsum(squares) / len(squares)) if squares else inf

    def with_results(
        self, results: Iterable[MatchScore], step: int, half_life: float, live: Collection[str]
    ) -> Payoffs:
        """With observations added one by one, in the order given.

        Each first multiplies the older weights of its cell by 0.5 ** (1 / half_life) where the row or the column is in
        `live`, because members in training change. A learner against itself is left out.
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
        """With the cells of `old` as the prior of `new`, which has just copied its weights.

        A snapshot, which has no row, begins with a copy of its parent's column. A learner replaces its row and column
        by its parent's at half their weight. Neither has a cell against its parent.
        """
        is_learner = new in self.cells
        factor = INHERITED if is_learner else 1.0
        cells: dict[str, dict[str, PayoffCell]] = {}
        for learner, row in self.cells.items():
            source = self.row(old) if learner == new else row
            kept = {column: cell for column, cell in source.items() if column != new}
            if learner == new:
                kept = {column: cell.scaled(factor) for column, cell in kept.items()}
            elif old in row:
                kept[new] = row[old].scaled(factor)
            cells[learner] = kept
        return Payoffs(cells)

    def without(self, ids: Collection[str]) -> Payoffs:
        """Without the rows and columns of the given members."""
        return Payoffs(
            {
                learner: {column: cell for column, cell in row.items() if column not in ids}
                for learner, row in self.cells.items()
                if learner not in ids
            }
        )


EMPTY = Payoffs({})
"""The table of a new league."""
