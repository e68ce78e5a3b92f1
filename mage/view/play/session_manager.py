"""The session manager: plays all sessions in one thread with its own event loop, apart from the web server."""

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

from mage.errors import ConfigError, MageError, PlayError
from mage.opponents.registry import OPPONENTS
from mage.protocols import Agent, AgentFactory
from mage.rollout.group import play_trials
from mage.rollout.trial import PlayerLeftError
from mage.runs.new_directory import new_run_path
from mage.runs.store import RUN, RunWriter
from mage.spec import parse_spec
from mage.types import Failure, Task, Trial
from mage.view.play.seat_process import SeatProcess, start_seat_process
from mage.view.play.seats import Models, SeatChoice
from mage.view.play.session import PlaySession
from mage.view.play.world import SessionWorld
from mage.view.read.folder import PLAYS, Folder, NotFoundError, one_line
from mage.worlds.registry import WORLDS, load_world

_MAX_OPEN = 16
_MAX_KEPT = 100
_IDLE_S = 3600.0
"""Sessions without a request for this long are ended."""
_IDLE_CHECK_S = 60.0
_CLOSE_S = 2.0


class SessionManager:
    """Opens sessions, finds them by id, and drops old ones."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._models = Models(folder)
        self._sessions: dict[str, PlaySession] = {}
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, task: Task, seats: tuple[SeatChoice, ...], pace_s: float) -> PlaySession:
        """Open a session and begin its trial."""
        self._drop_old()
        session = PlaySession(secrets.token_urlsafe(12), task, seats, load_world(task.world).rules(task), pace_s)
        with self._lock:
            if sum(not other.is_ended for other in self._sessions.values()) >= _MAX_OPEN:
                raise ConfigError(f"{_MAX_OPEN} sessions are open; leave one first")
            self._sessions[session.id] = session
        played = asyncio.run_coroutine_threadsafe(self._play(session), self._event_loop())
        played.add_done_callback(partial(_on_crash, session))
        return session

    def find(self, identity: str) -> PlaySession:
        """A session by its id."""
        session = self._sessions.get(identity)
        if session is None:
            raise NotFoundError("there is no such session; sessions end with the server")
        return session

    def close(self) -> None:
        """End all sessions; finished episodes are saved."""
        left = [session for session in self._sessions.values() if not session.is_ended]
        for session in left:
            session.leave(0.0)
        until = monotonic() + _CLOSE_S
        for session in left:
            session.leave(max(0.0, until - monotonic()))
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _drop_old(self) -> None:
        now = monotonic()
        with self._lock:
            known = list(self._sessions.items())
        for identity, session in known:
            if session.is_ended and len(self._sessions) > _MAX_KEPT:
                with self._lock:
                    del self._sessions[identity]
            elif not session.is_ended and now - session.touched > _IDLE_S:
                session.leave(0.0)

    def _end_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """End idle sessions as time goes by, so that no search goes on for a page that was closed."""
        self._drop_old()
        loop.call_later(_IDLE_CHECK_S, self._end_idle, loop)

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                Thread(target=self._loop.run_forever, name="play-sessions", daemon=True).start()
                self._loop.call_soon_threadsafe(self._end_idle, self._loop)
            return self._loop

    async def _play(self, session: PlaySession) -> None:
        """Play one trial to its end. Failures of players are recorded in the trial; other mage errors are shown."""
        processes: list[SeatProcess] = []
        try:
            agent_factories = await self._make_factories(session, processes)
            world = SessionWorld(load_world(session.task.world), session, agent_factories)
            session.on_begin()
            outcomes = [outcome async for outcome in play_trials(world, [(session.task, 0)], world.make_agent)]
            saved = self._save(session, world, outcomes[0])
        except PlayerLeftError:
            session.on_end(None, None)
            return
        except MageError as error:
            session.on_end(None, one_line(error))
            return
        finally:
            for process in processes:
                await process.close()
        failure = outcomes[0] if isinstance(outcomes[0], Failure) else None
        session.on_end(saved, None if failure is None else one_line(f"{failure.error}: {failure.message}"))

    async def _make_factories(self, session: PlaySession, processes: list[SeatProcess]) -> dict[int, AgentFactory]:
        """The agent factories by seat; the processes among the players are added to the list.

        A model goes on loading in its thread if the person leaves, and is there when it is chosen again.
        """
        world = load_world(session.task.world)
        made: dict[int, AgentFactory] = {}
        for seat, choice in enumerate(session.seats):
            if choice.is_model:
                loading = asyncio.to_thread(self._models.make_agent, choice, world)
                made[seat] = await session.unless_left(loading)
            elif choice.may_take_long:
                task = msgspec.structs.replace(session.task, seat=seat)
                try:
                    process = await session.unless_left(start_seat_process(task, choice.spec))
                except PlayError:
                    if not _is_registered(task.world, choice.spec):
                        raise
                    made[seat] = self._models.make_agent(choice, world)  # known in this process alone
                else:
                    processes.append(process)
                    made[seat] = partial(_the_same, process)
            elif not choice.is_person:
                made[seat] = self._models.make_agent(choice, world)
        return made

    def _save(self, session: PlaySession, world: SessionWorld, outcome: Trial | Failure) -> Mapping[str, Any] | None:
        """Save the trials as a run; None if no episode was finished."""
        if isinstance(outcome, Trial) and not outcome.episodes:
            return None
        written = [outcome] if isinstance(outcome, Failure) else world.trials(outcome)
        path = new_run_path("play", parse_spec(session.task.world).name, self._runs_folder())
        seats = [msgspec.to_builtins(choice) for choice in session.seats]
        config = {**msgspec.to_builtins(session.task), "seats": seats}
        with RunWriter.create(path, kind="play", config=config, seed=session.task.seed) as writer:
            numbers = {str(trial.task.seat): writer.append(trial) for trial in written}
        place = self._folder.at(path)
        return {"run": None if place is None else place.id, "name": path.name, "trials": numbers}

    def _runs_folder(self) -> Path:
        """The folder for saved sessions: below the directory shown, also if that is itself a run."""
        root = self._folder.root
        return root / PLAYS if (root / RUN).exists() else root


def _the_same(agent: Agent, task: Task, sibling: int) -> Agent:
    """The `AgentFactory` of an agent that is made already."""
    return agent


def _on_crash(session: PlaySession, played: Future[None]) -> None:
    """End the session on an unexpected error and show it there."""
    error = None if played.cancelled() else played.exception()
    if error is not None:
        session.on_end(None, one_line(f"the session failed: {type(error).__name__}: {error}"))


def _is_registered(world: str, player: str) -> bool:
    """Whether a world or a player was registered in this process, where a script may have no file to import."""
    return WORLDS.is_registered(parse_spec(world).name) or OPPONENTS.is_registered(parse_spec(player).name)
