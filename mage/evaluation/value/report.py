"""What is found about a task before any training, as values: the report of `mage value`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mage.evaluation.exact.myopic import MyopicScores, MyopicTrial
from mage.evaluation.exact.planner import EpisodeScores
from mage.evaluation.exact.pool import Members
from mage.evaluation.value.sampled_bounds import Bound


class ValueRequest(msgspec.Struct, frozen=True):
    """What to find the values of."""

    world: str
    opponents: Sequence[str] = ()
    """Splits, opponent specs, or levels of a world of one seat."""
    seat: int = 0
    episodes: int = 3
    discount: float = 0.6
    """Across an episode boundary, of the objectives that have one."""
    words: int = 0
    """Search plays with 1 to this many words at each boundary."""
    last_episode: bool = False
    """Search plays that remember the last episode alone."""
    samples: int = 32
    """Draws or trials for bounds, where a task is too large."""
    seed: int = 0


class ObjectiveScores(msgspec.Struct, frozen=True):
    """What an objective ends at, if training finds its best play."""

    name: str
    """single, cumulative, sum, differential or final."""
    label: str
    """The name with its discount and the method that trains with it."""
    weights: tuple[float, ...]
    """What a trial pays for the score of each episode; none where each episode is paid for itself."""
    scores: EpisodeScores
    """Expected score by episode; ties go to the better last episode, then to the larger sum."""


class ValueReport(msgspec.Struct, frozen=True):
    """The values of a task. What is not exact is None; then `missing` says why, and `bounds` may have bounds."""

    world: str
    members: Members
    """Opponents or levels with weights that sum to 1; '' stands for all levels of a world of one seat."""
    seat: int
    episodes: int
    score_range: tuple[float, float]
    """The lowest and the highest score of an episode."""
    discount: float
    """Across an episode boundary, of the objectives that have one."""
    memoryless: float | None = None
    """M: the best score of the last episode for a player that sees this episode alone."""
    myopic: MyopicTrial | None = None
    """G-, G~ and G+: scores by episode of a player that remembers everything and plays each episode for itself."""
    best_last: EpisodeScores | None = None
    """B: scores by episode of the play with the best last episode; of several, of one with the largest sum."""
    best_sum: EpisodeScores | None = None
    """C: scores by episode of the play with the best sum; of several, of one with the best last episode."""
    informed: float | None = None
    """F: the best score of the last episode for a player that is told what is hidden."""
    memory: float | None = None
    """G+ - M."""
    exploration: float | None = None
    """B - G+."""
    price: float | None = None
    """The sum of C minus the sum of B: what the best last episode costs."""
    objectives: tuple[ObjectiveScores, ...] = ()
    words_at_least: tuple[float, ...] = ()
    """R(1), R(2), …: last scores found with so many words at each boundary; lower bounds, from a local search."""
    last_episode_at_least: float | None = None
    """W: the last score found where only the last episode is remembered; a lower bound, from a local search."""
    bounds: tuple[Bound, ...] = ()
    missing: Mapping[str, str] = {}
    """Why a value is not exact, by its name."""

    def bounds_of(self, name: str) -> list[Bound]:
        """The bounds of a value."""
        return [bound for bound in self.bounds if bound.of == name]


class ValuePoint(msgspec.Struct, frozen=True):
    """The last scores of trials of some length."""

    episodes: int
    memoryless: float
    myopic: MyopicScores
    best_last: float
    best_sum: float
    """The last score of the play with the best sum."""
    informed: float
