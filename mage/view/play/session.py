"""A play session: one trial played in the browser, its state so far, and the part of it that may be shown.

It is played in the session manager's thread; requests read it and act on it from other threads. While a person plays,
only what their seat knows is shown; everything is shown if no person plays, and when the trial is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from enum import StrEnum
from threading import Condition
from time import monotonic
from typing import Any, TypeVar

import msgspec

from mage.errors import ConfigError, PlayError
from mage.rollout.trial import PlayerLeftError
from mage.types import Observation, Phase, Reply, Result, Task, Turn
from mage.view.play.seats import SeatChoice
from mage.view.read.opponent_text import describe_opponent
from mage.view.read.trial_json import turn_json

T = TypeVar("T")

MAX_NOTE = 4000
"""Most characters of a person's note, and of an action that is written."""
_RESPONSE_S = 2.0
"""How long a request that acts waits for the reply of the others."""


class SessionState(StrEnum):
    """What a session is doing or waiting for."""

    LOADING = "loading"
    THINKING = "thinking"
    MOVE = "move"
    NOTE = "note"
    OVER = "over"
    FAILED = "failed"


_ENDED = (SessionState.OVER, SessionState.FAILED)


class PlaySession:
    """One trial with a person, or with models and opponents only."""

    def __init__(self, identity: str, task: Task, seats: tuple[SeatChoice, ...], rules: str, pace_s: float) -> None:
        self.id = identity
        self.task = task
        self.seats = seats
        """By seat."""
        self.pace_s = pace_s
        """Pause before each move if no person plays."""
        self.person_seat = next((seat for seat, choice in enumerate(seats) if choice.is_person), None)
        self.touched = monotonic()
        self._rules = rules
        self._changed = Condition()
        self._version = 0
        self._phase = SessionState.LOADING
        self._episode = 0
        self._turns: list[Turn] = []
        self._notes: list[Turn] = []
        self._results: list[Result] = []
        self._pending: Observation | None = None
        self._answer: asyncio.Future[str] | None = None
        self._is_leaving = False
        self._leaving: asyncio.Future[None] | None = None
        """Done as soon as the person leaves, while work goes on that is not the person's."""
        self._saved: Mapping[str, Any] | None = None
        self._error: str | None = None

    @property
    def is_ended(self) -> bool:
        return self._phase in _ENDED

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._version

    def state(self) -> dict[str, Any]:
        """The state that may be shown now."""
        with self._changed:
            self.touched = monotonic()
            return self._state()

    def move(self, action: object) -> dict[str, Any]:
        """Play a legal action for the person; any text where none are listed."""
        with self._changed:
            asked = self._pending
            if self._phase is not SessionState.MOVE or asked is None:
                raise PlayError("it is not your move now")
            if not asked.actions:
                return self._submit(_written(action))
            if not isinstance(action, str) or action not in asked.actions:
                raise ConfigError(f"{str(action)[:80]!r} is not one of the moves: {', '.join(asked.actions)}")
            return self._submit(action)

    def note(self, text: object) -> dict[str, Any]:
        """Write the person's note between two episodes; empty for none."""
        if not isinstance(text, str) or len(text) > MAX_NOTE:
            raise ConfigError(f"a note is a text of {MAX_NOTE} characters at most")
        with self._changed:
            if self._phase is not SessionState.NOTE:
                raise PlayError("a note is written between two episodes")
            return self._submit(text.strip().encode("utf-8", "replace").decode())

    def leave(self, timeout_s: float = _RESPONSE_S) -> dict[str, Any]:
        """Leave the trial; finished episodes are kept."""
        with self._changed:
            self._is_leaving = True
            if self._answer is not None:
                self._submit("", 0.0)
            elif self._leaving is not None:
                self._leaving.get_loop().call_soon_threadsafe(_finish, self._leaving)
            self._changed.wait_for(lambda: self.is_ended, timeout_s)
            return self._state()

    def _submit(self, text: str, timeout_s: float = _RESPONSE_S) -> dict[str, Any]:
        """Hand the person's answer to the trial and wait briefly for the next state."""
        answer = self._answer
        assert answer is not None
        self._answer, self._pending = None, None
        self._change(SessionState.THINKING)
        answer.get_loop().call_soon_threadsafe(answer.set_result, text)
        self._changed.wait_for(lambda: self._phase is not SessionState.THINKING, timeout_s)
        return self._state()

    def _change(self, stage: SessionState) -> None:
        self._phase = stage
        self._version += 1
        self.touched = monotonic()
        self._changed.notify_all()

    # The methods below are called in the session manager's thread.

    async def ask(self, observation: Observation, stage: SessionState) -> str:
        """Wait for the person's answer; raises if they leave."""
        self.raise_if_left()
        answer = asyncio.get_running_loop().create_future()
        with self._changed:
            self._pending, self._answer = observation, answer
            self._change(stage)
        said = await answer
        self.raise_if_left()
        return str(said)

    async def unless_left(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for `work`, but raise `PlayerLeftError` at once if the person leaves; `work` is then cancelled."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.get_running_loop().create_future()
        with self._changed:
            self._leaving = leaving
            if self._is_leaving:
                leaving.set_result(None)
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._leaving = None
            if not working.done():
                working.cancel()
        if not working.done():
            self.raise_if_left()
        return await working

    def raise_if_left(self) -> None:
        """Raise `PlayerLeftError` if the person has left."""
        if self._is_leaving:
            raise PlayerLeftError("the person left the table")

    def on_begin(self) -> None:
        """All players are made."""
        with self._changed:
            self._change(SessionState.THINKING)

    def on_episode_begin(self, episode: int) -> None:
        """An episode begins."""
        with self._changed:
            self._episode = episode
            self._change(self._phase)

    def on_move(self, observation: Observation, reply: Reply) -> None:
        """A seat has moved."""
        with self._changed:
            self._turns.append(Turn(Phase.PLAY, observation, reply.action, reply.text, reply.calls, 0.0))
            self._change(SessionState.THINKING)

    def on_note(self, turn: Turn) -> None:
        """A seat has written a note."""
        with self._changed:
            self._notes.append(turn)
            self._change(SessionState.THINKING)

    def on_episode_end(self, result: Result) -> None:
        """An episode is over."""
        with self._changed:
            self._results.append(result)
            self._change(self._phase)

    def on_end(self, saved: Mapping[str, Any] | None, error: str | None) -> None:
        """The trial is over and saved, or failed."""
        with self._changed:
            self._saved, self._error = saved, error
            self._pending, self._answer = None, None
            self._change(SessionState.OVER if error is None else SessionState.FAILED)

    def notes_of(self, seat: int) -> tuple[Turn, ...]:
        """The notes of a seat."""
        return tuple(turn for turn in self._notes if turn.observation.seat == seat)

    def _state(self) -> dict[str, Any]:
        seat = self.person_seat
        is_open = seat is None or self.is_ended
        turns = [turn for turn in self._turns if is_open or turn.observation.seat == seat]
        names = [choice.name for choice in self.seats]
        asked = self._pending if self._phase is SessionState.MOVE else None
        return {
            "session": self.id,
            "version": self._version,
            "world": self.task.world,
            "level": self.task.level if is_open else "",
            "rules": self._rules,
            "names": names,
            "about": [describe_opponent(name, self.task.world) if is_open else "" for name in names],
            "seat": seat,
            "episodes": self.task.episodes,
            "episode": self._episode,
            "phase": self._phase,
            "observation": None if asked is None else _seen(asked),
            "outcome": None if seat is None or not self._results else self._results[-1].outcomes[seat],
            "turns": [_shown(turn) for turn in turns],
            "results": [self._result(k, result, is_open) for k, result in enumerate(self._results)],
            "wrote": [self._note(turn) for turn in self._notes] if is_open else [],
            "saved": self._saved,
            "error": self._error,
        }

    def _result(self, k: int, result: Result, is_open: bool) -> dict[str, Any]:
        told = result.outcomes[self.task.seat if self.person_seat is None else self.person_seat]
        shown = {"episode": k, "returns": list(result.returns), "ending": result.ending, "outcome": told}
        if result.successes:
            shown["successes"] = list(result.successes)
        return shown | {"facts": dict(result.facts) if is_open else None}

    def _note(self, turn: Turn) -> dict[str, Any]:
        seat = turn.observation.seat
        return {
            "seat": seat,
            "name": self.seats[seat].name,
            "episode": turn.observation.episode,
            "text": turn.action or "",
        }


def _finish(waited: asyncio.Future[None]) -> None:
    if not waited.done():
        waited.set_result(None)


def _written(action: object) -> str:
    """An action that a person has written; not empty."""
    if not isinstance(action, str) or not action.strip() or len(action) > MAX_NOTE:
        raise ConfigError(f"an action is a text of 1 to {MAX_NOTE} characters here")
    return action.strip().encode("utf-8", "replace").decode()


def _seen(observation: Observation) -> dict[str, Any]:
    return {
        "text": observation.text,
        "facts": dict(observation.facts),
        "actions": list(observation.actions),
        "ids": list(observation.ids),
        "turn": observation.turn,
    }


def _shown(turn: Turn) -> dict[str, Any]:
    """A turn without its tokens: they are in the saved trial."""
    shown = turn_json(msgspec.structs.replace(turn, calls=()), [None] * (turn.observation.seat + 1))
    del shown["calls"], shown["credit"], shown["reward"]
    return shown
