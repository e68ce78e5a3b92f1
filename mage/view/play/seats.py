"""The choices of a play session: its world, and a person, an opponent or a model for each seat.

Models are loaded on first use.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from mage.engines.scripted import COUNT_ROUNDS
from mage.engines.scripted import MODELS as SCRIPTED
from mage.errors import ConfigError, RecordError, pick
from mage.evaluation.eval_agent import EvalAgent, load_eval_agent
from mage.opponents.agent_seat import UNIFORM, check_seat_agent, seat_agent
from mage.opponents.registry import (
    ANY,
    COMBINERS,
    MAKERS,
    MODEL_OPPONENTS,
    OPPONENTS,
    REPEATED,
    Supports,
    check_opponent_spec,
    describe_opponents,
)
from mage.protocols import Agent, AgentFactory, HasPlayers, World
from mage.runs.run_plugins import check_plugins_of
from mage.runs.store import RUN, read_info
from mage.spec import Spec, parse_spec
from mage.types import Task
from mage.view.read.folder import Folder, Location, NotFoundError
from mage.view.read.safe_world import is_plain, is_safe
from mage.view.read.status import CHECKPOINTS, checkpoint_name, checkpoint_steps
from mage.worlds.openspiel.game import WORDED, known_games
from mage.worlds.openspiel.world import OpenSpielWorld
from mage.worlds.registry import WORLDS, WorldEntry, load_world, world_entries

PERSON = "person"
_CHECKPOINT = "checkpoint:"
_SCRIPTED = "scripted:"
_NUM_MODELS = 2
"""Models that stay in memory."""
_SOLVERS = frozenset({"best-response", "cfr", "minimax"})
"""Opponents that take long to make."""
_SCRIPTS = frozenset({*MAKERS, *COMBINERS}) - _SOLVERS - {"mcts"}
"""Opponents that are quick to make and to play, unless others are within them."""
_MAX_LEVEL = 200
"""Most characters of a level."""


class PlayableWorld(NamedTuple):
    """A world that may be played in the browser."""

    spec: str
    world: World

    @property
    def num_seats(self) -> int:
        return self.world.info.num_seats


class SeatChoice(msgspec.Struct, frozen=True):
    """The choice for one seat."""

    name: str
    """The name in trials and pages."""
    spec: str
    """`person`, an opponent spec, `scripted:NAME` or `checkpoint:RUN/STEP`."""
    run: str = ""
    """The path of a checkpoint's run below the directory shown."""
    step: int | None = None

    @property
    def is_person(self) -> bool:
        return self.spec == PERSON

    @property
    def is_model(self) -> bool:
        return self.spec.startswith((_CHECKPOINT, _SCRIPTED))

    @property
    def may_take_long(self) -> bool:
        """Whether its moves may take long: search, solvers, a world's own players and opponents of plugins."""
        if self.is_person or self.is_model:
            return False
        spec = parse_spec(self.spec)
        return spec.name not in _SCRIPTS or any(name in OPPONENTS and name not in _SCRIPTS for name in _names(spec))


def parse_seat_choice(text: object, played: PlayableWorld, seat: int, folder: Folder) -> SeatChoice:
    """Parse and check the choice for a seat."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigError("name who plays: person, an opponent, or one of the checkpoints listed")
    chosen = text.strip()
    if chosen == PERSON:
        return SeatChoice(PERSON, PERSON)
    if chosen.startswith(_CHECKPOINT):
        place, step = _checkpoint(chosen, folder)
        return SeatChoice(f"{place.path.name}/{checkpoint_name(step)}", chosen, place.name, step)
    if chosen.startswith(_SCRIPTED):
        supports = _scripted_supports(chosen.removeprefix(_SCRIPTED))
        if not _can_play(supports, played.world):
            raise ConfigError(f"{chosen} cannot play {played.spec}; it plays {supports.games}")
        return SeatChoice(chosen, chosen)
    spec = parse_spec(chosen)
    if any(name in MODEL_OPPONENTS for name in _names(spec)):
        raise ConfigError("a remote model cannot be played here: that would use this server's API key; use mage play")
    if not (isinstance(played.world, OpenSpielWorld) or is_plain(spec)):
        raise ConfigError(f"{spec.name} takes only numbers and short words here; mage play takes {chosen}")
    if isinstance(played.world, OpenSpielWorld) and not _SOLVERS.isdisjoint(_names(spec)):
        check_opponent_spec(str(spec), played.world.game)
    else:
        check_seat_agent(played.world, str(spec), seat)
    return SeatChoice(str(spec), str(spec))


def playable(text: object) -> PlayableWorld:
    """A world that may be played here.

    OpenSpiel's games without words of their own get no parameters and registered worlds only plain ones, since others
    may read files.
    """
    if not isinstance(text, str):
        raise ConfigError("name a world, such as rps or tic_tac_toe")
    spec = parse_spec(text)
    if not is_safe(spec):
        takes = "only numbers and short words as" if spec.name in WORLDS else "no"
        raise ConfigError(f"{spec.name} takes {takes} parameters here; mage play {text} takes more")
    return PlayableWorld(str(spec), load_world(str(spec)))


def parse_level(text: object, played: PlayableWorld) -> str:
    """Parse and check a level; empty for one that the seed draws."""
    if text is None or text == "":
        return ""
    if not isinstance(text, str) or len(text) > _MAX_LEVEL or re.search(r"[/\\]|\.\.", text):
        raise ConfigError(f"a level is a text of {_MAX_LEVEL} characters at most and no path, not {str(text)[:40]!r}")
    played.world.check_level(text)
    return text


class Models:
    """Loads models on first use and keeps the last few. Loading takes seconds: call it outside the event loop."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, EvalAgent] = OrderedDict()
        self._lock = Lock()

    def make_agent(self, choice: SeatChoice, world: World) -> AgentFactory:
        """The agent factory of a choice other than a person."""
        if choice.is_model:
            return self._loaded(choice.spec).make_agent(world)

        def make(task: Task, sibling: int) -> Agent:
            return seat_agent(world, choice.spec, task)

        return make

    def _loaded(self, spec: str) -> EvalAgent:
        with self._lock:
            eval_agent = self._kept.pop(spec, None)
            if eval_agent is None:
                eval_agent = self._load(spec)
            self._kept[spec] = eval_agent
            while len(self._kept) > _NUM_MODELS:
                self._kept.popitem(last=False)
            return eval_agent

    def _load(self, spec: str) -> EvalAgent:
        if spec.startswith(_SCRIPTED):
            return load_eval_agent(spec)
        place, step = _checkpoint(spec, self._folder)
        place.file(CHECKPOINTS, checkpoint_name(step), "state.json")
        check_plugins_of(place.path)
        path = place.path / CHECKPOINTS / checkpoint_name(step)
        return load_eval_agent(str(path), {"device": "auto"})


def choices(folder: Folder) -> Mapping[str, Any]:
    """All choices: registered worlds, games, opponents, and the checkpoints below the directory."""
    games = [game for game in map(_world_entry, world_entries(WORDED)) if game is not None]
    worlds = [world for world in map(_world_entry, world_entries()) if world is not None]
    loaded = {entry["spec"]: load_world(entry["spec"]) for entry in (*games, *worlds)}
    listed = [entry for entry in describe_opponents() if entry.name not in MODEL_OPPONENTS]
    opponents = [
        {
            "spec": entry.name,
            "parameters": entry.parameters,
            "about": entry.about,
            "games": entry.games,
            "fits": [spec for spec, world in loaded.items() if _fits(entry.name, world)],
        }
        for entry in listed
        if OPPONENTS.trouble(entry.name) is None
    ]
    scripted = [
        {
            "spec": f"{_SCRIPTED}{name}",
            "parameters": "",
            "about": (answer.__doc__ or "").partition("\n")[0],
            "games": _scripted_supports(name).games,
            "fits": [spec for spec, world in loaded.items() if _can_play(_scripted_supports(name), world)],
        }
        for name, answer in sorted(SCRIPTED.items())
    ]
    return {
        "worlds": worlds,
        "games": games,
        "other_games": [name for name in known_games() if name not in WORDED],
        "opponents": opponents + scripted + _own_players(loaded),
        "checkpoints": list(_checkpoints(folder)),
        "can_play_models": find_spec("torch") is not None and find_spec("transformers") is not None,
    }


def _own_players(loaded: Mapping[str, World]) -> list[dict[str, Any]]:
    """Players that worlds of one seat have for it."""
    return [
        {
            "spec": name,
            "parameters": "",
            "about": (make.__doc__ or "").partition("\n")[0],
            "games": spec,
            "fits": [spec],
        }
        for spec, world in loaded.items()
        if isinstance(world, HasPlayers)
        for name, make in world.players.items()
    ]


def _scripted_supports(name: str) -> Supports:
    """The games that a scripted model can play."""
    pick("scripted model", SCRIPTED, name)
    return REPEATED if name in COUNT_ROUNDS else ANY


def _can_play(supports: Supports, world: World) -> bool:
    """Whether a scripted model can play a world; in one that is not OpenSpiel's it chooses among listed actions."""
    if isinstance(world, OpenSpielWorld):
        return supports.check(world.game)
    return supports is ANY and not world.info.has_open_actions


def _fits(name: str, world: World) -> bool:
    """Whether an opponent plays a world with default parameters."""
    if isinstance(world, OpenSpielWorld):
        return OPPONENTS[name].fits.check(world.game)
    return name == UNIFORM and not world.info.has_open_actions


def _world_entry(entry: WorldEntry) -> dict[str, Any] | None:
    """A world as the browser lists it; None if it needs parameters or cannot be loaded."""
    try:
        seats = load_world(entry.spec).info.num_seats
    except ConfigError:
        return None
    return {**entry._asdict(), "seats": seats}


def _checkpoints(folder: Folder) -> Iterator[dict[str, Any]]:
    for place in folder.places():
        steps = checkpoint_steps(place)
        if not steps:
            continue
        try:
            place.check(RUN)
            config = read_info(place.path).config
        except RecordError:
            continue  # the list of runs says what is wrong with it
        agent = config.get("agent")
        how = agent if isinstance(agent, dict) else {}
        for step in reversed(steps):
            yield {
                "spec": f"{_CHECKPOINT}{place.id}/{step}",
                "run": place.id,
                "name": place.name,
                "step": step,
                "world": str(config.get("world", "")),
                "memory": str(how.get("memory", "")),
                "model": str(how.get("model", "")),
            }


def _checkpoint(spec: str, folder: Folder) -> tuple[Location, int]:
    """The run and the step of a checkpoint spec."""
    identity, _, text = spec.removeprefix(_CHECKPOINT).partition("/")
    place = folder.find(identity)
    steps = checkpoint_steps(place)
    step = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
    if step not in steps:
        has = ", ".join(map(str, steps)) or "none"
        raise NotFoundError(f"{place.name} has no checkpoint {text[:20]!r}; it has {has}")
    return place, step


def _names(spec: Spec) -> Iterator[str]:
    """The names in a spec, at any depth."""
    yield spec.name
    for value in (*spec.args, *(value for _, value in spec.kwargs)):
        yield from _names_in_value(value)


def _names_in_value(value: Any) -> Iterator[str]:
    if isinstance(value, Spec):
        yield from _names(value)
    elif isinstance(value, tuple):
        for each in value:
            yield from _names_in_value(each)
    elif isinstance(value, str):
        yield re.split(r"[(:]", value.strip(), maxsplit=1)[0]  # a quoted text may be parsed as a spec later
