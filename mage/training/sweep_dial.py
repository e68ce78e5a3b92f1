"""The dial of a sweep: last scores against the value that is varied, learned and exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import msgspec

from mage.config.load import recorded
from mage.config.schema import Config
from mage.config.vary import Scalar, with_value
from mage.errors import ConfigError, InexactError, RecordError
from mage.evaluation.config_splits import evaluated_splits
from mage.evaluation.splits import POPULATION, Split
from mage.evaluation.value.dial import Variation
from mage.evaluation.value.jumps import stepped_curve
from mage.evaluation.value.objective_end import objective_end
from mage.files import BAD_JSON
from mage.runs.sweep_plan import SweepPlan
from mage.spec import make_spec, parse_spec
from mage.stats import Estimate
from mage.training.sweep_summary import SweepSummary

DIAL = "dial.json"


class SweepPoint(msgspec.Struct, frozen=True):
    """A recipe at one value."""

    value: Scalar
    seeds: tuple[int, ...]
    """Those that were evaluated."""
    score: Estimate | None
    """The learned last score, averaged over seeds; None where none was evaluated."""
    exact: float | None
    """The last score of the best play for the recipe's objective."""
    by_seed: tuple[float, ...] = ()
    """The learned last score with each of the seeds."""


class SweepLine(msgspec.Struct, frozen=True):
    """A recipe at all values."""

    recipe: str
    split: str
    """What it was evaluated on: the population where this is among its splits, else the first of them."""
    points: tuple[SweepPoint, ...]
    steps: tuple[tuple[float, float], ...] = ()
    """Exact last scores against the value where it is a number with decimals: pairs, two at each jump."""
    missing: str = ""
    """Why it has no exact values."""


class SweepDial(msgspec.Struct, frozen=True):
    """Last scores of all recipes of a sweep against the value of one key."""

    key: str
    lines: tuple[SweepLine, ...]
    world: str = ""
    """The world that all recipes are trained in, without the parameter that is varied; empty where they differ."""

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The values, in the order of the plan."""
        return tuple(point.value for point in self.lines[0].points)

    @property
    def common(self) -> str:
        """What the names of all recipes begin with, as `scout` of `scout+single` and `scout+final`; may be empty."""
        columns = zip(*(line.recipe.split("+")[:-1] for line in self.lines), strict=False)
        return "+".join(names[0] for names in takewhile(lambda names: len(set(names)) == 1, columns))

    @property
    def named_lines(self) -> Mapping[str, SweepLine]:
        """The lines by the rest of their recipes' names."""
        start = f"{self.common}+" if self.common else ""
        return {line.recipe.removeprefix(start): line for line in self.lines}


def read_dial(folder: Path) -> SweepDial | None:
    """The dial that was written; None where there is none yet."""
    if not (folder / DIAL).exists():
        return None
    try:
        return msgspec.json.decode((folder / DIAL).read_bytes(), type=SweepDial)
    except (OSError, *BAD_JSON) as error:
        raise RecordError(f"{folder / DIAL} cannot be read: {error}; delete it to have it made again") from None


def make_dial(plan: SweepPlan, summary: SweepSummary, before: SweepDial | None = None) -> SweepDial | None:
    """The dial of a sweep, with the exact values of the one before; None where nothing is varied."""
    key = next((key for run in plan.runs for key in run.varied or ()), None)
    if key is None:
        return None
    configs: dict[str, dict[Scalar, Config]] = {}
    for run in plan.runs:
        value = (run.varied or {})[key]
        if value not in configs.setdefault(run.recipe, {}):
            configs[run.recipe][value] = recorded(run.config, run.name)
    known = {line.recipe: line for line in before.lines} if before is not None else {}
    exact = {recipe: known.get(recipe) or _exact_line(key, recipe, mine) for recipe, mine in configs.items()}
    worlds = {_without(config.world, key) for mine in configs.values() for config in mine.values()}
    lines = tuple(_with_scores(line, key, summary) for line in exact.values())
    return SweepDial(key, lines, worlds.pop() if len(worlds) == 1 else "")


def _without(world: str, key: str) -> str:
    """The world without the parameter that `key` names.

    >>> _without("hidden(scout,look=0.1)", "world.look"), _without("rps(rounds=3)", "learner.lr")
    ('hidden(scout)', 'rps(rounds=3)')
    """
    spec = parse_spec(world)
    return str(make_spec(spec.name, *spec.args, **{n: v for n, v in spec.named.items() if f"world.{n}" != key}))


def _with_scores(line: SweepLine, key: str, summary: SweepSummary) -> SweepLine:
    """The line with the scores of all seeds that were evaluated."""
    means = {(mean.varied or {})[key]: mean for mean in summary.recipes if mean.recipe == line.recipe}
    runs = [run for run in summary.runs if run.recipe == line.recipe and run.scores]
    points = [
        msgspec.structs.replace(
            point,
            seeds=means[point.value].seeds,
            score=means[point.value].scores[line.split][-1],
            by_seed=tuple(run.scores[line.split][-1].value for run in runs if (run.varied or {})[key] == point.value),
        )
        if point.value in means
        else msgspec.structs.replace(point, seeds=(), score=None, by_seed=())
        for point in line.points
    ]
    return msgspec.structs.replace(line, points=tuple(points))


def _exact_line(key: str, recipe: str, configs: Mapping[Scalar, Config]) -> SweepLine:
    """What the objective of a recipe ends at, at each value and between them; no scores yet."""
    points: list[SweepPoint] = []
    missing = ""
    for value, config in configs.items():
        exact: float | None = None
        try:
            exact = objective_end(config, _drawn_split(config))
        except InexactError as error:
            missing = str(error)
        points.append(SweepPoint(value, (), None, exact))
    first = next(iter(configs.values()))
    numbers = [value for value in configs if isinstance(value, float)]
    is_stepped = len(numbers) == len(configs) and not missing
    steps = _steps(key, recipe, first, numbers) if is_stepped else ()
    return SweepLine(recipe, _drawn_split(first).name, tuple(points), steps, missing)


def _steps(key: str, recipe: str, config: Config, values: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Exact last scores from the lowest value to the highest; none where a value between cannot be planned."""

    def last(value: float) -> float:
        at_value = with_value(config, key, value, recipe)
        return objective_end(at_value, _drawn_split(at_value))

    try:
        return stepped_curve(last, [*values, *Variation(key, min(values), max(values)).values])
    except (ConfigError, InexactError):
        return ()


def _drawn_split(config: Config) -> Split:
    """The split whose scores are shown: the population where it is evaluated, else the first."""
    splits = evaluated_splits(config)
    return next((split for split in splits if split.name == POPULATION), splits[0])
