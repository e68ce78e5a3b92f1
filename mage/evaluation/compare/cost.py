"""What reaching a level costs: tokens and seconds of training until the score of the last episode passes it.

Tokens are those of the streams played in training, read and sampled, every group counted. Seconds are those of the
clock, without evaluations; what a killed process had to do again is in them.

The score is that of evaluations while training, which are means over many fixed tasks and taken as they are. A run
without them is followed by its training scores where it trains on the judged split itself: each is averaged with the
`WINDOW - 1` steps before it, and the first ones, which have fewer before them, do not count. A level is reached at the
first point at or over it that the next one confirms; the last point needs no confirmation.
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
from mage.stats import Estimate, student_mean

WINDOW = 10
"""Steps over which training scores are averaged."""
TRAINING = ""
"""Stands where scores of training have no split."""
SHARE = 0.8
"""How far the second level lies on the way from the first to the limit."""
_SCORE = re.compile(r"(?:score/episode_|eval/(?P<split>.+)/score_)(?P<episode>\d+)")


class Level(StrEnum):
    """What is to be reached."""

    MEMORYLESS = "best memoryless"
    MOST = "80 % of the way"
    """From there to the limit."""


class Point(msgspec.Struct, frozen=True):
    """A score of the last episode, and what had been spent by then."""

    step: int
    tokens: float
    seconds: float
    score: float


class History(msgspec.Struct, frozen=True):
    """How one run went while it trained."""

    tokens: float
    """All that it played."""
    seconds: float
    """All that it took, evaluations not counted."""
    trained_on: str
    """The split whose members it met in training, and no others; empty where there is none."""
    pool: str
    """The game and the opponents of training, in words: training scores of equal pools can be compared."""
    curves: Mapping[tuple[str, int], tuple[Point, ...]]
    """By split and number of episodes: evaluations while training and at the end. `TRAINING` stands for the trials it
    learned from, whose scores are averaged over `WINDOW` steps."""

    def curve(self, split: str, episodes: int) -> tuple[Point, ...]:
        """The scores to follow the run by on a split; empty where there are none."""
        evaluated = self.curves.get((split, episodes), ())
        if len(evaluated) > 1:
            return evaluated
        return self.curves.get((TRAINING, episodes), ())[WINDOW - 1 :] if split == self.trained_on else ()


class Reached(msgspec.Struct, frozen=True):
    """What it cost the seeds of a method to reach a level; no figures where none did."""

    num: int
    """Seeds that reached it."""
    of: int
    """Seeds that were followed; none where no score was written down on the way."""
    steps: Estimate | None
    tokens: Estimate | None
    seconds: Estimate | None


def read_history(folder: Path, *, trained_on: str, pool: str) -> History:
    """What a run wrote down about its scores and what they cost."""
    clock = _clock(folder)
    tokens, seconds = 0.0, 0.0
    curves: dict[tuple[str, int], list[Point]] = {}
    for line in read_lines(folder / "metrics.jsonl"):
        step = _step_of(line, folder)
        tokens += line.get("play/tokens_in_streams", 0.0)
        seconds = clock.get(step, seconds)
        for split, (episode, score) in _last_scores(line).items():
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
    """Each score averaged with the `window - 1` before it, or with all before it where there are fewer.

    >>> [point.score for point in moving_average([Point(k, 0, 0, score) for k, score in enumerate((1, 3, 5))], 2)]
    [1.0, 2.0, 4.0]
    """
    means = []
    for end in range(1, len(points) + 1):
        recent = [point.score for point in points[max(0, end - window) : end]]
        means.append(msgspec.structs.replace(points[end - 1], score=sum(recent) / len(recent)))
    return means


def first_reached(points: Sequence[Point], level: float) -> Point | None:
    """The first point at or over a level that the next one confirms; the last needs no confirmation.

    >>> first_reached([Point(k, 0, 0, score) for k, score in enumerate((0.1, 0.5, 0.2, 0.4, 0.6))], 0.4).step
    3
    """
    for point, following in zip(points, (*points[1:], None), strict=False):
        if point.score >= level and (following is None or following.score >= level):
            return point
    return None


def levels(memoryless: float | None, limit: float | None) -> dict[Level, float]:
    """The levels of a split as far as its exact references are known.

    >>> levels(0.0, 0.5)
    {<Level.MEMORYLESS: 'best memoryless'>: 0.0, <Level.MOST: '80 % of the way'>: 0.4}
    """
    if memoryless is None:
        return {}
    found = {Level.MEMORYLESS: memoryless}
    return found if limit is None else found | {Level.MOST: memoryless + SHARE * (limit - memoryless)}


def cost_to_reach(curves: Sequence[Sequence[Point]], level: float) -> Reached:
    """What it cost to reach a level: means over the seeds that did, with Student's interval over them."""
    followed = [curve for curve in curves if curve]
    points = [point for curve in followed if (point := first_reached(curve, level)) is not None]
    if not points:
        return Reached(0, len(followed), None, None, None)
    costs = ([float(p.step) for p in points], [p.tokens for p in points], [p.seconds for p in points])
    steps, tokens, seconds = map(student_mean, costs)
    return Reached(len(points), len(followed), steps, tokens, seconds)


def _clock(folder: Path) -> dict[int, float]:
    """Seconds spent when a step was done, by all processes that worked on the run, evaluations not counted."""
    found: dict[int, float] = {}
    total = 0.0
    for line in read_lines(folder / "timings.jsonl"):
        step = _step_of(line, folder)
        total += line["step_s"] - line.get("evaluation_s", 0.0)
        found[step] = total
    return found


def _last_scores(line: Mapping[str, float]) -> dict[str, tuple[int, float]]:
    """By split: the last episode that a line has, and its score."""
    found: dict[str, tuple[int, float]] = {}
    for key, score in line.items():
        if match := _SCORE.fullmatch(key):
            split, episode = match["split"] or TRAINING, int(match["episode"])
            found[split] = max(found.get(split, (0, 0.0)), (episode, score))
    return found


def _step_of(line: Any, folder: Path) -> int:
    if not isinstance(line, dict) or not isinstance(line.get("step"), int):
        raise RecordError(f"{folder}: a line of its metrics or timings has no step")
    return int(line["step"])
