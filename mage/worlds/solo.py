"""Worlds of one seat, written as pure functions of what is hidden and of an immutable position.

Such a world can be played, and where its hidden things can be listed it can be planned exactly, without further code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cached_property
from math import fsum
from typing import Generic, NamedTuple, TypeVar, cast

from mage.errors import ConfigError, InexactError, PlayError
from mage.protocols import Branches, Player
from mage.seeds import derive, pick_index, uniform
from mage.spec import call_with, parse_spec
from mage.types import Ending, Fact, Observation, Result, Task, WorldInfo
from mage.worlds.asked import AskedWorld

H = TypeVar("H", bound=Hashable)
P = TypeVar("P", bound=Hashable)

_ROUNDING = 1e-9
"""How far from 1 the sum of probabilities may be."""


class SoloWorld(ABC, Generic[H, P]):
    """A world of one seat: subclasses say what is hidden, what can be done, what is told and what it scores.

    What is hidden is drawn once for a trial; every episode begins at `start` again. A level is the text of what is
    hidden. All methods must be pure: equal arguments, equal results.
    """

    lowest: float = 0.0
    highest: float = 1.0
    trial: str = "You play {episodes} episodes of the same task: what is hidden stays the same."
    reflect_request: str = "Write a short note to yourself: what did you find out, and what will you do next?"
    has_open_actions: bool = False
    """Whether any text is an action; then `actions` is not used, and `is_over` must be written."""
    turns: int = 0
    """The number of actions in every episode, where it is always the same; 0: it varies."""
    lists_actions: bool = True
    """Whether prompts list the legal actions."""
    tells_all: bool = False
    """Whether `tell` says all that was told and done in the episode so far, so that decisions are known by it alone."""

    def explain(self) -> str:
        """The rules, as told to the agent: by default the docstring of the class."""
        return " ".join((type(self).__doc__ or "").split())

    @abstractmethod
    def hidden(self) -> Mapping[H, float]:
        """What may be hidden in a trial, with weights.

        A world with too many to list returns none here and writes `draw` and `check_level`; it is not planned exactly.
        """

    def start(self, hidden: H) -> P:
        """The position in which every episode begins. By default positions are tuples of the actions so far."""
        return cast(P, ())

    @abstractmethod
    def actions(self, hidden: H, position: P) -> Sequence[str]:
        """The legal actions; none where the episode is over."""

    def after(self, hidden: H, position: P, action: str) -> P:
        """The position after an action."""
        return cast(P, (*cast(tuple[str, ...], position), action))

    @abstractmethod
    def tell(self, hidden: H, position: P) -> str:
        """What the agent is told, when it must act and when the episode is over."""

    @abstractmethod
    def score(self, hidden: H, position: P) -> float:
        """The score so far."""

    def chance(self, hidden: H, position: P) -> Mapping[P, float]:
        """What follows by chance, with probabilities; empty where nothing is random."""
        return {}

    def is_over(self, hidden: H, position: P) -> bool:
        """Whether the episode is over."""
        return not self._asked.actions(hidden, position)

    def is_success(self, hidden: H, position: P) -> bool:
        """Whether a finished episode was a success: by default, with the highest score."""
        return self._asked.score(hidden, position) >= self.highest

    def facts(self, hidden: H, position: P) -> Mapping[str, Fact]:
        """Structured facts for viewers and scripted players; nothing that the agent may not know."""
        return {}

    def draw(self, task: Task) -> H:
        """What is hidden in a trial: the task's level, or drawn by its seed."""
        table = self._table
        if task.level:
            return table[self._index(task.level)][0]
        return table[pick_index([weight for _, weight in table], uniform(task.seed, "hidden"))][0]

    def unshuffled(self, hidden: H) -> H:
        """The same as `hidden()` lists it, where `draw` adds names that differ from trial to trial and mean nothing.

        Keys of decisions and the exact model are in these words; positions must not depend on them.
        """
        return hidden

    def reveal(self, hidden: H) -> str:
        """What is hidden in the words of the trial, for viewers of its result; by default the level."""
        return str(hidden)

    @property
    def players(self) -> Mapping[str, Callable[..., Player]]:
        """Scripted players of the seat by name, `maker(task, …parameters)`."""
        return {}

    @property
    def has_chance(self) -> bool:
        """Whether trials that differ in their seeds alone can differ."""
        return True

    @cached_property
    def info(self) -> WorldInfo:
        return WorldInfo(
            num_seats=1,
            lowest=self.lowest,
            highest=self.highest,
            has_open_actions=self.has_open_actions,
            has_chance=self.has_chance,
            trial=self.trial,
            reflect=self.reflect_request,
            turns=self.turns,
            lists_actions=self.lists_actions,
        )

    def rules(self, task: Task) -> str:
        return self._asked.rules()

    def new_env(self, task: Task, episode: int) -> SoloEnv[H, P]:
        return SoloEnv(self, task, episode)

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        parsed = parse_spec(spec)
        if parsed.name not in self.players:
            raise ConfigError(f"{task.world} has one seat and no opponent {spec!r}")
        player: Player = call_with("player", parsed, self.players[parsed.name], task)
        return player

    def check_opponent(self, spec: str, seat: int) -> None:
        if parse_spec(spec).name not in self.players:
            raise ConfigError(f"a world of one seat has no opponent {spec!r}")
        self.opponent(spec, Task("", (), 0, 0, 1, False, False, 1), seat)

    def check_level(self, level: str) -> None:
        self._index(level)

    def exact_model(self, members: Sequence[tuple[str, float]], seat: int) -> SoloModel[H, P]:
        if self.has_open_actions:
            raise InexactError("any text is an action, so that there is no end of plays to compare")
        if not self._asked.hidden():
            raise InexactError("hidden() lists nothing, so that not all trials can be compared")
        table = self._table
        if not members:
            return SoloModel(self, table)
        return SoloModel(self, [(table[self._index(level)][0], weight) for level, weight in members])

    def guaranteed_score(self, seat: int) -> float:
        raise InexactError("a world of one seat has no opponents to guard against")

    @cached_property
    def _asked(self) -> AskedWorld[H, P]:
        return AskedWorld(self)

    @cached_property
    def _table(self) -> list[tuple[H, float]]:
        found = list(self._asked.hidden().items())
        if not found or any(not weight > 0 for _, weight in found):
            raise ConfigError("hidden() must return at least one thing, each with a weight above 0")
        total = fsum(weight for _, weight in found)
        return [(hidden, weight / total) for hidden, weight in found]

    def _index(self, level: str) -> int:
        levels = [str(hidden) for hidden, _ in self._table]
        if level not in levels:
            shown = ", ".join(levels[:12]) + (", …" if len(levels) > 12 else "")
            raise ConfigError(f"unknown level {level!r}; known: {shown}")
        return levels.index(level)


class SoloEnv(Generic[H, P]):
    """One episode of a world of one seat."""

    def __init__(self, world: SoloWorld[H, P], task: Task, episode: int) -> None:
        self._world, self._asked = world, world._asked
        self._name = task.world
        self._episode = episode
        self._max_turns = task.max_turns
        self._hidden = self._asked.draw(task)
        self._listed = self._asked.unshuffled(self._hidden)
        self._deal = derive(task.seed, "deal", 0 if task.replay_deal else episode)
        self._num_draws = 0
        self._turn = 0
        self._is_forfeited = False
        self._key = ""
        self._position = self._settle(self._asked.start(self._hidden))
        self._score = 0.0

    def to_move(self) -> int | None:
        is_over = self._is_forfeited or self._turn >= self._max_turns or self._is_finished
        return None if is_over else 0

    def observe(self, seat: int) -> Observation:
        told = self._asked.tell(self._hidden, self._position)
        listed = () if self.to_move() is None or self._world.has_open_actions else self._actions()
        facts = self._asked.facts(self._hidden, self._position)
        key = decision_key(self._key, self._told_as_listed())
        return Observation(0, self._episode, self._turn, told, listed, tuple(range(len(listed))), key, facts)

    def step(self, action: str | None) -> tuple[float, ...]:
        if self.to_move() is None:
            raise PlayError(f"{self._name}: the episode is over, {action!r} cannot be played")
        if action is None:
            self._is_forfeited = True
            return (0.0,)
        world = self._world
        if not world.has_open_actions and action not in self._actions():
            raise PlayError(f"{self._name}: {action!r} is not legal; legal are {', '.join(self._actions())}")
        if not world.tells_all:
            self._key = decision_key(self._key, self._told_as_listed(), self._as_listed(action))
        self._position = self._settle(self._asked.after(self._hidden, self._position, action))
        self._turn += 1
        before, self._score = self._score, self._asked.score(self._hidden, self._position)
        return (self._score - before,)

    def result(self) -> Result:
        if self.to_move() is not None:
            raise PlayError(f"{self._name}: the episode is not over")
        level, revealed = str(self._hidden), self._asked.reveal(self._hidden)
        facts = {**self._asked.facts(self._hidden, self._position), "hidden": level}
        if revealed != level:
            facts["revealed"] = revealed
        if self._is_forfeited:
            told = ("You gave up the episode.",)
            return Result((float(self._world.lowest),), told, Ending.FORFEITED, 0, facts, (False,))
        self._asked.check_range(self._score, Ending.FINISHED if self._is_finished else Ending.TRUNCATED)
        if not self._is_finished:
            told = ("The episode was stopped because it was too long.",)
            return Result((self._score,), told, Ending.TRUNCATED, None, facts, (False,))
        success = self._asked.is_success(self._hidden, self._position)
        told = (self._asked.tell(self._hidden, self._position),)
        keys = () if self._listed == self._hidden else (self._told_as_listed(),)
        return Result((self._score,), told, Ending.FINISHED, None, facts, (success,), keys)

    @property
    def _is_finished(self) -> bool:
        return self._asked.is_over(self._hidden, self._position)

    def _actions(self) -> tuple[str, ...]:
        return self._asked.actions(self._hidden, self._position)

    def _told_as_listed(self) -> str:
        return self._asked.tell(self._listed, self._position)

    def _as_listed(self, action: str) -> str:
        """An action in the words of the exact model."""
        if self._world.has_open_actions or self._listed == self._hidden:
            return action
        return self._asked.actions(self._listed, self._position)[self._actions().index(action)]

    def _settle(self, position: P) -> P:
        """Sample chance until the seat must act or the episode is over."""
        while outcomes := self._asked.chance(self._hidden, position):
            point = uniform(self._deal, self._num_draws)
            self._num_draws += 1
            position = list(outcomes)[pick_index(list(outcomes.values()), point)]
        return position


def decision_key(before: str, told: str, action: str | None = None) -> str:
    """The key of a decision: all that was told and done in the episode so far."""
    return f"{before}{told}\n" if action is None else f"{before}{told}\n> {action}\n"


class SoloPosition(NamedTuple, Generic[H, P]):
    """A position with what is hidden and the key of what was told before."""

    hidden: H
    position: P
    key: str


class SoloModel(Generic[H, P]):
    """The `ExactModel` of a world of one seat; its hidden things, with weights, are the types."""

    def __init__(self, world: SoloWorld[H, P], types: Sequence[tuple[H, float]]) -> None:
        self._world, self._asked = world, world._asked
        self._types = types
        self._listed: dict[str, tuple[str, ...]] = {}
        """The actions of each decision by its key."""
        total = fsum(weight for _, weight in types)
        self.prior = {number: weight / total for number, (_, weight) in enumerate(types)}

    @property
    def merges(self) -> bool:
        return self._world.tells_all

    def start(self, episode: int) -> Branches[SoloPosition[H, P]]:
        return [
            (SoloPosition(hidden, self._asked.start(hidden), ""), {number: 1.0})
            for number, (hidden, _) in enumerate(self._types)
        ]

    def forward(self, position: SoloPosition[H, P], types: Collection[int]) -> Branches[SoloPosition[H, P]]:
        drawn = self._asked.chance(position.hidden, position.position)
        if drawn and abs(fsum(drawn.values()) - 1.0) > _ROUNDING:
            raise PlayError(f"chance() at {position.position!r} has probabilities that do not sum to 1")
        return [
            (position._replace(position=after), dict.fromkeys(types, chance))
            for after, chance in drawn.items()
            if chance > 0
        ]

    def seen(self, position: SoloPosition[H, P]) -> tuple[bool, str]:
        told = self._asked.tell(position.hidden, position.position)
        if self._asked.is_over(position.hidden, position.position):
            return True, told
        key = decision_key(position.key, told)
        listed = self._asked.actions(position.hidden, position.position)
        if (others := self._listed.setdefault(key, listed)) != listed:
            raise PlayError(
                f"after being told {told!r} the actions are {', '.join(others)} or {', '.join(listed)}, by what is "
                "hidden; a seat learns from its list of actions, so where lists differ something else must be told"
            )
        return False, key

    def actions(self, position: SoloPosition[H, P]) -> tuple[int, ...]:
        return tuple(range(len(self._asked.actions(position.hidden, position.position))))

    def after(self, position: SoloPosition[H, P], action: int) -> SoloPosition[H, P]:
        hidden, at, key = position
        word = self._asked.actions(hidden, at)[action]
        if not self._world.tells_all:
            key = decision_key(key, self._asked.tell(hidden, at), word)
        return SoloPosition(hidden, self._asked.after(hidden, at, word), key)

    def score(self, position: SoloPosition[H, P]) -> float:
        return self._asked.final_score(position.hidden, position.position)
