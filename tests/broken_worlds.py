"""Worlds that break one rule of their contract each, registered by name; importing this registers them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from mage.errors import ConfigError, PlayError
from mage.opponents.registry import check_opponent
from mage.protocols import Branches, Env, Player
from mage.types import Ending, Observation, Result, Task, WorldInfo
from mage.worlds.openspiel.game import OpenSpielEnv, load_game
from mage.worlds.registry import WORLDS
from mage.worlds.solo import SoloModel, SoloPosition
from tests.solo_worlds import Guesses, HiddenNumber, Shop

KUHN = load_game("kuhn_poker")
STRANGE = object()


class BrokenEnv:
    """An environment of Kuhn poker that breaks one rule."""

    def __init__(self, env: Env, fault: str) -> None:
        self._env = env
        self._fault = fault
        self._looked = 0

    def to_move(self) -> int | None:
        seat = self._env.to_move()
        return 2 if seat == 1 and self._fault == "third seat" else seat

    def observe(self, seat: int) -> Observation:
        seen = self._env.observe(seat)
        self._looked += 1
        changes: dict[str, Any] = {
            "restless": {"text": f"{seen.text} {self._looked}"},
            "blank": {"text": " "},
            "wrong seat": {"seat": seat + 1},
            "one word": {"actions": ("go",) * len(seen.ids)},
            "one id": {"ids": (0,) * len(seen.ids)},
            "untidy": {"actions": tuple(f"{a} " for a in seen.actions)},
            "unaligned": {"ids": seen.ids[1:]},
            "everybody acts": {"actions": ("go",), "ids": (0,)},
            "one key": {"key": "", "actions": seen.actions[:: 1 if "jack" in seen.text else -1]},
            "listed facts": {"facts": {"cards": [1, 2]}},
            "strange facts": {"facts": {"cards": STRANGE}},
        }
        return msgspec.structs.replace(seen, **changes.get(self._fault, {}))

    def step(self, action: str | None) -> tuple[float, ...]:
        over = self._env.to_move() is None
        if self._fault == "obliging" and action is not None and not over:
            seen = self._env.observe(self._env.to_move() or 0)
            action = action if action in seen.actions else seen.actions[0]
        if self._fault == "endless" and over:
            return (0.0, 0.0)
        if self._fault == "stubborn" and action == "bet":
            raise PlayError("no bets")
        gains = self._env.step(action)
        if self._fault == "one gain":
            return gains[:1]
        return tuple(g + 1 for g in gains) if self._fault == "generous" else gains

    def result(self) -> Result:
        if self._fault == "hasty" and self._env.to_move() is not None:
            return Result((0.0, 0.0), ("", ""), Ending.FINISHED, None, {})
        result = self._env.result()
        if self._fault == "mild" and result.ending is Ending.FORFEITED:
            return msgspec.structs.replace(result, returns=(0.0, 0.0))
        if self._fault == "proud" and result.ending is Ending.FORFEITED:
            return msgspec.structs.replace(result, successes=(True, True))
        if self._fault == "tireless" and result.ending is Ending.TRUNCATED:
            return msgspec.structs.replace(result, ending=Ending.FINISHED)
        changes: dict[str, Any] = {
            "silent": {"outcomes": ("", "")},
            "one outcome": {"outcomes": result.outcomes[:1]},
            "one success": {"successes": (True,)},
        }
        return msgspec.structs.replace(result, **changes.get(self._fault, {}))


class BrokenKuhn:
    """Kuhn poker as a world that breaks one rule."""

    def __init__(self, fault: object = "") -> None:
        self._fault = str(fault)
        self._num_envs = 0
        self._shared: Env | None = None

    @property
    def info(self) -> WorldInfo:
        honest = WorldInfo(2, -2.0, 2.0, has_chance=True, constant_sum=0.0)
        changes: dict[str, Any] = {
            "no seats": {"num_seats": 0},
            "upside down": {"lowest": 2.0, "highest": -2.0},
            "unbounded": {"highest": float("inf")},
            "other sum": {"constant_sum": 1.0},
            "always two turns": {"turns": 2},
            "high lowest": {"lowest": -0.5},
            "low lowest": {"lowest": -3.0},
            "low highest": {"highest": 0.5},
            "nothing told": {"trial": " "},
            "nothing asked": {"reflect": ""},
            "denies chance": {"has_chance": False},
            "changing info": {"highest": 2.0 + self._num_envs},
        }
        return msgspec.structs.replace(honest, **changes.get(self._fault, {}))

    def rules(self, task: Task) -> str:
        self._num_envs += self._fault == "rules change"
        changing = f"Rules {self._num_envs}."
        return {"no rules": "", "no rules for seat 1": "Rules." if task.seat == 0 else ""}.get(self._fault, changing)

    def new_env(self, task: Task, episode: int) -> Env:
        self._num_envs += 1
        if self._fault == "crashing":
            return dict[str, Env]()["nothing"]
        changes: dict[str, Any] = {
            "same seed": {"seed": 1},
            "counting": {"seed": self._num_envs},
            "counting later": {"seed": task.seed + (self._num_envs if episode else 0)},
            "ignores replay": {"replay_deal": False},
        }
        own = msgspec.structs.replace(task, **changes.get(self._fault, {}))
        return BrokenEnv(OpenSpielEnv(KUHN, own, episode), self._fault)

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        raise AssertionError("no player is needed")

    def check_opponent(self, spec: str, seat: int) -> None:
        if self._fault != "any opponent":
            check_opponent(spec, KUHN, seat)

    def check_level(self, level: str) -> None:
        if self._fault != "any level":
            raise ConfigError("no levels")


FAULTS = {
    "no seats": "num_seats = 0: a world has at least one seat",
    "upside down": "info.lowest = 2.0 is not a number below info.highest = -2.0",
    "unbounded": "not a number below info.highest = inf",
    "other sum": "do not add up to 1",
    "always two turns": r"info.turns = 2, but the seats had \[2, 1\] turns",
    "high lowest": "scores -1, below lowest = -0.5; set lowest and highest",
    "low lowest": "a forfeit ends as",
    "low highest": "scores 1, above highest = 0.5",
    "nothing told": "info.trial is empty",
    "nothing asked": "info.reflect is empty",
    "denies chance": "info.has_chance is False, but another seed gives another episode",
    "changing info": "info is another one after some play",
    "no rules": "the rules of seat 0 are empty",
    "no rules for seat 1": "the rules of seat 1 are empty",
    "rules change": "the rules of seat 0 are others each time",
    "any opponent": "check_opponent accepts what does not exist",
    "any level": "check_level accepts what does not exist",
    "crashing": r"raises KeyError: 'nothing' \(at broken_worlds.py:\d+\)",
    "same seed": "chance is the same for every seed",
    "counting": "the same seed gives another episode",
    "counting later": "the same seed gives another 2nd episode",
    "ignores replay": "a replayed deal differs",
    "third seat": "seat 2 is to move, which does not exist",
    "restless": "observing twice gives two observations",
    "blank": "the observation has no text",
    "wrong seat": "seat or turn is wrong for seat 0",
    "one word": "two actions share a word",
    "one id": "two actions share an id",
    "untidy": "untidy spaces",
    "unaligned": "actions and ids are not aligned",
    "everybody acts": "seat 1 has actions",
    "one key": "one key stands for the actions",
    "listed facts": "an observation is another one when it is read back from JSON",
    "strange facts": "an observation cannot be written as JSON",
    "obliging": "an action that is not legal is played",
    "endless": "an action is played after the end",
    "stubborn": r"step\('bet'\) is refused although it is listed: no bets",
    "one gain": "step returns 1 gains for 2 seats",
    "generous": "gains along the way add up to",
    "hasty": r"result\(\) answers before the end",
    "mild": "a forfeit ends as",
    "proud": "a forfeit is a success",
    "tireless": "does not stop it",
    "silent": "a seat is told nothing at the end",
    "one outcome": "a seat has no result",
    "one success": "successes are not one for each seat",
}


class BrokenNumber(HiddenNumber):
    """A hidden number as a world that breaks one rule of worlds of one seat or of exact models."""

    def __init__(self, fault: object = "") -> None:
        super().__init__(coin=True)
        self.fault = str(fault)
        self.made: tuple[int, ...] = ()
        if self.fault == "speaks of opponents":
            self.trial = WorldInfo(1, 0.0, 1.0).trial

    def check_level(self, level: str) -> None:
        if self.fault != "any level":
            super().check_level(level)

    def draw(self, task: Task) -> int:
        if self.fault == "level by seed" and task.level:
            return 1 + task.seed % self.size
        return 4 if self.fault == "level is ignored" and task.level else super().draw(task)

    def after(self, hidden: int, position: Guesses, action: str) -> Guesses:
        if self.fault != "remembers":
            return super().after(hidden, position, action)
        self.made = (*self.made, int(action)) if position.made else (int(action),)
        return Guesses(self.made)

    def exact_model(self, members: Sequence[tuple[str, float]], seat: int) -> SoloModel[int, Guesses]:
        honest = super().exact_model(members, seat)
        types = [(int(level), weight) for level, weight in members] or list(self.hidden().items())
        return BrokenModel(self, types) if self.fault.startswith("model") else honest


class BrokenModel(SoloModel[int, Guesses]):
    """An exact model that breaks one rule."""

    def __init__(self, world: BrokenNumber, types: Sequence[tuple[int, float]]) -> None:
        super().__init__(world, types)
        self._fault = world.fault
        if self._fault == "model prior":
            self.prior = dict.fromkeys(self.prior, 1.0)

    def start(self, episode: int) -> Branches[SoloPosition[int, Guesses]]:
        first = super().start(episode)
        return [(p, dict.fromkeys(by, 0.5)) for p, by in first] if self._fault == "model start" else first

    def forward(
        self, position: SoloPosition[int, Guesses], types: Collection[int]
    ) -> Branches[SoloPosition[int, Guesses]]:
        following = super().forward(position, types)
        return following[:1] if self._fault == "model forward" else following

    def seen(self, position: SoloPosition[int, Guesses]) -> tuple[bool, str]:
        over, told = super().seen(position)
        if self._fault == "model key" and not over:
            return over, told.replace("guess", "try")
        return (over, f"{told}!") if self._fault == "model outcome" and over else (over, told)

    def actions(self, position: SoloPosition[int, Guesses]) -> tuple[int, ...]:
        found = super().actions(position)
        return found[1:] if self._fault == "model actions" else found

    def score(self, position: SoloPosition[int, Guesses]) -> float:
        return super().score(position) + (self._fault == "model score")


SOLO_FAULTS = {
    "speaks of opponents": "info.trial speaks of opponents in a world of one seat",
    "any level": "check_level accepts what does not exist",
    "level by seed": "a level hides '[1-4]', and '[1-4]' with another seed",
    "level is ignored": "the level of this name hides '4'",
    "remembers": "two trials at the same time influence each other",
    "model prior": "the prior adds up to 4",
    "model start": "probabilities of the first positions add up to 0.5",
    "model forward": "probabilities of the positions that follow another add up to 0.25",
    "model key": "the exact model has no decision with this key of seat 0",
    "model outcome": "the exact model has no end at which seat 0 is told this",
    "model actions": r"the exact model has the actions \(1, 2, 3\), the observation \(0, 1, 2, 3\)",
    "model score": "the exact model scores",
}


class BrokenShop(Shop):
    """A world of open actions that breaks one rule."""

    def __init__(self, fault: object = "") -> None:
        self.fault = str(fault)

    def new_env(self, task: Task, episode: int) -> Any:
        env = super().new_env(task, episode)
        honest: Callable[[int], Observation] = env.observe
        if self.fault == "lists actions":
            listed = {"actions": ("search", "buy"), "ids": (0, 1)}
            env.observe = lambda seat: msgspec.structs.replace(honest(seat), **listed)  # type: ignore[method-assign]
        return env

    def after(self, hidden: str, position: tuple[str, ...], action: str) -> tuple[str, ...]:
        if self.fault == "particular" and not action.startswith("search["):
            raise PlayError("say search or buy")
        return super().after(hidden, position, action)


OPEN_FAULTS = {
    "lists actions": "actions are open, but seat 0 has the list",
    "particular": r"is refused although any text is an action: say search or buy",
}

BROKEN: Mapping[str, tuple[type, Mapping[str, str]]] = {
    "test-broken-kuhn": (BrokenKuhn, FAULTS),
    "test-broken-number": (BrokenNumber, SOLO_FAULTS),
    "test-broken-shop": (BrokenShop, OPEN_FAULTS),
}
for _name, (_kind, _) in BROKEN.items():
    WORLDS.add(_name, _kind)
