"""Games in ALFWorld's own format: folders with a `game.tw-pddl`, read into games of this engine.

Rules and wording are those of version 0.4.2, whatever the domain and grammar in a file say; only its problem and its
task sentence are read.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mage.errors import ConfigError
from mage.seeds import stream
from mage.worlds.alfworld.game import NONE, Game, Layout, Place, Start, Thing, Wish
from mage.worlds.alfworld.kinds import Can, Goal

FILE = "game.tw-pddl"
_TOKEN = re.compile(r"[()]|[^\s()]+")
_TOLD = re.compile(r'Your task is to: (.+?)"')
_ABILITIES = {
    "pickupable": Can.TAKE,
    "cleanable": Can.CLEAN,
    "heatable": Can.HEAT,
    "coolable": Can.COOL,
    "toggleable": Can.USE,
    "sliceable": Can.SLICE,
    "isreceptacleobject": Can.HOLD,
}
_KNIVES = ("knife", "butterknife")
_TREATED = {"isclean": Goal.CLEAN, "ishot": Goal.HEAT, "iscool": Goal.COOL}
_PLAIN = {"inreceptacle", "objecttype", "receptacletype", "cleanable", "heatable", "coolable", "="}
"""What the goals to place something are made of, beside what treats it."""

Facts = Mapping[str, Sequence[Sequence[str]]]
"""By predicate the arguments of its facts."""


class FileGames:
    """The games below a folder. A level is the path of a game's folder, with colons."""

    def __init__(self, folder: Path) -> None:
        found = sorted(folder.rglob(FILE)) if folder.is_dir() else []
        self.files = {":".join(path.parent.relative_to(folder).parts): path for path in found}
        self._levels = list(self.files)
        if not found:
            raise ConfigError(
                f"games = {str(folder)!r} has no {FILE}; point at ALFWorld's json_2.1.1 or a folder below it, such as "
                "train; alfworld-generate makes the files where they are missing"
            )

    def draw(self, seed: int) -> str:
        """A random level."""
        return stream(seed, "alfworld file").choice(self._levels)

    def make(self, level: str) -> Game:
        """The game of a level."""
        if level not in self.files:
            raise ConfigError(f"unknown level {level!r}; known are {len(self.files)}, such as {self._levels[0]}")
        return read_game(self.files[level], level)


def read_game(path: Path, level: str) -> Game:
    """The game of a file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        problem, told = str(data["pddl_problem"]), _TOLD.search(str(data["grammar"]))
        return _build(level, _sections(problem), told[1] if told else "")
    except OSError as error:
        raise ConfigError(f"the game {str(path)!r} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise ConfigError(f"the game {str(path)!r} is none of ALFWorld's: {type(error).__name__} {error}") from None


def _build(level: str, problem: Mapping[str, Any], told: str) -> Game:
    types = _typed(problem[":objects"])
    facts: defaultdict[str, list[Sequence[str]]] = defaultdict(list)
    for name, *arguments in problem[":init"]:
        facts[name].append(arguments)
    numbers = _numbers({str(argument) for each in facts.values() for fact in each for argument in fact})
    receptacles, objects = (
        sorted(name for name, kind in types.items() if kind == wanted and name in numbers)
        for wanted in ("receptacle", "object")
    )
    locations = {name: n for n, name in enumerate(sorted(name for name, kind in types.items() if kind == "location"))}
    place_of, thing_of = ({name: n for n, name in enumerate(names)} for names in (receptacles, objects))
    at = {receptacle: locations[location] for receptacle, location in facts["receptacleatlocation"]}
    openable = {name for (name,) in facts["openable"]}
    kinds = {name: _kind(kind) for name, kind in facts["receptacletype"]}
    places = tuple(Place(kinds[name], numbers[name], name in openable, at[name]) for name in receptacles)
    takes: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for receptacle, kind in facts["cancontain"]:
        takes[_kind(receptacle)] |= {_kind(kind)}
    where = {thing: place_of[receptacle] for thing, receptacle in facts["inreceptacle"]}
    start = Start(
        tuple(where.get(name, NONE) for name in objects),
        locations[facts["atlocation"][0][1]],
        sum(1 << place_of[name] for (name,) in facts["opened"]),
        frozenset((thing_of[thing], locations[location]) for thing, location in facts["objectatlocation"]),
        _states(facts, thing_of),
    )
    things = _things(facts, objects, thing_of, numbers)
    return Game(level, Layout(places, things, takes), start, _wish(problem[":goal"], told), is_original=True)


def _things(
    facts: Facts, objects: Sequence[str], thing_of: Mapping[str, int], numbers: Mapping[str, int]
) -> tuple[Thing, ...]:
    kinds = {name: _kind(kind) for name, kind in facts["objecttype"]}
    found = []
    for name in objects:
        can = Can.CUT if kinds[name] in _KNIVES else Can(0)
        for predicate, ability in _ABILITIES.items():
            if [name] in facts[predicate]:
                can |= ability
        inside = sorted(thing_of[inner] for inner, outer in facts["inreceptacleobject"] if outer == name)
        found.append(Thing(kinds[name], numbers[name], can, tuple(inside)))
    return tuple(found)


def _states(facts: Facts, thing_of: Mapping[str, int]) -> tuple[int, int, int, int, int]:
    """The masks of the objects that are clean, hot, cool, turned on and sliced at the beginning."""
    clean, hot, cool, used, sliced = (
        sum(1 << thing_of[name] for (name,) in facts[predicate])
        for predicate in ("isclean", "ishot", "iscool", "istoggled", "issliced")
    )
    return clean, hot, cool, used, sliced


def _wish(goal: Any, told: str) -> Wish:
    """One of the six goals, known by what it is made of."""
    atoms = [atom for atom in _atoms(goal) if atom[0] not in ("exists", "and", "not")]
    names = {atom[0] for atom in atoms}
    types = {atom[1]: _kind(atom[2]) for atom in atoms if atom[0] in ("objecttype", "receptacletype")}
    by_name = {atom[0]: atom[1:] for atom in atoms}
    if "istoggled" in names:
        return Wish(Goal.LOOK, types[by_name["holds"][1]], types[by_name["istoggled"][0]], told=told)
    treated = sorted(names & _TREATED.keys())
    if names - _PLAIN - _TREATED.keys() or len(treated) > 1:
        raise ValueError(f"its goal is none of the six: {' '.join(sorted(names))}")
    thing, place = by_name["inreceptacle"]
    num_things = len({atom[1] for atom in atoms if atom[0] == "objecttype"})
    kind = _TREATED[treated[0]] if treated else Goal.TWO if num_things == 2 else Goal.PICK
    return Wish(kind, types[thing], types[place], told=told)


def _atoms(expression: Any) -> Iterator[list[str]]:
    """The lists without lists in them, without those that declare variables."""
    if all(isinstance(part, str) for part in expression):
        if expression and not expression[0].startswith("?"):
            yield expression
        return
    for part in expression:
        if not isinstance(part, str):
            yield from _atoms(part)


def _kind(name: str) -> str:
    """The kind of a type such as `sinkbasintype`."""
    return name.removesuffix("type")


def _numbers(names: set[str]) -> dict[str, int]:
    """By id the number in its name, as ALFWorld counts: of a kind, the first in alphabetical order has the highest."""
    kinds = {name: _prefix(name) for name in sorted(names) if "_bar_" in name}
    left = Counter(kinds.values())
    found = {}
    for name, kind in kinds.items():
        found[name] = left[kind]
        left[kind] -= 1
    return found


def _prefix(name: str) -> str:
    return name.partition("_bar_")[0] + ("basin" if "basin" in name else "")


def _typed(words: Sequence[str]) -> dict[str, str]:
    """By name its type, from a list such as `a b - agent c - location`."""
    found: dict[str, str] = {}
    waiting: list[str] = []
    pairs = iter(words)
    for word in pairs:
        if word == "-":
            found |= dict.fromkeys(waiting, next(pairs))
            waiting = []
        else:
            waiting.append(word)
    return found


def _sections(text: str) -> dict[str, Any]:
    """The parts of a problem by name; a goal is one expression."""
    lines = (line.partition(";")[0] for line in text.lower().splitlines())
    (problem,) = _parse(iter(_TOKEN.findall("\n".join(lines))))
    found = {part[0]: part[1:] for part in problem if isinstance(part, list)}
    init = [fact for fact in found[":init"] if fact[0] != "="]
    return {":objects": found[":objects"], ":init": init, ":goal": found[":goal"][0]}


def _parse(tokens: Iterator[str]) -> list[Any]:
    """The expressions up to the next closing bracket."""
    found: list[Any] = []
    for token in tokens:
        if token == ")":
            return found
        found.append(_parse(tokens) if token == "(" else token)
    return found
