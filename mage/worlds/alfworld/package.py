"""Episodes played by the `alfworld` package itself, for comparison: it takes 50 to 100 milliseconds a turn."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mage.errors import ConfigError, PlayError
from mage.types import Ending, Fact, Observation, Result, Task
from mage.worlds.alfworld.game_files import FileGames
from mage.worlds.alfworld.world import AlfWorld
from mage.worlds.solo import decision_key
from mage.worlds.wrapped import WrappedWorld

_WELCOME = "-= Welcome to TextWorld, ALFRED! =-\n\n"
_PACKAGES = ("alfworld", "textworld", "fast_downward")


class PackageWorld(WrappedWorld):
    """A world whose episodes the package plays; rules, words and levels are those of our engine on the same files."""

    def __init__(self, world: AlfWorld, games: FileGames, turns: int) -> None:
        super().__init__(world)
        self._own = world
        self._games = games
        self._turns = turns
        missing = [name for name in _PACKAGES if find_spec(name) is None]
        if missing:
            raise ConfigError(
                f"engine = package needs {', '.join(missing)}: pip install alfworld; docs/environments.md has the "
                "commands for other machines than x86_64"
            )

    def drawn_level(self, task: Task) -> str:
        """The level of a task, as text."""
        return self._own.drawn_level(task)

    def new_env(self, task: Task, episode: int) -> PackageEnv:
        level = self._own.drawn_level(task)
        return PackageEnv(
            self._games.files[level], level, task, episode, self._turns, is_open=self.info.has_open_actions
        )


class PackageEnv:
    """One episode."""

    def __init__(self, path: Path, level: str, task: Task, episode: int, turns: int, *, is_open: bool) -> None:
        self._level = level
        self._episode = episode
        self._is_open = is_open
        self._turns = turns
        self._max_turns = task.max_turns
        self._env = _load(path)
        with _arguments_kept():
            self._state = self._env.reset()
        self._told = str(self._state.feedback).removeprefix(_WELCOME)
        self._key = ""
        self._turn = 0
        self._is_done = False
        self._is_forfeited = False

    def to_move(self) -> int | None:
        is_over = self._is_done or self._is_forfeited or self._turn >= min(self._turns, self._max_turns)
        return None if is_over else 0

    def observe(self, seat: int) -> Observation:
        is_over = self.to_move() is None
        listed = () if is_over or self._is_open else tuple(self._state.admissible_commands)
        key = decision_key(self._key, self._told)
        facts = {"turns_left": self._turns - self._turn}
        return Observation(0, self._episode, self._turn, self._told, listed, tuple(range(len(listed))), key, facts)

    def step(self, action: str | None) -> tuple[float, ...]:
        if self.to_move() is None:
            raise PlayError(f"{self._level}: the episode is over, {action!r} cannot be played")
        if action is None:
            self._is_forfeited = True
            return (0.0,)
        if not self._is_open and action not in self._state.admissible_commands:
            raise PlayError(f"{self._level}: {action!r} is not legal")
        self._key = decision_key(self._key, self._told, action)
        with _arguments_kept():
            self._state, score, self._is_done = self._env.step(action)
        self._told = str(self._state.feedback).strip()
        self._turn += 1
        return (float(score),)

    def result(self) -> Result:
        if self.to_move() is not None:
            raise PlayError(f"{self._level}: the episode is not over")
        facts: dict[str, Fact] = {"turns_left": self._turns - self._turn, "hidden": self._level}
        if self._is_forfeited:
            return Result((0.0,), ("You gave up the episode.",), Ending.FORFEITED, 0, facts, (False,))
        is_cut = not self._is_done and self._turn < self._turns
        ending = Ending.TRUNCATED if is_cut else Ending.FINISHED
        return Result((float(self._is_done),), (self._told,), ending, None, facts, (self._is_done,))


def _load(path: Path) -> Any:
    """The package's environment of a game file, with names as its own agents see them."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs import PddlEnv

    env = AlfredDemangler(PddlEnv(textworld.EnvInfos(admissible_commands=True, won=True)), shuffle=False)
    with _arguments_kept():
        env.load(str(path))
    return env


@contextmanager
def _arguments_kept() -> Iterator[None]:
    """The translator of the planner replaces the arguments of the process."""
    kept = sys.argv
    try:
        yield
    finally:
        sys.argv = kept
