"""Exports a run as one HTML file: selected trials, curves and evaluations.

The page is the viewer's own, with its modules and style inline. The server's responses are embedded as JSON, by path,
in `window.MAGE_DATA`. The JSON is escaped so that it cannot end its element, and the content security policy allows
only the page's own script and no requests.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from mage.errors import ConfigError, MageError
from mage.runs.store import read_info
from mage.version import __version__
from mage.view.bundle import STATIC, script, style
from mage.view.read.curves import MAX_POINTS
from mage.view.read.run_store import RunStore
from mage.view.read.run_summary import RunSummary
from mage.view.read.trial_index import MAX_ROWS, TrialFilter

MAX_BYTES = 32 * 2**20
"""The largest page, for mail and browsers."""
MOST = 20
"""Default number of trials."""
_RUNS = "/api/runs"
_CHARSET = '<meta charset="utf-8">'
_STYLE_LINK = '<link rel="stylesheet" href="/static/style.css">'
_SCRIPT_LINK = '<script type="module" src="/static/app.js"></script>'
_START = 'window.MAGE_DATA = JSON.parse(document.getElementById("mage-data").textContent);\n'
_UNRESERVED = "!~*'()"
"""Characters that `encodeURIComponent` keeps and `quote` would escape."""


class Page(NamedTuple):
    """A page and its contents."""

    content: bytes
    trials: tuple[int, ...]
    num_trials: int
    """Number of trials of the run."""
    evaluations: tuple[str, ...]
    left_out: tuple[str, ...]
    """Contents left out because the page would be too large."""


def export_page(run: Path, trials: Sequence[int] | None = None, most: int = MOST) -> Page:
    """The page of a run with the given trials, or with up to `most`: those of the showcase, and others between them.

    Given trials must all fit; other trials and evaluations are left out if they do not.
    """
    read_info(run)
    store = RunStore(run)
    (place,) = (place for place in store.folder.places() if place.path == store.folder.root)
    title = f"{place.name} in mage {__version__}"
    data = {"title": title, "made": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"}
    source = _Source(store, place.id)
    wanted = list(dict.fromkeys(trials)) if trials is not None else _chosen(source.rows, source.pairs, most)
    frame = source.frame(wanted, source.evaluations)
    content = _Content(MAX_BYTES - len(_page(title, {**data, "responses": frame})))
    for number in wanted:
        content.add(f"trial {number}", source.trial(number), is_wanted=trials is not None)
    for name in source.evaluations:
        content.add(f"evaluation {name}", source.evaluation(name), is_wanted=False)
    taken = [n for n in wanted if f"trial {n}" in content.taken]
    evaluated = [name for name in source.evaluations if f"evaluation {name}" in content.taken]
    responses = {**source.frame(taken, evaluated), **dict(content.taken.values())}
    page = _page(title, {**data, "responses": responses})
    return Page(page, tuple(taken), len(source.rows), tuple(evaluated), tuple(content.left_out))


Answer = tuple[str, msgspec.Raw]
"""A path and the server's response to it."""


class _Content:
    """The contents of a page, up to a size limit."""

    def __init__(self, bytes_left: int) -> None:
        self._bytes_left = bytes_left
        self.taken: dict[str, Answer] = {}
        self.left_out: list[str] = []
        if bytes_left < 0:
            raise _too_large("its curves and its config")

    def add(self, what: str, answer: Answer, *, is_wanted: bool) -> None:
        """Add a response if it fits; if not, leave it out, or raise if it is wanted."""
        size = len(answer[0]) + len(_escaped(bytes(answer[1]))) + len('"":,')
        if size <= self._bytes_left:
            self._bytes_left -= size
            self.taken[what] = answer
        elif is_wanted:
            raise _too_large(what)
        else:
            self.left_out.append(what)


class _Source:
    """The server's responses about one run."""

    def __init__(self, store: RunStore, identity: str) -> None:
        self._store = store
        self._id = identity
        self._run = dict(store.run(identity))
        self.evaluations: list[str] = self._run["evaluations"]
        self.pairs = store.pairs(identity)
        self.rows: list[dict[str, Any]] = []
        while True:
            self._lists = store.trials(identity, TrialFilter(), len(self.rows), MAX_ROWS)
            self.rows += self._lists["rows"]
            if not self._lists["rows"] or len(self.rows) >= self._lists["total"]:
                break

    def trial(self, number: int) -> Answer:
        """One trial."""
        return self._path("trials", str(number)), _raw(self._store.trial(self._id, number))

    def evaluation(self, name: str) -> Answer:
        """One evaluation, as it is on file."""
        return self._path("evaluations", name), msgspec.Raw(self._store.evaluation(self._id, name))

    def frame(self, trials: Collection[int], evaluations: Sequence[str]) -> dict[str, msgspec.Raw]:
        """All other responses: curves, config, and lists restricted to the contents of the page."""
        chosen = set(trials)
        rows = [row for row in self.rows if row["number"] in chosen]
        pairs = [_among(pair, chosen) for pair in self.pairs]
        run = {**self._run, "evaluations": evaluations, "children": [], "trials": len(rows), "parent": None}
        summary = {field.name: run[field.name] for field in msgspec.structs.fields(RunSummary)}
        league = {self._path("league"): _raw(self._store.league(self._id))} if run["league"] else {}
        workers = {self._path("workers"): _raw(self._store.workers(self._id))} if run["workers"] else {}
        return {
            **league,
            **workers,
            _RUNS: _raw([summary]),
            self._path(): _raw(run),
            self._path("metrics"): _raw(self._store.metrics(self._id, None, -1, MAX_POINTS)),
            self._path("trials"): _raw({**self._lists, "total": len(rows), "rows": rows}),
            self._path("pairs"): _raw([pair for pair in pairs if len(pair["trials"]) > 1]),
        }

    def _path(self, *parts: str) -> str:
        return "/".join([_RUNS, *(quote(part, safe=_UNRESERVED) for part in (self._id, *parts))])


def _chosen(rows: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]], most: int) -> list[int]:
    """Trials of the showcase, then others spread over the run, without failures."""
    shown = [number for pair in pairs for number in (pair["trials"][0], pair["trials"][-1], *pair["trials"][1:-1])]
    first = list(dict.fromkeys(shown))[:most]
    others = [row["number"] for row in rows if row["error"] is None and row["number"] not in set(shown)]
    num = min(most - len(first), len(others))
    spread = [others[k * (len(others) - 1) // max(1, num - 1)] for k in range(num)]
    return sorted({*first, *spread})


def _among(pair: Mapping[str, Any], chosen: set[int]) -> dict[str, Any]:
    kept = [k for k, number in enumerate(pair["trials"]) if number in chosen]
    return {**pair, **{name: [pair[name][k] for k in kept] for name in ("trials", "steps")}}


def _too_large(what: str) -> ConfigError:
    limit = f"{MAX_BYTES / 2**20:.0f} MiB"
    return ConfigError(f"with {what} the page would be larger than {limit}; choose fewer trials with --trials")


def _raw(answer: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(answer))


def _escaped(data: bytes) -> bytes:
    """JSON with every `<` escaped, so that no text can open or end an HTML element."""
    return data.replace(b"<", b"\\u003c")


def _page(title: str, data: Mapping[str, Any]) -> bytes:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    code, css = _START + script(), style()
    policy = (
        f"default-src 'none'; script-src '{_hash(code)}'; style-src '{_hash(css)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    embedded = f'<script type="application/json" id="mage-data">{_escaped(msgspec.json.encode(data)).decode()}</script>'
    parts = {
        _CHARSET: f'{_CHARSET}\n    <meta http-equiv="Content-Security-Policy" content="{policy}">',
        "<title>mage</title>": f"<title>{html.escape(title)}</title>",
        _STYLE_LINK: f"<style>{css}</style>",
        _SCRIPT_LINK: "",
        "</body>": f"{embedded}\n<script>{code}</script>\n</body>",
    }
    for old, new in parts.items():
        before, found, after = page.partition(old)
        if not found:
            raise MageError(f"the viewer's index.html has no {old}; a page on its own cannot be made of it")
        page = before + new + after
    return page.encode()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
