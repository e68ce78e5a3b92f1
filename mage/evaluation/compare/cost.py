"""Training cost to reach a score level: tokens and seconds until the score of the last episode passes it.

Tokens are those of all streams played in training, read and sampled, dead groups included. Seconds are wall-clock time
without evaluations, repeated steps of resumed runs included.

The score is that of evaluations during training. A run without them uses its training scores if it trains on the
evaluated split itself: each is averaged with the `WINDOW - 1` steps before it, and the first `WINDOW - 1` are left out.
A level is reached at the first point at or over it whose successor is too; the last point needs no successor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from mage.errors import RecordError
from mage.files import read_lines
from mage.stats import Estimate, mean

WINDOW = 10
"""Steps of the moving average of training scores."""
TRAINING = ""
"""The split name of training scores."""
SHARE = 0.8
"""Position of the second level between the first and the limit."""
_SCORE = re.compile(r"(?:score/episode_|eval/(?P<split>.+)/score_)(?P<episode>\d{1,9})")


class Level(StrEnum):
    """Score levels."""

    MEMORYLESS = "best memoryless"
    MOST = "80 % of the way"
    """From best memoryless to the limit."""


class Point(msgspec.Struct, frozen=True):
    """A score of the last episode, and the training cost up to it."""

    step: int
    tokens: float
    seconds: float
    score: float


class History(msgspec.Struct, frozen=True):
    """Cost and score curves of one training run."""

    tokens: float
    """Total tokens played."""
    seconds: float
    """Total seconds without evaluations."""
    trained_on: str
    """The split whose members, and no others, were its training opponents; empty where there is none."""
    pool: str
    """World and opponents of training as text: training scores of equal pools can be compared."""
    curves: Mapping[tuple[str, int], tuple[Point, ...]]
    """By split and number of episodes: evaluations during training and at the end. `TRAINING` has the training scores,
    averaged over `WINDOW` steps."""

    def curve(self, split: str, episodes: int) -> tuple[Point, ...]:
        """The score curve of a split; empty where there is none."""
        evaluated = self.curves.get((split, episodes), ())
        if len(evaluated) > 1:
            return evaluated
        return self.curves.get((TRAINING, episodes), ())[WINDOW - 1 :] if split == self.trained_on else ()


class Reached(msgspec.Struct, frozen=True):
    """Cost of a method's seeds to reach a level; None where none did."""

    num: int
    """Seeds that reached it."""
    of: int
    """Seeds that have a score curve."""
    steps: Estimate | None
    tokens: Estimate | None
    seconds: Estimate | None


def read_history(folder: Path, *, trained_on: str, pool: str) -> History:
    """Read the cost and score curves of a run."""
    clock = _clock(folder / "timings.jsonl")
    path = folder / "metrics.jsonl"
    tokens, seconds = 0.0, 0.0
    curves: dict[tuple[str, int], list[Point]] = {}
    for line in read_lines(path):
        step = _step_of(line, path)
        tokens += _number(line, "play/tokens_in_streams", path)
        seconds = clock.get(step, seconds)
        for split, (episode, score) in _last_scores(line, path).items():
            curves.setdefault((split, episode), []).append(Point(step, tokens, seconds, score))
    return History(
        tokens=tokens,
        seconds=seconds,
        trained_on=trained_on,
        pool=pool,
        curves={
            key: tuple(points if key[0] != TRAINING else moving_average(points, WINDOW))
            for key, points in curves.items()
        },
    )


def moving_average(points: Sequence[Point], window: int) -> list[Point]:
    """Each score averaged with up to `window - 1` before it.

    >>> [point.score for point in moving_average([Point(k, 0, 0, score) for k, score in enumerate((1, 3, 5))], 2)]
    [1.0, 2.0, 4.0]
    """
    means = []
    for end in range(1, len(points) + 1):
        recent = [point.score for point in points[max(0, end - window) : end]]
        means.append(msgspec.structs.replace(points[end - 1], score=sum(recent) / len(recent)))
    return means


def first_reached(points: Sequence[Point], level: float) -> Point | None:
    """The first point at or over a level whose successor is too; the last point needs no successor.

    >>> first_reached([Point(k, 0, 0, score) for k, score in enumerate((0.1, 0.5, 0.2, 0.4, 0.6))], 0.4).step
    3
    """
    for point, following in zip(points, (*points[1:], None), strict=False):
        if point.score >= level and (following is None or following.score >= level):
            return point
    return None


def levels(memoryless: float | None, limit: float | None) -> dict[Level, float]:
    """The levels of a split for which exact references are known.

    >>> levels(0.0, 0.5)
    {<Level.MEMORYLESS: 'best memoryless'>: 0.0, <Level.MOST: '80 % of the way'>: 0.4}
    """
    if memoryless is None:
        return {}
    found = {Level.MEMORYLESS: memoryless}
    return found if limit is None else found | {Level.MOST: memoryless + SHARE * (limit - memoryless)}


def cost_to_reach(curves: Sequence[Sequence[Point]], level: float) -> Reached:
    """Cost to reach a level: means over the seeds that did, with Student's interval."""
    followed = [curve for curve in curves if curve]
    points = [point for curve in followed if (point := first_reached(curve, level)) is not None]
    if not points:
        return Reached(0, len(followed), None, None, None)
    costs = ([float(p.step) for p in points], [p.tokens for p in points], [p.seconds for p in points])
    steps, tokens, seconds = map(mean, costs)
    return Reached(len(points), len(followed), steps, tokens, seconds)


def _clock(path: Path) -> dict[int, float]:
    """Cumulative seconds by step, over all processes of the run, without evaluations."""
    found: dict[int, float] = {}
    total = 0.0
    for line in read_lines(path):
        step = _step_of(line, path)
        total += _number(line, "step_s", path) - _number(line, "evaluation_s", path)
        found[step] = total
    return found


def _last_scores(line: Mapping[str, Any], path: Path) -> dict[str, tuple[int, float]]:
    """By split: the last episode in a line of metrics, and its score."""
    found: dict[str, tuple[int, float]] = {}
    for key in line:
        if match := _SCORE.fullmatch(key):
            split, episode = match["split"] or TRAINING, int(match["episode"])
            found[split] = max(found.get(split, (0, 0.0)), (episode, _number(line, key, path)))
    return found


def _step_of(line: Any, path: Path) -> int:
    if not isinstance(line, dict) or not isinstance(line.get("step"), int):
        raise RecordError(f"{path}: a line of it has no step")
    return int(line["step"])


def _number(line: Mapping[str, Any], key: str, path: Path) -> float:
    """A number in a line; 0 where it is missing."""
    try:
        return float(msgspec.convert(line.get(key, 0.0), float))
    except (msgspec.ValidationError, OverflowError):
        raise RecordError(f"{path}: {key} is no number at step {line['step']}") from None
