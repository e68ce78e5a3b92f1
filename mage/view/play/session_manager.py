"""The room where sittings are played: one thread with an event loop of its own, so that no game holds up the pages."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import Any

import msgspec

from mage.errors import ConfigError, MageError
from mage.protocols import AgentFactory
from mage.rollout.group import play_trials
from mage.runs.store import RUN, RunWriter, new_run_path
from mage.spec import parse_spec
from mage.types import Failure, Task, Trial
from mage.view.play.seats import Models, SeatChoice
from mage.view.play.session import PlaySession
from mage.view.play.world import SessionWorld
from mage.view.read.folder import PLAYS, Folder, NotFoundError, one_line
from mage.worlds.openspiel.world import OpenSpielWorld

_MAX_OPEN = 16
_MAX_KEPT = 100
_IDLE_S = 3600.0
"""A table that nobody has looked at for so long is cleared."""
_FAREWELL_S = 2.0


class SessionManager:
    """Opens tables, finds them again, and clears those that were left."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._models = Models(folder)
        self._sittings: dict[str, PlaySession] = {}
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, task: Task, sitters: tuple[SeatChoice, ...], pace_s: float) -> PlaySession:
        """Seat everybody and begin."""
        self._clear()
        session = PlaySession(secrets.token_urlsafe(12), task, sitters, OpenSpielWorld().rules(task), pace_s)
        with self._lock:
            if sum(not other.is_ended for other in self._sittings.values()) >= _MAX_OPEN:
                raise ConfigError(f"{_MAX_OPEN} games are open; leave one first")
            self._sittings[session.id] = session
        played = asyncio.run_coroutine_threadsafe(self._play(session), self._running())
        played.add_done_callback(partial(_broke_off, session))
        return session

    def find(self, identity: str) -> PlaySession:
        """A sitting by its id."""
        session = self._sittings.get(identity)
        if session is None:
            raise NotFoundError("there is no such game; a game is forgotten when the server ends")
        return session

    def close(self) -> None:
        """Let everybody get up; what is finished is saved."""
        left = [session for session in self._sittings.values() if not session.is_ended]
        for session in left:
            session.leave(0.0)
        until = monotonic() + _FAREWELL_S
        for session in left:
            session.leave(max(0.0, until - monotonic()))
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _clear(self) -> None:
        now = monotonic()
        with self._lock:
            known = list(self._sittings.items())
        for identity, session in known:
            if session.is_ended and len(self._sittings) > _MAX_KEPT:
                with self._lock:
                    del self._sittings[identity]
            elif not session.is_ended and now - session.touched > _IDLE_S:
                session.leave(0.0)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                Thread(target=self._loop.run_forever, name="room", daemon=True).start()
            return self._loop

    async def _play(self, session: PlaySession) -> None:
        """Play one trial to its end. Errors of players are data by then; others made on purpose are shown."""
        try:
            agent_factories = await asyncio.to_thread(self._seatings, session)
            table = SessionWorld(OpenSpielWorld(), session, agent_factories)
            session.began()
            outcomes = [outcome async for outcome in play_trials(table, [(session.task, 0)], table.seat)]
            saved = self._save(session, table, outcomes[0])
        except MageError as error:
            session.ended(None, one_line(error))
            return
        failure = outcomes[0] if isinstance(outcomes[0], Failure) else None
        session.ended(saved, None if failure is None else one_line(f"{failure.error}: {failure.message}"))

    def _seatings(self, session: PlaySession) -> dict[int, AgentFactory]:
        world = OpenSpielWorld()
        return {
            seat: self._models.make_agent(sitter, world)
            for seat, sitter in enumerate(session.sitters)
            if not sitter.is_person
        }

    def _save(self, session: PlaySession, table: SessionWorld, outcome: Trial | Failure) -> Mapping[str, Any] | None:
        """Write the trials down as a run of their own; nothing where no episode was finished."""
        if isinstance(outcome, Trial) and not outcome.episodes:
            return None
        written = [outcome] if isinstance(outcome, Failure) else table.trials(outcome)
        path = new_run_path("play", parse_spec(session.task.world).name, self._base())
        seats = [msgspec.to_builtins(sitter) for sitter in session.sitters]
        config = {**msgspec.to_builtins(session.task), "seats": seats}
        with RunWriter.create(path, kind="play", config=config, seed=session.task.seed) as writer:
            numbers = {str(trial.task.seat): writer.append(trial) for trial in written}
        place = self._folder.at(path)
        return {"run": None if place is None else place.id, "name": path.name, "trials": numbers}

    def _base(self) -> Path:
        """Where runs of games go: below the directory shown, also when that is itself a run."""
        root = self._folder.root
        return root / PLAYS if (root / RUN).exists() else root


def _broke_off(session: PlaySession, played: Future[None]) -> None:
    """Whatever nobody expected ends the sitting too, and is shown there."""
    error = None if played.cancelled() else played.exception()
    if error is not None:
        session.ended(None, one_line(f"the game broke off: {type(error).__name__}: {error}"))
