"""Splits: named, shipped, hashed sets of opponents. What is held out is refused in training.

A split is a JSON file in `mage/splits` with its game, its members and the SHA-256 of both. Reports carry the
hash, so that two figures on "the same" split can be told apart when they are not.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

import msgspec

from mage.errors import ConfigError, RecordError, listing
from mage.spec import Spec, parse_spec


class Split(msgspec.Struct, frozen=True):
    """A set of opponents to judge by."""

    name: str
    description: str
    game: str
    members: tuple[str, ...]
    held_out: bool
    """Training against a member is refused."""
    pool: str
    """The split whose members a player may expect: exact references are against it. Its own name, as a rule."""
    sha256: str


def fingerprint(game: str, members: tuple[str, ...]) -> str:
    """The hash of what a split is made of.

    >>> fingerprint("rps", ("uniform",)) == fingerprint("rps", ("uniform",))
    True
    """
    return hashlib.sha256(msgspec.json.encode([game, members])).hexdigest()


def make_split(
    name: str, description: str, game: str, members: tuple[str, ...], *, held_out: bool, pool: str = ""
) -> Split:
    """A split with canonical member specs and its hash."""
    canonical = tuple(str(parse_spec(m)) for m in members)
    game = str(parse_spec(game))
    return Split(name, description, game, canonical, held_out, pool or name, fingerprint(game, canonical))


def split_names() -> list[str]:
    """Names of the shipped splits."""
    folder = resources.files("mage") / "splits"
    return sorted(f.name.removesuffix(".json") for f in folder.iterdir() if f.name.endswith(".json"))


@cache
def load_split(name: str) -> Split:
    """A shipped split, checked against its hash."""
    if name not in split_names():
        raise ConfigError(f"unknown split {name!r}; known: {listing(split_names())}")
    text = (resources.files("mage") / "splits" / f"{name}.json").read_bytes()
    try:
        split = msgspec.json.decode(text, type=Split)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"the split {name!r} cannot be read: {error}") from None
    if fingerprint(split.game, split.members) != split.sha256:
        raise RecordError(f"the split {name!r} was changed: its members do not have the hash {split.sha256[:12]}…")
    return split


def refuse_held_out(game: str, members: tuple[str, ...]) -> None:
    """Fail when a member to train against in `game`, whatever its parameters, is held out by a shipped split."""
    training = {str(spec) for member in members for spec in _everyone(parse_spec(member))}
    for name in split_names():
        split = load_split(name)
        if not split.held_out or parse_spec(split.game).name != parse_spec(game).name:
            continue
        caught = sorted(training & set(split.members))
        if caught:
            raise ConfigError(f"population.members: {caught[0]!r} is held out by the split {name!r}; train without it")


def _everyone(spec: Spec) -> list[Spec]:
    """A member, and who is met on the way: a switch is each of its members for whole episodes."""
    inner = spec.args if spec.name == "switch" else ()
    return [spec, *(other for member in inner if isinstance(member, Spec) for other in _everyone(member))]
