"""Splits: named, hashed sets of opponents or levels to evaluate on; training on held-out ones is refused.

A split is a JSON file with its world, its members and the SHA-256 of both. Reports carry the hash, so that metrics
on different versions of a split can be told apart. Shipped splits are in `mage/splits` and are loaded by name; a
user's own, written by `write_split`, by the path of its file, whose stem is the split's name. In a world of one seat
members are levels, compared as text; without members the seeds of tasks draw what is hidden.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from importlib import resources
from inspect import signature
from pathlib import Path

import msgspec

from mage.errors import ConfigError, RecordError, listing
from mage.files import write_atomically
from mage.opponents.remote import check_access_to
from mage.opponents.scripts import MixtureScope
from mage.protocols import World
from mage.spec import Spec, parse_spec, whole
from mage.worlds.openspiel.game_builders import GAMES
from mage.worlds.openspiel.openings import without_opening
from mage.worlds.registry import load_world

_ENDING = ".json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
"""Names are part of file names and metric keys."""


class SplitKind(StrEnum):
    """How the members of a split differ from those of training."""

    SEEN = "seen"
    """Not held out: recipes may train on them."""
    PARAMETERS = "unseen parameters"
    """Other members of a family that recipes train against."""
    FAMILIES = "unseen families"
    """Families that no shipped recipe for the world's usual population trains against."""
    HARDER = "harder"
    """Opponents that are harder to predict or to beat: noise, longer memory, more search."""
    REWORDED = "reworded"
    """Opponents trained against, in the same world with other words for everything."""
    SWITCHING = "switching"
    """Opponents trained against that are replaced by another one at an episode the agent is not told."""


class Split(msgspec.Struct, frozen=True):
    """A set of opponents, or of levels of a world of one seat, to evaluate on."""

    name: str
    description: str
    world: str
    members: tuple[str, ...]
    """Opponent specs, or levels; empty where the seeds of the tasks draw what is hidden."""
    held_out: bool
    """Whether training on its members is refused."""
    pool: str
    """The split whose members are the prior of exact references; usually its own name."""
    sha256: str
    kind: SplitKind = SplitKind.SEEN
    episodes: int | None = None
    """Episodes per trial; None leaves it to the evaluation."""


def fingerprint(game: str, members: tuple[str, ...], episodes: int | None = None) -> str:
    """The hash of a split's world, members and episodes.

    >>> fingerprint("rps", ("uniform",)) == fingerprint("rps", ("uniform",))
    True
    """
    parts = [game, members] if episodes is None else [game, members, episodes]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def has_levels(world: str) -> bool:
    """Whether the members of a population or split of a world are levels."""
    return load_world(world).info.num_seats == 1


def make_split(
    name: str,
    description: str,
    world: str,
    members: tuple[str, ...],
    *,
    held_out: bool,
    pool: str = "",
    kind: SplitKind | None = None,
    episodes: int | None = None,
) -> Split:
    """A split with canonical specs and its hash; the kind of a held-out split is FAMILIES by default."""
    world = str(parse_spec(world))
    canonical = members if has_levels(world) else tuple(str(parse_spec(m)) for m in members)
    return Split(
        name=name,
        description=description,
        world=world,
        members=canonical,
        held_out=held_out,
        pool=pool or name,
        sha256=fingerprint(world, canonical, episodes),
        kind=kind or (SplitKind.FAMILIES if held_out else SplitKind.SEEN),
        episodes=episodes,
    )


def split_names() -> list[str]:
    """Names of the shipped splits."""
    folder = resources.files("mage") / "splits"
    return sorted(f.name.removesuffix(_ENDING) for f in folder.iterdir() if f.name.endswith(_ENDING))


def is_path(name: str) -> bool:
    """Whether `name` is the path of a split file, not the name of a shipped split."""
    return name.endswith(_ENDING)


def load_split(name: str) -> Split:
    """Load a shipped split by name or a user's own by path, checked against its hash."""
    return _load_file(Path(name)) if is_path(name) else shipped_split(name)


@cache
def shipped_split(name: str) -> Split:
    """A shipped split, checked against its hash."""
    if name not in split_names():
        raise ConfigError(f"unknown split {name!r}; known: {listing(split_names())}; or a path{_ENDING}")
    return _decode((resources.files("mage") / "splits" / f"{name}{_ENDING}").read_bytes(), name)


def pool_of(split: Split) -> Split:
    """The split that `split.pool` names."""
    return split if split.pool == split.name else load_split(split.pool)


def write_split(
    path: str | Path,
    world: str,
    members: Sequence[str],
    *,
    description: str = "",
    held_out: bool = False,
    pool: str = "",
    kind: str = "",
    episodes: int | None = None,
) -> Split:
    """Write opponents, or levels of a world of one seat, to evaluate on to `path`, a `.json` file for recipes.

    With `held_out` training on them is refused. `pool` is the split whose members a player may expect: a shipped
    one or one beside the file; by default the new one itself. `kind` says what it asks of an agent (seen, unseen
    parameters, unseen families, harder, reworded or switching), `episodes` how many a trial on it has. A file that
    holds another split already is left alone.
    """
    path = Path(path)
    _check_name(path)
    split = make_split(
        path.stem,
        description,
        world,
        tuple(members),
        held_out=held_out,
        pool=pool,
        kind=_kind(kind) if kind else None,
        episodes=None if episodes is None else whole("episodes", episodes, 1),
    )
    check_split(_with_pool_path(split, path), range(load_world(split.world).info.num_seats))
    content = to_json(split)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.read_bytes() != content:
            raise RecordError(f"{path} exists with other content; delete it or give the split another name")
        write_atomically(path, content)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from None
    return split


def to_json(split: Split) -> bytes:
    """The split as JSON for its file."""
    return msgspec.json.format(msgspec.json.encode(split), indent=1) + b"\n"


def split_files(names: Iterable[str]) -> dict[str, bytes]:
    """By file name, the contents of the split files among `names`, and of the files of their pools."""
    found: dict[str, bytes] = {}
    for name in filter(is_path, names):
        for path in filter(is_path, (name, load_split(name).pool)):
            content = Path(path).read_bytes()
            if found.setdefault(Path(path).name, content) != content:
                raise ConfigError(f"there are two splits called {Path(path).stem!r}; give one of them another name")
    return found


def check_split(split: Split, seats: Sequence[int]) -> None:
    """Raise `ConfigError` on a split that cannot be played from the given seats."""
    world, pool = load_world(split.world), pool_of(split)
    num_seats = world.info.num_seats
    if len(set(split.members)) < len(split.members) or not (split.members or num_seats == 1):
        raise ConfigError(f"the split {split.name!r} needs at least one member, and each of them once")
    if split.held_out and not split.members:
        raise ConfigError(f"the split {split.name!r} has no members, so that it can hold out none")
    is_in_pool = set(split.members) <= set(pool.members) and bool(split.members)
    if pool.world != split.world or not (is_in_pool or not pool.members):
        raise ConfigError(f"the split {split.name!r}: its pool {pool.name!r} has another world or lacks some members")
    for seat in seats:
        if seat >= num_seats:
            raise ConfigError(f"the split {split.name!r}: {split.world} has seats 0 to {num_seats - 1}, not {seat}")
    check_access_to(split.members, f"the split {split.name!r}")
    check_members(world, split.members, seats)


def check_members(world: World, members: Sequence[str], seats: Sequence[int]) -> None:
    """Raise `ConfigError` on opponents that cannot play against the given seats, or on unknown levels."""
    num_seats = world.info.num_seats
    if num_seats == 1:
        for member in members:
            world.check_level(member)
    for seat in seats:
        for other in set(range(num_seats)) - {seat}:
            for member in members:
                world.check_opponent(member, other)


def refuse_held_out(game: str, members: tuple[str, ...], named: Sequence[Split] = ()) -> None:
    """Raise `ConfigError` when a training member in `game`, whatever its parameters, or its wording is held out.

    Checked are the shipped splits and those in `named`; other split files are not known.
    """
    is_solo = has_levels(game)
    training = set(members) if is_solo else _with_inner_members(members)
    for split in (*map(load_split, split_names()), *named):
        if not split.held_out or parse_spec(split.world).name != parse_spec(game).name:
            continue
        if split.kind is SplitKind.REWORDED:  # its wording is held out, its players are not
            if _wording(split.world) == _wording(game):
                raise ConfigError(
                    f"world = {game}: its wording is held out by the split {split.name!r}; train with another"
                )
            continue
        if is_solo and not members:
            raise ConfigError(
                f"population.members = []: every level may be drawn, and the split {split.name!r} holds out "
                f"{listing(split.members)}; name the levels to train on"
            )
        held_out = split.members if is_solo else [str(parse_spec(member)) for member in split.members]
        caught = sorted(training & set(held_out))
        if caught:
            raise ConfigError(
                f"population.members: {caught[0]!r} is held out by the split {split.name!r}; train without it"
            )


def _with_inner_members(members: Iterable[str]) -> set[str]:
    """Canonical specs of opponents and of those they play for whole episodes."""
    return {str(spec) for member in members for spec in _with_inner_specs(parse_spec(member))}


def _with_inner_specs(spec: Spec) -> list[Spec]:
    """The spec and the specs it plays for whole episodes: those of a switch, and of a mixture not drawn per move."""
    is_whole = spec.name == "mixture" and str(spec.named.get("each", MixtureScope.MOVE)) != MixtureScope.MOVE
    inner = spec.args if spec.name == "switch" or is_whole else ()
    return [spec, *(other for member in inner if isinstance(member, Spec) for other in _with_inner_specs(member))]


def _wording(game: str) -> object:
    """The seed of a game's rewording; None for the usual words."""
    spec = without_opening(parse_spec(game))
    if spec.name not in GAMES:
        return spec.named.get("reworded")
    return signature(GAMES[spec.name]).bind(*spec.args, **spec.named).arguments.get("reworded")


def _kind(word: str) -> SplitKind:
    if word not in list(SplitKind):
        raise ConfigError(f"unknown kind of split {word!r}; known: {listing(list(SplitKind))}")
    return SplitKind(word)


def _load_file(path: Path) -> Split:
    """Not cached: the file may change while the process runs."""
    _check_name(path)
    try:
        split = _decode(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"the split {str(path)!r} cannot be read: {error.strerror or error}") from None
    if split.name != path.stem:
        raise ConfigError(f"the split in {path} is called {split.name!r}; file and split must have one name")
    return _with_pool_path(split, path)


def _with_pool_path(split: Split, path: Path) -> Split:
    """The split with its pool as a path where the pool's file lies beside it."""
    beside = path.with_name(f"{split.pool}{_ENDING}")
    is_beside = split.pool != split.name and beside.is_file()
    return msgspec.structs.replace(split, pool=str(beside)) if is_beside else split


def _check_name(path: Path) -> None:
    if path.suffix != _ENDING or not _NAME.fullmatch(path.stem) or path.stem in split_names():
        raise ConfigError(
            f"{str(path)!r} cannot be the file of a split; it ends in {_ENDING}, and its name has letters, digits, '-' "
            "and '_' and is not that of a shipped split"
        )


def _decode(content: bytes, name: str) -> Split:
    try:
        split = msgspec.json.decode(content, type=Split)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"the split {name!r} cannot be read: {error}") from None
    if fingerprint(split.world, split.members, split.episodes) != split.sha256:
        raise RecordError(f"the split {name!r} was changed: its members do not have the hash {split.sha256[:12]}…")
    return split
