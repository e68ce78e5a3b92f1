"""Keep training away from held-out members: by what they do at the length that is played, not by their names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from inspect import signature

import msgspec

from mage.config.schema import Config
from mage.config.wordings import REWORDED
from mage.errors import ConfigError, listing
from mage.evaluation.config_splits import split_names_of
from mage.evaluation.splits import Split, SplitKind, has_levels, load_split, split_names
from mage.opponents.scripts import MixtureScope
from mage.protocols import ComparesOpponents, DrawsLevels, World
from mage.seeds import derive
from mage.spec import Spec, parse_spec
from mage.types import Task
from mage.worlds.openspiel.game_builders import GAMES
from mage.worlds.openspiel.openings import without_opening
from mage.worlds.registry import load_world

_MOST_DRAWS = 1000
"""Most seeds that are tried for a task whose opponent is not held out."""


def refuse_held_out(world: str, members: Sequence[str], named: Sequence[Split] = ()) -> None:
    """Raise `ConfigError` when a training member in `world`, whatever its parameters, or its wording is held out.

    A member is held out when it can draw a behaviour of a member of the split, in one of the seats, in the split's own
    world. Checked are the shipped splits and those in `named`; other split files are not known.
    """
    for split in _held_out_splits(world, named):
        if not members and split.kind is not SplitKind.REWORDED and isinstance(load_world(world), DrawsLevels):
            continue  # `avoid_held_out` draws no level of it
        if split.kind is SplitKind.REWORDED:  # its wording is held out, its players are not
            if wording(split.world) == wording(world):
                raise ConfigError(
                    f"world = {world}: its wording is held out by the split {split.name!r}; train with another"
                )
        elif has_levels(world):
            _refuse_levels(members, split)
        else:
            _refuse_opponents(members, split)


def refuse_held_out_wordings(world: str, num: int, named: Sequence[Split] = ()) -> None:
    """Raise `ConfigError` when one of the wordings 1 to `num` of `world` is held out, whatever its parameters."""
    for split in _held_out_splits(world, named):
        held_out = wording(split.world)
        if split.kind is SplitKind.REWORDED and held_out in range(1, num + 1):
            raise ConfigError(
                f"population.wordings = {num}: the wording {REWORDED}={held_out} is held out by the split "
                f"{split.name!r}; give a number below {held_out}"
            )


def avoid_held_out(config: Config, task: Task) -> Task:
    """The task; with another seed where its seed draws a held-out level, or opponents that behave like held-out ones.

    A task of a world that lists its levels has one of the population's, which were checked before.
    """
    draws_level = not task.level and isinstance(load_world(task.world), DrawsLevels)
    if not draws_level and not any(_is_drawn_freely(task.world, spec) for spec in task.opponents):
        return task
    named = tuple(load_split(name) for name in split_names_of(config))
    splits = [split for split in _held_out_splits(task.world, named) if split.kind is not SplitKind.REWORDED]
    found = task
    for number in range(_MOST_DRAWS):
        if not _meets(found, splits):
            return found
        found = msgspec.structs.replace(task, seed=derive(task.seed, "redrawn", number))
    drawn = f"opponents drawn from {listing(task.opponents)} behave like" if task.opponents else "levels drawn are"
    raise ConfigError(f"all of {_MOST_DRAWS} {drawn} held-out ones")


def _held_out_splits(world: str, named: Sequence[Split]) -> Iterator[Split]:
    name = parse_spec(world).name
    for split in (*map(load_split, split_names()), *named):
        if split.held_out and parse_spec(split.world).name == name:
            yield split


def _refuse_levels(levels: Sequence[str], split: Split) -> None:
    if not levels:
        raise ConfigError(
            f"population.members = []: every level may be drawn, and the split {split.name!r} holds out "
            f"{listing(split.members)}; name the levels to train on"
        )
    for level in sorted(set(levels) & set(split.members)):
        raise ConfigError(f"population.members: {level!r} is held out by the split {split.name!r}; train without it")


def _refuse_opponents(members: Sequence[str], split: Split) -> None:
    known = _behaviours_by_seat(split)
    for member in members:
        for spec in _with_inner_specs(parse_spec(member)):
            for seat, held_out in known.items():
                for behaviour in _behaviours(split.world, str(spec), seat) & held_out.keys():
                    how = _how(member, spec, held_out[behaviour])
                    raise ConfigError(
                        f"population.members: {member!r}{how} is held out by the split {split.name!r}; train without it"
                    )


def _how(member: str, spec: Spec, held_out: str) -> str:
    """How a member of a population plays a held-out one; empty where it is that one."""
    if str(spec) != held_out:
        return f" behaves like {held_out!r}, which"
    return "" if str(parse_spec(member)) == held_out else f" plays {held_out!r}, which"


def _meets(task: Task, splits: Sequence[Split]) -> bool:
    """Whether what the task's seed draws is a level of one of the splits, or an opponent that behaves like a member."""
    drawing = load_world(task.world)
    if isinstance(drawing, DrawsLevels):
        level = drawing.drawn_level(task)
        return any(level in split.members for split in splits)
    for spec in dict.fromkeys(split.world for split in splits):
        world = load_world(spec)
        if not isinstance(world, ComparesOpponents):
            continue
        known = [_behaviours_by_seat(split) for split in splits if split.world == spec]
        others = [seat for seat in range(world.info.num_seats) if seat != task.seat]
        for seat, opponent in zip(others, task.opponents, strict=True):
            if _is_drawn_freely(spec, opponent):
                behaviour = world.drawn_behaviour(opponent, task, seat)
                if any(behaviour in held_out[seat] for held_out in known):
                    return True
    return False


@cache
def _is_drawn_freely(world: str, spec: str) -> bool:
    """Whether the seed of a task draws the opponent from too many to compare before."""
    loaded = load_world(world)
    if not isinstance(loaded, ComparesOpponents):
        return False
    try:
        return any(isinstance(found, str) for found in loaded.behaviours(spec, loaded.info.num_seats - 1))
    except ConfigError:  # a member of a league
        return False


@cache
def _behaviours_by_seat(split: Split) -> Mapping[int, Mapping[Hashable, str]]:
    """By an opponent's seat, the members of a split by what they do."""
    return {
        seat: {found: member for member in split.members for found in _behaviours(split.world, member, seat)}
        for seat in range(load_world(split.world).info.num_seats)
    }


@cache
def _behaviours(world: str, spec: str, seat: int) -> frozenset[Hashable]:
    """What an opponent does; its canonical spec where it cannot play in that world or what it does is not known."""
    loaded: World = load_world(world)
    text = str(parse_spec(spec))
    if not isinstance(loaded, ComparesOpponents):
        return frozenset({text})
    try:
        return frozenset({text, *loaded.behaviours(spec, seat)})
    except ConfigError:
        return frozenset({text})


def _with_inner_specs(spec: Spec) -> list[Spec]:
    """The spec and the specs it plays for whole episodes: those of a switch, and of a mixture not drawn per move."""
    is_whole = spec.name == "mixture" and str(spec.named.get("each", MixtureScope.MOVE)) != MixtureScope.MOVE
    inner: Iterable[object] = spec.args if spec.name == "switch" or is_whole else ()
    return [spec, *(other for member in inner if isinstance(member, Spec) for other in _with_inner_specs(member))]


def wording(game: str) -> object:
    """The seed of a game's rewording; None for the usual words."""
    spec = without_opening(parse_spec(game))
    if spec.name not in GAMES:
        return spec.named.get(REWORDED)
    return signature(GAMES[spec.name]).bind(*spec.args, **spec.named).arguments.get(REWORDED)
