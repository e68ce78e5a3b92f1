"""A sitting: one trial at a table in the browser, what has been played of it so far, and what may be shown.

It is played in the room's thread; requests look at it, and act on it, from others. What is shown to a person who plays
is what the seat may know; everything is shown to whoever watches, and to everybody when it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from threading import Condition
from time import monotonic
from typing import Any

import msgspec

from mage.errors import ConfigError, PlayError
from mage.rollout.trial import PlayerLeftError
from mage.types import Observation, Phase, Reply, Result, Task, Turn
from mage.view.play.seats import SeatChoice
from mage.view.read.trial_json import drawn_turn

MAX_NOTE = 4000
"""Characters of a person's note."""
_REACTION_S = 2.0
"""How long a request that acts waits to see what comes of it."""


class SessionState(StrEnum):
    """What a sitting waits for."""

    LOADING = "loading"
    THINKING = "thinking"
    MOVE = "move"
    NOTE = "note"
    OVER = "over"
    FAILED = "failed"


_ENDED = (SessionState.OVER, SessionState.FAILED)


class PlaySession:
    """One trial at one table."""

    def __init__(self, identity: str, task: Task, sitters: tuple[SeatChoice, ...], rules: str, pace_s: float) -> None:
        self.id = identity
        self.task = task
        self.sitters = sitters
        """By seat."""
        self.pace_s = pace_s
        """How long each move is left to be looked at, where nobody plays but agents."""
        self.person_seat = next((seat for seat, sitter in enumerate(sitters) if sitter.is_person), None)
        self.touched = monotonic()
        self._rules = rules
        self._changed = Condition()
        self._version = 0
        self._stage = SessionState.LOADING
        self._episode = 0
        self._turns: list[Turn] = []
        self._notes: list[Turn] = []
        self._results: list[Result] = []
        self._asked: Observation | None = None
        self._answer: asyncio.Future[str] | None = None
        self._is_leaving = False
        self._saved: Mapping[str, Any] | None = None
        self._error: str | None = None

    @property
    def is_ended(self) -> bool:
        return self._stage in _ENDED

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._version

    def state(self) -> dict[str, Any]:
        """The sitting as it may be shown now."""
        with self._changed:
            self.touched = monotonic()
            return self._state()

    def move(self, action: object) -> dict[str, Any]:
        """Play one of the actions that the person was offered."""
        with self._changed:
            asked = self._asked
            if self._stage is not SessionState.MOVE or asked is None:
                raise PlayError("it is not your move now")
            if not isinstance(action, str) or action not in asked.actions:
                raise ConfigError(f"{str(action)[:80]!r} is not one of the moves: {', '.join(asked.actions)}")
            return self._answered(action)

    def note(self, text: object) -> dict[str, Any]:
        """Write a note to oneself between two episodes, or none."""
        if not isinstance(text, str) or len(text) > MAX_NOTE:
            raise ConfigError(f"a note is a text of {MAX_NOTE} characters at most")
        with self._changed:
            if self._stage is not SessionState.NOTE:
                raise PlayError("a note is written between two episodes")
            return self._answered(text.strip().encode("utf-8", "replace").decode())

    def leave(self, patience_s: float = _REACTION_S) -> dict[str, Any]:
        """Get up. What is finished is kept."""
        with self._changed:
            self._is_leaving = True
            if self._answer is not None:
                self._answered("", 0.0)
            self._changed.wait_for(lambda: self.is_ended, patience_s)
            return self._state()

    def _answered(self, text: str, patience_s: float = _REACTION_S) -> dict[str, Any]:
        """Hand an answer to the room and wait a little for what comes of it."""
        answer = self._answer
        assert answer is not None
        self._answer, self._asked = None, None
        self._change(SessionState.THINKING)
        answer.get_loop().call_soon_threadsafe(answer.set_result, text)
        self._changed.wait_for(lambda: self._stage is not SessionState.THINKING, patience_s)
        return self._state()

    def _change(self, stage: SessionState) -> None:
        self._stage = stage
        self._version += 1
        self.touched = monotonic()
        self._changed.notify_all()

    # What follows is called in the room.

    async def ask(self, observation: Observation, stage: SessionState) -> str:
        """Let the person answer; raises when they get up."""
        self.refuse_leavers()
        answer = asyncio.get_running_loop().create_future()
        with self._changed:
            self._asked, self._answer = observation, answer
            self._change(stage)
        said = await answer
        self.refuse_leavers()
        return str(said)

    def refuse_leavers(self) -> None:
        """End the trial where the person has got up."""
        if self._is_leaving:
            raise PlayerLeftError("the person left the table")

    def began(self) -> None:
        """Everybody sits."""
        with self._changed:
            self._change(SessionState.THINKING)

    def entered(self, episode: int) -> None:
        """An episode begins."""
        with self._changed:
            self._episode = episode
            self._change(self._stage)

    def took(self, observation: Observation, reply: Reply) -> None:
        """Somebody has moved."""
        with self._changed:
            self._turns.append(Turn(Phase.PLAY, observation, reply.action, reply.text, reply.calls, 0.0))
            self._change(SessionState.THINKING)

    def wrote(self, turn: Turn) -> None:
        """Somebody has written a note."""
        with self._changed:
            self._notes.append(turn)
            self._change(SessionState.THINKING)

    def finished(self, result: Result) -> None:
        """An episode is over."""
        with self._changed:
            self._results.append(result)
            self._change(self._stage)

    def ended(self, saved: Mapping[str, Any] | None, error: str | None) -> None:
        """The trial is over and written down, or could not be played."""
        with self._changed:
            self._saved, self._error = saved, error
            self._asked, self._answer = None, None
            self._change(SessionState.OVER if error is None else SessionState.FAILED)

    def notes_of(self, seat: int) -> tuple[Turn, ...]:
        """What a seat has written."""
        return tuple(turn for turn in self._notes if turn.observation.seat == seat)

    def _state(self) -> dict[str, Any]:
        seat = self.person_seat
        is_open = seat is None or self.is_ended
        turns = [turn for turn in self._turns if is_open or turn.observation.seat == seat]
        asked = self._asked if self._stage is SessionState.MOVE else None
        return {
            "session": self.id,
            "version": self._version,
            "world": self.task.world,
            "rules": self._rules,
            "names": [sitter.name for sitter in self.sitters],
            "seat": seat,
            "episodes": self.task.episodes,
            "episode": self._episode,
            "phase": self._stage,
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
        return shown | {"facts": dict(result.facts) if is_open else None}

    def _note(self, turn: Turn) -> dict[str, Any]:
        seat = turn.observation.seat
        return {
            "seat": seat,
            "name": self.sitters[seat].name,
            "episode": turn.observation.episode,
            "text": turn.action or "",
        }


def _seen(observation: Observation) -> dict[str, Any]:
    return {
        "text": observation.text,
        "facts": dict(observation.facts),
        "actions": list(observation.actions),
        "ids": list(observation.ids),
        "turn": observation.turn,
    }


def _shown(turn: Turn) -> dict[str, Any]:
    """A turn without the tokens behind it: they are in the trial once it is saved."""
    drawn = drawn_turn(msgspec.structs.replace(turn, calls=()), [None] * (turn.observation.seat + 1))
    del drawn["calls"], drawn["credit"], drawn["reward"]
    return drawn
