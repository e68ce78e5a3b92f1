"""The choices for a seat of a play session: a person, an opponent or a model; models are loaded on first use."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from threading import Lock
from typing import Any

import msgspec

from mage.engines.scripted import COUNT_ROUNDS
from mage.engines.scripted import MODELS as SCRIPTED
from mage.errors import ConfigError, RecordError, pick
from mage.evaluation.eval_agent import EvalAgent, load_eval_agent
from mage.opponents.policy import PolicyAgent, PolicyPlayer
from mage.opponents.registry import (
    ANY,
    MODEL_OPPONENTS,
    OPPONENTS,
    REPEATED,
    Supports,
    check_opponent,
    describe_opponents,
)
from mage.protocols import Agent, AgentFactory, World
from mage.runs.run_plugins import check_plugins_of
from mage.runs.store import RUN, read_info
from mage.spec import Spec, parse_spec, show_parameters
from mage.types import Task
from mage.view.read.folder import Folder, Location, NotFoundError
from mage.view.read.status import CHECKPOINTS, checkpoint_name, checkpoint_steps
from mage.worlds.openspiel.game import WORDED, Game, known_games, load_game

PERSON = "person"
_CHECKPOINT = "checkpoint:"
_SCRIPTED = "scripted:"
_NUM_MODELS = 2
"""Models that stay in memory."""


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


def parse_seat_choice(text: object, game: Game, seat: int, folder: Folder) -> SeatChoice:
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
        if not supports.check(game):
            raise ConfigError(f"{chosen} cannot play {game.spec}; it plays {supports.games}")
        return SeatChoice(chosen, chosen)
    spec = parse_spec(chosen)
    if any(name in MODEL_OPPONENTS for name in _names(spec)):
        raise ConfigError("a remote model cannot be played here: that would use this server's API key; use mage play")
    check_opponent(str(spec), game, seat)
    return SeatChoice(str(spec), str(spec))


def playable(text: object) -> Game:
    """A game that may be played here; OpenSpiel's other games get no parameters, since these may read files."""
    if not isinstance(text, str):
        raise ConfigError("name a game, such as rps or tic_tac_toe")
    spec = parse_spec(text)
    if spec.name not in WORDED and (spec.args or spec.kwargs):
        raise ConfigError(f"{spec.name} takes no parameters here; mage play {text} does")
    return load_game(str(spec))


class Models:
    """Loads models on first use and keeps the last few. Loading takes seconds, so call it outside the event loop."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, EvalAgent] = OrderedDict()
        self._lock = Lock()

    def make_agent(self, choice: SeatChoice, world: World) -> AgentFactory:
        """The agent factory of a choice other than a person."""
        if choice.is_model:
            return self._loaded(choice.spec).make_agent(world)

        def make(task: Task, sibling: int) -> Agent:
            player = world.opponent(choice.spec, task, task.seat)
            assert isinstance(player, PolicyPlayer)
            return PolicyAgent(player, choice.name)

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
    """All choices: games, opponents, and the checkpoints below the directory."""
    games = [game for game in map(_game_entry, WORDED) if game is not None]
    loaded = {game["spec"]: load_game(game["spec"]) for game in games}
    listed = [entry for entry in describe_opponents() if entry.name not in MODEL_OPPONENTS]
    opponents = [
        {
            "spec": entry.name,
            "parameters": entry.parameters,
            "about": entry.about,
            "games": entry.games,
            "fits": [spec for spec, game in loaded.items() if OPPONENTS[entry.name].fits.check(game)],
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
            "fits": [spec for spec, game in loaded.items() if _scripted_supports(name).check(game)],
        }
        for name, answer in sorted(SCRIPTED.items())
    ]
    return {
        "games": games,
        "other_games": [name for name in known_games() if name not in WORDED],
        "opponents": opponents + scripted,
        "checkpoints": list(_checkpoints(folder)),
        "can_play_models": find_spec("torch") is not None and find_spec("transformers") is not None,
    }


def _scripted_supports(name: str) -> Supports:
    """The games that a scripted model can play."""
    pick("scripted model", SCRIPTED, name)
    return REPEATED if name in COUNT_ROUNDS else ANY


def _game_entry(name: str) -> dict[str, Any] | None:
    """The entry of a game with default parameters; None if it needs some or cannot be loaded."""
    if WORDED.trouble(name) is not None:
        return None
    try:
        game = load_game(name)
    except ConfigError:
        return None
    about = (WORDED[name].__doc__ or "").partition("\n")[0]
    return {"spec": name, "parameters": show_parameters(WORDED[name], 0), "about": about, "seats": game.num_seats}


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
