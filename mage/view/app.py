"""The web app: routes and their read-only endpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event, Thread

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from mage.errors import ConfigError
from mage.view.guard import Access, Guard
from mage.view.help import help_routes
from mage.view.http import ERRORS, JsonResponse, path_int, query_int, text_or_none
from mage.view.play.endpoints import PlayEndpoints
from mage.view.read.bounds import Bounds
from mage.view.read.curves import MAX_POINTS
from mage.view.read.folder import NotFoundError
from mage.view.read.live import Live
from mage.view.read.run_store import RunStore
from mage.view.read.trial_index import MAX_ROWS, TrialFilter

STATIC = Path(__file__).parent / "static"
_TOKEN = '<meta name="mage-token" content="">'
"""Placeholder for the access token in index.html."""


class Pages:
    """The read-only endpoints."""

    def __init__(self, store: RunStore, live: Live, play: PlayEndpoints, access: Access) -> None:
        self._store = store
        self._live = live
        self._play = play
        self._access = access

    def index(self, request: Request) -> Response:
        page = (STATIC / "index.html").read_text(encoding="utf-8")
        return HTMLResponse(page.replace(_TOKEN, _TOKEN.replace('""', f'"{self._access.token}"')))

    def runs(self, request: Request) -> Response:
        return JsonResponse(self._store.runs())

    def run(self, request: Request) -> Response:
        return JsonResponse(self._store.run(request.path_params["run"]))

    def metrics(self, request: Request) -> Response:
        keys = request.query_params.get("keys")
        after, points = (
            query_int(request, "after", -1, least=-1),
            query_int(request, "points", MAX_POINTS, least=1),
        )
        named = None if not keys else keys.split(",")
        return JsonResponse(self._store.metrics(request.path_params["run"], named, after, points))

    def trials(self, request: Request) -> Response:
        seat = query_int(request, "seat", -1)
        texts = {name: text_or_none(request, name) for name in ("opponent", "arm", "split")}
        wanted = TrialFilter(seat=None if seat < 0 else seat, **texts)
        offset, limit = query_int(request, "offset", 0), query_int(request, "limit", 50, least=1)
        if limit > MAX_ROWS:
            raise ConfigError(f"limit = {limit}: {MAX_ROWS} at most")
        return JsonResponse(self._store.trials(request.path_params["run"], wanted, offset, limit))

    def trial(self, request: Request) -> Response:
        return JsonResponse(self._store.trial(request.path_params["run"], path_int(request, "trial")))

    def evaluation(self, request: Request) -> Response:
        return JsonResponse(self._store.evaluation(request.path_params["run"], request.path_params["name"]))

    def pairs(self, request: Request) -> Response:
        return JsonResponse(self._store.pairs(request.path_params["run"]))

    def league(self, request: Request) -> Response:
        return JsonResponse(self._store.league(request.path_params["run"]))

    def workers(self, request: Request) -> Response:
        return JsonResponse(self._store.workers(request.path_params["run"]))

    def live(self, request: Request) -> Response:
        session = request.query_params.get("session")
        if session is not None:
            return self._live.session(session, self._play.find(session))
        return self._live.runs(request.query_params.get("run"))

    def nothing(self, request: Request) -> Response:
        raise NotFoundError(f"there is nothing at {request.url.path}")

    def routes(self) -> list[Route]:
        """The routes of these endpoints."""
        run = "/api/runs/{run}"
        return [
            Route("/", self.index),
            Route("/api/runs", self.runs),
            Route(run, self.run),
            Route(f"{run}/metrics", self.metrics),
            Route(f"{run}/trials", self.trials),
            Route(f"{run}/trials/{{trial}}", self.trial),
            Route(f"{run}/evaluations/{{name}}", self.evaluation),
            Route(f"{run}/pairs", self.pairs),
            Route(f"{run}/league", self.league),
            Route(f"{run}/workers", self.workers),
            Route("/api/live", self.live),
        ]


def build_app(root: Path, access: Access, stopping: Event | None = None) -> ASGIApp:
    """The app for the runs below a directory; event streams end once `stopping` is set."""
    bounds = Bounds()
    store = RunStore(root, bounds)
    play = PlayEndpoints(store.folder)
    pages = Pages(store, Live(store, stopping or Event()), play, access)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        Thread(target=_warm_up, daemon=True).start()
        yield
        bounds.close()
        await run_in_threadpool(play.close)

    app = Starlette(
        routes=[
            *pages.routes(),
            *play.routes(),
            *help_routes(),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/{rest:path}", pages.nothing),
        ],
        exception_handlers=ERRORS,
        lifespan=lifespan,
    )
    return Guard(app, access)  # outermost, so that responses to unexpected errors have its headers too


def _warm_up() -> None:
    """Import the modules of the first request in advance."""
    import mage.worlds.openspiel.game  # noqa: F401
