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
from itertools import product
from pathlib import Path

import msgspec

from mage.arguments import WORLD, as_path, as_texts, check_kind
from mage.errors import ConfigError, RecordError, did_you_mean, listing
from mage.files import BAD_JSON, write_atomically
from mage.opponents.check_moves import check_moves
from mage.opponents.remote import check_access_to
from mage.protocols import World
from mage.spec import parse_spec, whole
from mage.worlds.openspiel.world import OpenSpielWorld
from mage.worlds.registry import load_world

_ENDING = ".json"
POPULATION = "population"
"""In `evaluation.splits`: the members of training in the config's own world; without members the seeds draw them."""
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
    sha256: str
    kind: SplitKind = SplitKind.SEEN
    episodes: int | None = None
    """Episodes per trial; None leaves it to the evaluation."""
    is_test: bool = False
    """Kept for published figures: training does not evaluate on it, so that no setting is chosen by it."""
    weights: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """How often each member is met: evaluations play it so many times more often; unset where all count the same."""

    @property
    def weighted_members(self) -> tuple[tuple[str, int], ...]:
        """The members with their weights, which are 1 where none are given."""
        weights = (1,) * len(self.members) if self.weights is msgspec.UNSET else self.weights
        return tuple(zip(self.members, weights, strict=True))

    @property
    def has_its_hash(self) -> bool:
        """Whether the hash is that of what it holds."""
        return fingerprint(self.world, self.members, self.episodes, self.weights) == self.sha256


def fingerprint(
    game: str,
    members: tuple[str, ...],
    episodes: int | None = None,
    weights: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET,
) -> str:
    """The hash of a split's world, members, episodes and weights.

    >>> fingerprint("rps", ("uniform",)) == fingerprint("rps", ("uniform",))
    True
    """
    parts: list[object] = [game, members] if episodes is None else [game, members, episodes]
    parts += [] if weights is msgspec.UNSET else [{"weights": weights}]
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
    kind: SplitKind | None = None,
    episodes: int | None = None,
    is_test: bool = False,
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
        sha256=fingerprint(world, canonical, episodes),
        kind=kind or (SplitKind.FAMILIES if held_out else SplitKind.SEEN),
        episodes=episodes,
        is_test=is_test,
    )


def weighted_split(split: Split, weights: Sequence[int]) -> Split:
    """The split with a weight for each member, a whole number from 1, and the hash of both."""
    given = tuple(whole("a weight", weight, 1) for weight in weights)
    if len(given) != len(split.members):
        raise ConfigError(f"the split {split.name!r} needs a weight for each of {len(split.members)} members")
    sha256 = fingerprint(split.world, split.members, split.episodes, given)
    return msgspec.structs.replace(split, weights=given, sha256=sha256)


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
        names = f"{did_you_mean(name, split_names())}known: {listing(split_names())}"
        raise ConfigError(f"unknown split {name!r}; {names}; or a path{_ENDING}")
    return _decode((resources.files("mage") / "splits" / f"{name}{_ENDING}").read_bytes(), name)


def write_split(
    path: str | Path,
    world: str,
    members: Sequence[str],
    *,
    description: str = "",
    held_out: bool = False,
    kind: str = "",
    episodes: int | None = None,
    is_test: bool = False,
) -> Split:
    """Write opponents, or levels of a world of one seat, to evaluate on to `path`, a `.json` file for recipes.

    With `held_out` training on them is refused; with `is_test` evaluating on them during training too. `kind` says what
    it asks of an agent (seen, unseen parameters, unseen families, harder, reworded or switching), `episodes` how many
    a trial on it has. Opponents of one's own are asked for a few moves, so that their errors are found now. A file that
    holds another split already is left alone.
    """
    path = as_path("path", path)
    check_kind("world", world, str, WORLD)
    _check_name(path)
    split = make_split(
        path.stem,
        description,
        world,
        as_texts("members", members),
        held_out=held_out or is_test,
        kind=_kind(kind) if kind else None,
        episodes=None if episodes is None else whole("episodes", episodes, 1),
        is_test=is_test,
    )
    _check_playable(split)
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
    """By file name, the contents of the split files among `names`."""
    found: dict[str, bytes] = {}
    for path in filter(is_path, names):
        content = Path(path).read_bytes()
        if found.setdefault(Path(path).name, content) != content:
            raise ConfigError(f"there are two splits called {Path(path).stem!r}; give one of them another name")
    return found


def check_split(split: Split, seats: Sequence[int]) -> None:
    """Raise `ConfigError` on a split that cannot be played from the given seats."""
    world = load_world(split.world)
    num_seats = world.info.num_seats
    if len(set(split.members)) < len(split.members) or not (split.members or num_seats == 1):
        raise ConfigError(f"the split {split.name!r} needs at least one member, and each of them once")
    if split.held_out and not split.members:
        raise ConfigError(f"the split {split.name!r} has no members, so that it can hold out none")
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


def _check_playable(split: Split) -> None:
    """Raise on a split that cannot be played from every seat, and what users' opponents in it would raise in play."""
    world = load_world(split.world)
    seats = range(world.info.num_seats)
    check_split(split, seats)
    if isinstance(world, OpenSpielWorld) and len(seats) > 1:
        for member, seat in product(split.members, seats):
            check_moves(member, world.game, seat)


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
    return split


def _check_name(path: Path) -> None:
    if path.suffix != _ENDING or not _NAME.fullmatch(path.stem) or path.stem in (*split_names(), POPULATION):
        raise ConfigError(
            f"{str(path)!r} cannot be the file of a split; it ends in {_ENDING}, and its name has letters, digits, '-' "
            "and '_' and is not that of a shipped split"
        )


def _decode(content: bytes, name: str) -> Split:
    try:
        split = msgspec.json.decode(content, type=Split)
    except BAD_JSON as error:
        raise RecordError(f"the split {name!r} cannot be read: {error}") from None
    if not split.has_its_hash:
        raise RecordError(f"the split {name!r} was changed: its members do not have the hash {split.sha256[:12]}…")
    return split
