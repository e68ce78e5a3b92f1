"""`alfworld(…)`: a household task, the same game in all episodes of a trial; what is hidden is what lies where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from mage.errors import ConfigError, listing
from mage.protocols import Player
from mage.seeds import derive
from mage.spec import Spec, show, whole
from mage.types import Fact, Task
from mage.worlds.alfworld.game import NONE, NOTHING, Game, Position
from mage.worlds.alfworld.game_files import FileGames
from mage.worlds.alfworld.generate import (
    NUM_ROOMS,
    NUM_SEEN,
    TRAINED_GOALS,
    GeneratedGames,
    Size,
)
from mage.worlds.alfworld.house_words import HouseWords
from mage.worlds.alfworld.kinds import Goal
from mage.worlds.alfworld.players import Oracle, Searcher
from mage.worlds.alfworld.rules import after, start_of
from mage.worlds.solo import SoloWorld

_ROOM_NUMBERS = {
    "seen": range(1, NUM_SEEN + 1),
    "unseen": range(NUM_SEEN + 1, NUM_ROOMS + 1),
    "all": range(1, NUM_ROOMS + 1),
}
_GOAL_SETS = {"trained": TRAINED_GOALS, "new": (Goal.COOL, Goal.TWO), "all": tuple(Goal)}
_MOST_DRAWS = 1000
"""Most games that are drawn until one can be done in the turns there are."""


class Settings(msgspec.Struct, frozen=True):
    """The parameters of the world."""

    size: Any = Size.FULL.value
    """`full`: rooms of 12 to 20 receptacles; `small`: of 6 to 8, with few objects."""
    turns: int = 50
    """Turns of an episode."""
    goals: Any = "trained"
    """Which are drawn: `trained` (pick, look, clean, heat), `new` (cool, two), `all`, one of the six, or a list."""
    rooms: Any = "seen"
    """The rooms that are drawn: `seen` (24 of each kind), `unseen` (6 others), or `all`."""
    admissible: bool = True
    """Whether only possible commands are taken; else any text is a command, and an impossible one does nothing."""
    list_actions: bool = True
    """Whether prompts list the possible commands."""
    games: Any = ""
    """A folder with ALFWorld's own games to draw from; size, goals and rooms are then those of the files."""
    engine: Any = "own"
    """What plays the games of a folder: `own`, or `package`, which is the package `alfworld`."""
    reworded: int | None = None
    """The seed of neutral words."""

    def check(self) -> None:
        """Raise a ConfigError for values that cannot be played."""
        _one_of("size", self.size, list(Size))
        whole("turns", self.turns, 4, 1000)
        _one_of("rooms", self.rooms, list(_ROOM_NUMBERS))
        if not isinstance(self.games, str | Spec):
            raise ConfigError(f"games must be a folder, not {show(self.games)}")
        if _one_of("engine", self.engine, ["own", "package"]) == "package" and not self.games:
            raise ConfigError("engine = package plays ALFWorld's own games; name their folder with games")
        if self.reworded is not None and (self.games or self.engine == "package"):
            raise ConfigError("reworded: games from files tell their task in their own words")
        for name in ("admissible", "list_actions"):
            if type(getattr(self, name)) is not bool:
                raise ConfigError(f"{name} must be true or false, not {show(getattr(self, name))}")

    @property
    def source(self) -> GeneratedGames | FileGames:
        """Where the games come from."""
        if self.games:
            return FileGames(Path(str(self.games)))
        return GeneratedGames(Size(str(self.size)), self._drawn_goals, _ROOM_NUMBERS[str(self.rooms)])

    @property
    def _drawn_goals(self) -> tuple[Goal, ...]:
        given = self.goals if isinstance(self.goals, tuple) else (self.goals,)
        names = [_one_of("goals", name, [*_GOAL_SETS, *Goal]) for name in given]
        found = [goal for name in names for goal in _GOAL_SETS.get(name) or (Goal(name),)]
        if not found:
            raise ConfigError("goals must have at least one goal, not []")
        return tuple(dict.fromkeys(found))


class AlfWorld(SoloWorld[Game, Position]):
    """The world of our own engine."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._words = HouseWords(self._settings.reworded)
        self.has_open_actions = not self._settings.admissible
        self.lists_actions = self._settings.list_actions
        self.trial, self.reflect_request = self._words.trial, self._words.reflect_request
        self._games = self._settings.source
        self._game_of_level = lru_cache(maxsize=4096)(self._games.make)
        self._level_of_seed = lru_cache(maxsize=4096)(self._draw_level)
        self._named = lru_cache(maxsize=1024)(self._words.commands)
        self._told = lru_cache(maxsize=1024)(self._tell)
        self._level_of_seed(0)  # refuses settings that no game fits

    def explain(self) -> str:
        return self._words.rules(self._settings.turns, self.has_open_actions)

    def hidden(self) -> Mapping[Game, float]:
        return {}

    def draw(self, task: Task) -> Game:
        return self._game_of_level(task.level or self._level_of_seed(task.seed))

    def drawn_level(self, task: Task) -> str:
        """The level of a task, as text."""
        return task.level or self._level_of_seed(task.seed)

    def check_level(self, level: str) -> None:
        self._game_of_level(level)

    @property
    def players(self) -> Mapping[str, Callable[..., Player]]:
        return {"expert": self._expert, "learns-from-failure": self._learns_from_failure, "oracle": self._oracle}

    def _expert(self, task: Task, remember: bool = False) -> Player:
        """Looks first where things usually are; with `remember=true` also knows what it saw in earlier episodes."""
        if type(remember) is not bool:
            raise ConfigError(f"remember must be true or false, not {show(remember)}")
        name = "expert(remember=true)" if remember else "expert"
        return Searcher(name, self._words, task.seed, remembers=remember)

    def _learns_from_failure(self, task: Task) -> Player:
        """Looks anywhere, and knows where it saw things in earlier episodes."""
        return Searcher("learns-from-failure", self._words, task.seed, knows_homes=False)

    def _oracle(self, task: Task) -> Player:
        """Knows what is hidden, and goes straight there."""
        return Oracle(self.draw(task), self._words)

    def start(self, hidden: Game) -> Position:
        return start_of(hidden)

    def actions(self, hidden: Game, position: Position) -> Sequence[str]:
        return () if self.is_over(hidden, position) else tuple(self._named(hidden, position))

    def after(self, hidden: Game, position: Position, action: str) -> Position:
        return after(hidden, position, self._named(hidden, position).get(action.strip(), NOTHING))

    def is_over(self, hidden: Game, position: Position) -> bool:
        return position.turn >= self._settings.turns or position.is_done

    def is_success(self, hidden: Game, position: Position) -> bool:
        return position.is_done

    def score(self, hidden: Game, position: Position) -> float:
        return float(position.is_done)

    def tell(self, hidden: Game, position: Position) -> str:
        return self._told(hidden, position)

    def _tell(self, hidden: Game, position: Position) -> str:
        told = self._words.told(hidden, position)
        if position.is_done:
            return f"{told}\nThe task is done: +1."
        return (
            told if position.turn < self._settings.turns else f"{told}\nNo turns are left, and the task is not done: 0."
        )

    def facts(self, hidden: Game, position: Position) -> Mapping[str, Fact]:
        things, places = self._words.names(hidden)
        here = hidden.at_location.get(position.location, ())
        return {
            "task": self._words.goal(hidden),
            "goal": self._words.wanted(hidden),
            "places": self._shown(hidden, position),
            "at": ", ".join(places[place] for place in here),
            "holding": "" if position.held == NONE else things[position.held],
            "states": self._states(hidden, position),
            "turns_left": self._settings.turns - position.turn,
        }

    def _shown(self, game: Game, position: Position) -> tuple[tuple[str, str, str | None], ...]:
        """Receptacles as the agent knows them: name, open or closed, and contents; None where they are not known."""
        things, places = self._words.names(game)
        inside: list[list[str]] = [[] for _ in (*places, NONE)]
        for name, place in zip(things, position.where, strict=True):
            inside[place].append(name)
        seen, opened = position.seen, position.opened & position.seen
        return tuple(
            (
                name,
                ("open" if opened >> n & 1 else "closed") if game.places[n].is_openable else "",
                ", ".join(inside[n]) if seen >> n & 1 else None,
            )
            for n, name in enumerate(places)
        )

    def _states(self, game: Game, position: Position) -> tuple[tuple[str, str], ...]:
        """Objects that the agent made clean, hot, cool or sliced, and lamps that it turned on."""
        marks = (
            ("clean", position.clean),
            ("hot", position.hot),
            ("cool", position.cool),
            ("sliced", position.sliced),
            ("on", position.used),
        )
        return tuple(
            (self._words.thing(game, thing), state)
            for state, mask in marks
            if mask
            for thing in range(len(game.things))
            if mask >> thing & 1
        )

    def _plan_length(self, game: Game) -> int:
        """How many turns a game takes one who knows what lies where."""
        player, position = Oracle(game, self._words), start_of(game)
        while not position.is_done and position.turn <= self._settings.turns:
            position = self.after(game, position, player.choose(self.facts(game, position), 0, position.turn))
        return position.turn

    def _draw_level(self, seed: int) -> str:
        """A level that can be done in the turns there are, knowing what lies where; of files any."""
        if isinstance(self._games, FileGames):
            return self._games.draw(seed)
        for number in range(_MOST_DRAWS):
            level = self._games.draw(derive(seed, "alfworld level", number))
            if self._plan_length(self._game_of_level(level)) <= self._settings.turns:
                return level
        goals = listing(list(self._games.goals))
        raise ConfigError(
            f"none of {_MOST_DRAWS} games ({goals}) can be done in {self._settings.turns} turns; give more"
        )


def _one_of(name: str, value: Any, allowed: Sequence[str]) -> str:
    """A parameter that must be one of some words."""
    text = str(value) if isinstance(value, str | Spec) else ""
    if text not in allowed:
        raise ConfigError(f"{name} must be one of {listing(list(allowed))}, not {show(value)}")
    return text
