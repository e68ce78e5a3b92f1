"""The endpoints for playing: open a play session, move, write a note, leave."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mage.errors import ConfigError, listing
from mage.types import Task
from mage.view.http import JsonResponse, body
from mage.view.read.folder import Folder, NotFoundError

if TYPE_CHECKING:
    from mage.view.play.seats import SeatChoice
    from mage.view.play.session import PlaySession
    from mage.view.play.session_manager import SessionManager

_MAX_EPISODES = 50
_MAX_PACE_S = 10.0
_PACE_S = 0.7
"""Default pause before each move if no person plays."""
_MAX_SEED = 2**63
_MAX_TURNS = 1000
_KEYS = ("world", "level", "opponent", "player", "episodes", "seat", "seed", "pace_s")


class PlayEndpoints:
    """Play sessions in the browser. Worlds and opponents are imported when the first session is opened."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._manager: SessionManager | None = None
        self._lock = Lock()

    def routes(self) -> list[Route]:
        """The routes of these endpoints."""
        session = "/api/play/{session}"
        return [
            Route("/api/choices", self.choices),
            Route("/api/play", self.open, methods=["POST"]),
            Route(session, self.state),
            Route(f"{session}/move", self.move, methods=["POST"]),
            Route(f"{session}/note", self.note, methods=["POST"]),
            Route(f"{session}/leave", self.leave, methods=["POST"]),
        ]

    def find(self, session: str) -> PlaySession:
        """A play session by its id."""
        if self._manager is None:
            raise NotFoundError("there is no such session; sessions end with the server")
        return self._manager.find(session)

    def close(self) -> None:
        """End all sessions."""
        if self._manager is not None:
            self._manager.close()

    def choices(self, request: Request) -> Response:
        from mage.view.play.seats import choices

        return JsonResponse(choices(self._folder))

    async def open(self, request: Request) -> Response:
        given = await body(request)
        return JsonResponse(await run_in_threadpool(self._open, given), 201)

    def state(self, request: Request) -> Response:
        return JsonResponse(self.find(request.path_params["session"]).state())

    async def move(self, request: Request) -> Response:
        session, given = self.find(request.path_params["session"]), await body(request)
        return JsonResponse(await run_in_threadpool(session.move, given.get("action")))

    async def note(self, request: Request) -> Response:
        session, given = self.find(request.path_params["session"]), await body(request)
        return JsonResponse(await run_in_threadpool(session.note, given.get("text")))

    async def leave(self, request: Request) -> Response:
        session = self.find(request.path_params["session"])
        return JsonResponse(await run_in_threadpool(session.leave))

    def _open(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Check the request and open a session."""
        from mage.view.play.seats import PERSON, parse_level, parse_seat_choice, playable
        from mage.view.play.session_manager import SessionManager

        unknown = set(given) - set(_KEYS)
        if unknown:
            raise ConfigError(f"unknown {listing(unknown)}; known: {listing(_KEYS)}")
        world = playable(given.get("world"))
        level = parse_level(given.get("level"), world)
        seat = _whole(given, "seat", 0, world.num_seats - 1, 0)
        others = [other for other in range(world.num_seats) if other != seat]
        named = _one_per_seat(given.get("opponent"), len(others), world.spec)
        chosen = {seat: given.get("player", PERSON), **dict(zip(others, named, strict=True))}
        seats = tuple(parse_seat_choice(chosen[s], world, s, self._folder) for s in range(world.num_seats))
        if sum(choice.is_person for choice in seats) > 1:
            raise ConfigError("one person can play here; the other seats are for opponents")
        with self._lock:
            self._manager = self._manager or SessionManager(self._folder)
        task = msgspec.structs.replace(_task(given, world.spec, seat, seats), level=level)
        return self._manager.open(task, seats, _pace(given, seats)).state()


def _task(given: Mapping[str, Any], world: str, seat: int, seats: Sequence[SeatChoice]) -> Task:
    opponents = tuple(choice.name for other, choice in enumerate(seats) if other != seat)
    seed = secrets.randbelow(_MAX_SEED) if given.get("seed") in (None, "") else _whole(given, "seed", 0, _MAX_SEED, 0)
    episodes = _whole(given, "episodes", 1, _MAX_EPISODES, 3)
    return Task(world, opponents, seat, seed, episodes, replay_deal=False, early_stop=False, max_turns=_MAX_TURNS)


def _one_per_seat(given: object, num: int, world: str) -> list[object]:
    """One opponent for each other seat: as given, or a single one for all."""
    if num == 0 and given not in (None, "", []):
        raise ConfigError(f"{world} has one seat and no opponents")
    names = list(given) if isinstance(given, list) and num else [given]
    if len(names) not in (1, num):
        raise ConfigError(f"{world} takes 1 opponent for all other seats or {num}, one for each; not {len(names)}")
    return names * num if len(names) == 1 else names


def _whole(given: Mapping[str, Any], name: str, least: int, most: int, usual: int) -> int:
    value = given.get(name, usual)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)  # a seed may exceed the integers of JavaScript
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(f"{name} = {str(value)[:40]!r}: give a whole number from {least} to {most}")
    return value


def _pace(given: Mapping[str, Any], seats: Sequence[SeatChoice]) -> float:
    """The pause before each move; 0 if a person plays."""
    pace = given.get("pace_s", _PACE_S)
    if not isinstance(pace, int | float) or isinstance(pace, bool) or not 0 <= pace <= _MAX_PACE_S:
        raise ConfigError(f"pace_s = {str(pace)[:40]!r}: give seconds from 0 to {_MAX_PACE_S:g}")
    return 0.0 if any(choice.is_person for choice in seats) else float(pace)
