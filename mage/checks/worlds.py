"""Contract check for worlds: holds any world to `mage.protocols.World` and says in one line what is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import isfinite
from typing import NamedTuple

import msgspec

from mage.answers import WORLD_ERRORS, code_error
from mage.arguments import WORLD, check_kind
from mage.checks.episodes import EpisodeChecker, PlayedEpisode, require
from mage.checks.exact_models import check_model
from mage.errors import ConfigError, InexactError, PlayError
from mage.protocols import ExactWorld, World
from mage.types import Ending, Task, WorldInfo
from mage.worlds.openspiel.world import OpenSpielWorld
from mage.worlds.registry import load_world

_NOT_THERE = "nothing has this name"
"""A level and an opponent that no world has."""
_OPPONENT = "uniform"
"""The opponent whose exact model is checked: it may do anything."""
_NUM_VARIANTS = 3
"""How differently the episodes of a seed are played to be found in the exact model."""
_NUM_LEVELS = 3
"""How many of the levels that were met are checked."""
_MORE_SEEDS = range(1000, 1060)
"""Tried where chance did not show."""

Played = list[tuple[Task, PlayedEpisode]]


class WorldReport(NamedTuple):
    """What was checked."""

    info: WorldInfo
    num_episodes: int
    num_turns: int
    lowest: float
    highest: float
    """The scores that were seen."""
    levels: tuple[str, ...]
    """The levels that were checked."""
    exact: str
    """What was found about the exact model."""


def check_world(
    spec: str,
    seeds: Iterable[int] = range(5),
    *,
    max_turns: int = 200,
    chance_shows: bool = True,
    levels: Sequence[str] = (),
    texts: Sequence[str] = (),
) -> WorldReport:
    """Check the world of a spec; raise a `PlayError` that says what is broken.

    `chance_shows=False` is for worlds in which chance hardly matters. `levels` are checked beside those that a result
    names as its fact `hidden`; `texts` are played beside nonsense where actions are open.
    """
    check_kind("spec", spec, str, WORLD)
    world = load_world(spec)
    try:
        _check_info(spec, world)
        opponents = (_OPPONENT,) * (world.info.num_seats - 1)
        tasks = [Task(spec, opponents, 0, seed, 2, False, False, max_turns) for seed in seeds]
        if not tasks:
            raise ConfigError("a world is checked with at least 1 seed")
        return _check(world, tasks, chance_shows, levels, texts)
    except WORLD_ERRORS as error:
        raise code_error(spec, error) from error


def _check(
    world: World, tasks: Sequence[Task], chance_shows: bool, levels: Sequence[str], texts: Sequence[str]
) -> WorldReport:
    """Check a world by tasks that differ in their seeds alone."""
    info = world.info
    _check_rules(world, tasks[0])
    _check_refusals(world)
    checker = EpisodeChecker(world, texts)
    played: Played = [(task, checker.play(task)) for task in tasks]
    for task, first in played:
        require(checker.play(task) == first, task.world, "the same seed gives another episode")
        require(checker.play(task, 1) == checker.play(task, 1), task.world, "the same seed gives another 2nd episode")
        checker.check_replayed_deal(task)
        checker.check_early_ends(task, first)
    for one, other in zip(played, [*played[1:], played[0]], strict=True):
        checker.check_interleaved([one, other])
    _check_chance(checker, info, played, chance_shows)
    checked = _check_levels(world, checker, played, levels)
    _check_ends(world, checker, tasks[0], info)
    exact = _check_exact(world, checker, tasks, checked)
    require(world.info == info, tasks[0].world, "info is another one after some play")
    return WorldReport(info, checker.num_episodes, checker.num_turns, checker.lowest, checker.highest, checked, exact)


def _check_info(spec: str, world: World) -> None:
    info = world.info
    require(info == world.info, spec, "info is another one each time")
    require(info.num_seats >= 1, spec, f"info.num_seats = {info.num_seats}: a world has at least one seat")
    finite = isfinite(info.lowest) and isfinite(info.highest) and info.lowest < info.highest
    require(finite, spec, f"info.lowest = {info.lowest} is not a number below info.highest = {info.highest}")
    total = info.constant_sum
    require(total is None or isfinite(total), spec, f"info.constant_sum = {total} is not a number")
    for name, said in (("trial", info.trial), ("reflect", info.reflect)):
        require(bool(said.strip()), spec, f"info.{name} is empty: it is what agents are told")
        alone = info.num_seats == 1 and "opponent" in said.casefold()
        require(not alone, spec, f"info.{name} speaks of opponents in a world of one seat: {said!r}")


def _check_rules(world: World, task: Task) -> None:
    for seat in range(world.info.num_seats):
        own = msgspec.structs.replace(task, seat=seat)
        rules = world.rules(own)
        require(bool(rules.strip()), task.world, f"the rules of seat {seat} are empty")
        require(world.rules(own) == rules, task.world, f"the rules of seat {seat} are others each time")


def _check_refusals(world: World) -> None:
    """A world says no to levels and opponents that it does not have."""
    seat = min(1, world.info.num_seats - 1)
    for name, accepts in (
        ("check_level", _accepts(lambda: world.check_level(_NOT_THERE))),
        ("check_opponent", _accepts(lambda: world.check_opponent(_NOT_THERE, seat))),
    ):
        problem = f"{name} accepts what does not exist; it must raise a ConfigError"
        require(not accepts, _NOT_THERE, problem)


def _check_chance(checker: EpisodeChecker, info: WorldInfo, played: Played, chance_shows: bool) -> None:
    """Moves are the same for every seed where the choices are, so only chance can make a difference."""
    (task, first), *others = played
    differs = any(other != first for _, other in others)
    if not info.has_chance:
        require(not differs, task.world, "info.has_chance is False, but another seed gives another episode")
    elif chance_shows and others and not differs:
        more = (checker.play(msgspec.structs.replace(task, seed=seed)) for seed in _MORE_SEEDS)
        differs = any(other != first for other in more)
        require(differs, task.world, "info.has_chance is True, but chance is the same for every seed")


def _check_ends(world: World, checker: EpisodeChecker, task: Task, info: WorldInfo) -> None:
    """Some episode ends by itself, as OpenSpiel's games do; where any text is an action, nonsense need not end one."""
    if not (checker.num_finished or info.has_open_actions or isinstance(world, OpenSpielWorld)):
        raise PlayError(
            f"{task.world}: none of {checker.num_episodes} episodes ended within {task.max_turns} turns; "
            "a world must end them (a SoloWorld in actions or is_over), or needs more with --max-turns"
        )


def _check_levels(world: World, checker: EpisodeChecker, played: Played, levels: Sequence[str]) -> tuple[str, ...]:
    """A level is the same whatever the seed."""
    met = dict.fromkeys(str(episode.result.facts.get("hidden", "")) for _, episode in played)
    alone = world.info.num_seats == 1
    named = [level for level in met if level and alone and _accepts(partial(world.check_level, level))][:_NUM_LEVELS]
    for level in levels:
        world.check_level(level)
    checked = tuple(dict.fromkeys((*levels, *named)))
    task = played[0][0]
    for level in checked:
        tasks = [msgspec.structs.replace(task, level=level, seed=seed) for seed in (task.seed, task.seed + 1)]
        one, other = (checker.play(each).result.facts.get("hidden") for each in tasks)
        require(one == other, level, f"a level hides {one!r}, and {other!r} with another seed")
        require(level not in named or str(one) == level, level, f"the level of this name hides {one!r}")
    return checked


def _accepts(check: Callable[[], None]) -> bool:
    try:
        check()
    except ConfigError:
        return False
    return True


def _check_exact(world: World, checker: EpisodeChecker, tasks: Sequence[Task], levels: Sequence[str]) -> str:
    """Find played episodes in the exact models; what was found, in words."""
    if not isinstance(world, ExactWorld):
        return "none"
    played: Played = [(task, checker.play(task, 0, variant)) for task in tasks for variant in range(_NUM_VARIANTS)]
    finished = [episode for _, episode in played if episode.result.ending is Ending.FINISHED]
    if not finished and not world.info.has_open_actions:
        return "not checked: no episode was finished"
    seats = range(world.info.num_seats)
    if not all(_accepts(partial(world.check_opponent, _OPPONENT, seat)) for seat in seats[1:]):
        return f"not checked: no opponent is called {_OPPONENT}"
    try:
        for seat in seats:
            check_model(world.exact_model([(_OPPONENT, 1.0)] if seats[1:] else [], seat), seat, finished)
        for level in levels:
            of_level = [checker.play(msgspec.structs.replace(task, level=level)) for task in tasks]
            ended = [episode for episode in of_level if episode.result.ending is Ending.FINISHED]
            check_model(world.exact_model([(level, 1.0)], 0), 0, ended)
    except InexactError as error:
        return f"none: {error}"
    return f"agrees with {len(finished)} episodes"
