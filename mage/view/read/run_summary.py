"""Summaries of runs for the list, updated incrementally from their files."""

from __future__ import annotations

import itertools
import re
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from stat import S_ISREG
from threading import Lock
from typing import Any

import msgspec

from mage.errors import RecordError
from mage.files import BAD_JSON, is_file_locked, read_lines
from mage.runs.index import INDEX, TRIALS
from mage.runs.store import RUN, RunInfo, read_info
from mage.runs.sweep_plan import SWEEP, read_plan
from mage.training.workers.health import WORKERS
from mage.types import AlarmAction
from mage.view.read.folder import NASHCONV, Location, one_line
from mage.view.read.status import RunStatus, Status, play_status, train_status
from mage.view.read.tail import Tail

METRICS, EVENTS, ARMS, CREDIT = "metrics.jsonl", "events.jsonl", "arms.jsonl", "credit.jsonl"
FILES = (RUN, TRIALS, INDEX, METRICS, EVENTS, ARMS, CREDIT)
"""The files of a run that are read."""
TIMINGS = "timings.jsonl"
"""Read where a run has workers, like the file WORKERS."""
REPORTS: Mapping[str, tuple[str, ...]] = {
    "evaluate": ("report.json", "reflections.json"),
    "cross-play": ("crossplay.json",),
}
"""The reports that a run writes at its end, by kind."""
_OTHERS = ("report.json", "reflections.json", "crossplay.json", "checkpoints", "evaluations")
"""Other files and directories that the status depends on."""
_KINDS = {"cross-play": "crossplay"}
_SPARK = 60
"""Most points of the sparkline."""
_ENDED = "ended.jsonl"
_TIMESTAMP = re.compile(r"^\d{8}-\d{6}-[a-z]+-")
_SEED = re.compile(r"-seed\d+$")
_MAX_CACHED = 2000


class RunSummary(msgspec.Struct, frozen=True):
    """One run in the list."""

    id: str
    name: str
    kind: str
    recipe: str
    """The name of its directory without time, kind and seed."""
    world: str
    status: Status
    why: str
    """One sentence on the status, or empty."""
    steps: int
    """Planned steps of a train run."""
    step: int
    updated: str
    """Time of the last change of a file; UTC, ISO 8601."""
    spark: tuple[float | None, ...]
    """The score of the last episode over the steps of a train run."""
    trials: int
    parent: str | None
    """The run or sweep that it belongs to."""
    alarms: int
    description: str


class _Event(msgspec.Struct):
    step: int = 0
    alarm: str | None = None
    error: str | None = None
    action: str = AlarmAction.PRINT


class _Line(msgspec.Struct):
    opponents: tuple[str, ...] = ()


class _Log:
    """The logs of one run, read incrementally."""

    def __init__(self, place: Location) -> None:
        self._place = place
        self._metrics = Tail(place.path / METRICS)
        self._events = Tail(place.path / EVENTS)
        self._index = Tail(place.path / (INDEX if place.has(INDEX) else TRIALS))
        self._points: msgspec.json.Decoder[Any] | None = None
        self.step = 0
        self.scores: list[float | None] = []
        self.num_trials = 0
        self.num_seats = 0
        self.num_alarms = 0
        self.alarm = ""
        self.halted_at = -1
        """The step of the newest alarm with an action other than print."""
        self.error = ""
        """The error that ended the run after its last step, where it is recorded."""

    def read(self, episodes: int) -> None:
        """Read the lines that were added."""
        if self._metrics.is_restarted():
            self.step, self.scores = 0, []
        if self._events.is_restarted():
            self.num_alarms, self.alarm, self.halted_at, self.error = 0, "", -1, ""
        if self._index.is_restarted():
            self.num_trials = 0
        try:
            self._read_metrics(episodes)
            for line in self._events.lines():
                event = msgspec.json.decode(line, type=_Event)
                self.error = event.error or ""
                if event.alarm is not None:
                    self.num_alarms += 1
                    self.alarm = f"alarm at step {event.step}: {event.alarm}"
                    self.halted_at = -1 if event.action == AlarmAction.PRINT else event.step
            for line in self._index.lines():
                self.num_seats = self.num_seats or 1 + len(msgspec.json.decode(line, type=_Line).opponents)
                self.num_trials += 1
        except BAD_JSON as error:
            raise RecordError(f"a log of {self._place.name} cannot be read: {error}") from None

    def _read_metrics(self, episodes: int) -> None:
        if self._points is None:
            fields = [("step", int, 0), ("score", float | None, None)]
            point = msgspec.defstruct("_Point", fields, rename={"score": f"score/episode_{episodes}"})
            self._points = msgspec.json.Decoder(point)
        for line in self._metrics.lines():
            point = self._points.decode(line)
            self.step = max(self.step, point.step)
            if point.score is not None:
                self.scores.append(point.score)


class RunSummaries:
    """Makes summaries and caches them, with LRU eviction."""

    def __init__(self) -> None:
        self._logs: OrderedDict[str, _Log] = OrderedDict()
        self._made: OrderedDict[str, tuple[object, RunSummary]] = OrderedDict()
        self._lock = Lock()

    def summary(self, place: Location) -> RunSummary:
        """The summary of a run, also of one that cannot be read; updated only if a file has changed."""
        fingerprint = _fingerprint(place)
        known, summary = self._made.pop(place.id, (None, None))
        if summary is None or known != fingerprint or summary.parent != place.parent:
            summary = self._read(place)
        self._made[place.id] = (fingerprint, summary)
        while len(self._made) > _MAX_CACHED:
            self._made.popitem(last=False)
        return summary

    def _read(self, place: Location) -> RunSummary:
        try:
            place.check(*FILES, SWEEP, NASHCONV)
            if place.has(RUN) or place.has(TRIALS):
                return self._of_run(place, read_info(place.path))
            return _of_sweep(place) if place.has(SWEEP) else _of_report(place)
        except (RecordError, OSError) as error:
            return _make_summary(place, "broken", RunStatus(Status.BROKEN, one_line(error)))

    def _of_run(self, place: Location, info: RunInfo) -> RunSummary:
        config = info.config
        trial = config.get("trial")
        episodes = int_or_zero(trial.get("episodes")) if isinstance(trial, dict) else 0
        with self._lock:
            log = self._log(place)
            log.read(episodes)
        steps = int_or_zero(config.get("steps")) if info.kind == "train" else 0
        if info.kind == "train":
            status = train_status(place, steps, log.step, log.alarm, log.halted_at == log.step, log.error)
        else:
            wanted = _num_wanted(info, log.num_seats)
            status = play_status(place, log.num_trials, wanted, REPORTS.get(info.kind, ()))
        return _make_summary(
            place,
            info.kind,
            status,
            recipe=_recipe(place.name.rpartition("/")[2]) if info.kind in ("train", "trials") else "",
            world=_world_of(config),
            steps=steps,
            step=log.step,
            spark=thin(log.scores, _SPARK) if info.kind == "train" else (),
            trials=log.num_trials,
            alarms=log.num_alarms,
            description=str(config.get("description", "")),
        )

    def _log(self, place: Location) -> _Log:
        log = self._logs.pop(place.id, None) or _Log(place)
        self._logs[place.id] = log
        while len(self._logs) > _MAX_CACHED:
            self._logs.popitem(last=False)
        return log


def _fingerprint(place: Location) -> object:
    """A value that changes with the files of a run and with its write lock."""
    found: dict[str, tuple[int, ...]] = {}
    for name in (*FILES, TIMINGS, WORKERS, SWEEP, _ENDED, *_OTHERS):
        try:
            of = (place.path / name).lstat()
        except OSError:
            continue
        found[name] = (of.st_mode, of.st_ino, of.st_size, of.st_mtime_ns)
    locked = SWEEP if SWEEP in found else TRIALS
    is_locked = locked in found and S_ISREG(found[locked][0]) and is_file_locked(place.path / locked)
    return place.name, found, is_locked


def int_or_zero(value: object) -> int:
    """An integer of a config; 0 if it has another type."""
    return value if isinstance(value, int) else 0


def thin(values: list[float | None], num: int) -> tuple[float | None, ...]:
    """At most `num` values: the means of equal parts; None where a part has no value.

    >>> thin([1.0, 3.0, 5.0, None], 2)
    (2.0, 5.0)
    """
    if len(values) <= num:
        return tuple(values)
    edges = [round(k * len(values) / num) for k in range(num + 1)]
    parts = [[v for v in values[a:b] if v is not None] for a, b in itertools.pairwise(edges)]
    return tuple(sum(part) / len(part) if part else None for part in parts)


def _of_sweep(place: Location) -> RunSummary:
    plan = read_plan(place.path)
    place.check(_ENDED)
    ended = [line.get("name") for line in read_lines(place.path / _ENDED) if isinstance(line, dict)]
    num_ended = sum(run.name in ended for run in plan.runs)
    if is_file_locked(place.path / SWEEP):
        status = RunStatus(Status.RUNNING, "")
    elif num_ended < len(plan.runs):
        so_far = f"{num_ended} of {len(plan.runs)} runs have ended; mage sweep --resume goes on"
        status = RunStatus(Status.STOPPED, so_far)
    else:
        status = RunStatus(Status.FINISHED, "")
    recipes = ", ".join(dict.fromkeys(run.recipe for run in plan.runs))
    worlds = ", ".join(dict.fromkeys(_world_of(run.config) for run in plan.runs))
    return _make_summary(place, "sweep", status, recipe=recipes, world=worlds, steps=len(plan.runs), step=num_ended)


def _of_report(place: Location) -> RunSummary:
    return _make_summary(place, "nashconv", RunStatus(Status.FINISHED, ""))


def _make_summary(place: Location, kind: str, status: RunStatus, **more: Any) -> RunSummary:
    usual: dict[str, Any] = {"recipe": "", "world": "", "steps": 0, "step": 0, "spark": (), "trials": 0, "alarms": 0}
    known = {**usual, "description": "", **more}
    return RunSummary(
        id=place.id,
        name=place.name,
        kind=_KINDS.get(kind, kind),
        status=status.status,
        why=status.why,
        updated=_updated(place),
        parent=place.parent,
        **known,
    )


def _updated(place: Location) -> str:
    times = [place.path.lstat().st_mtime]
    times += [(place.path / name).lstat().st_mtime for name in (*FILES, TIMINGS, WORKERS) if place.has(name)]
    return datetime.fromtimestamp(max(times), UTC).isoformat(timespec="milliseconds")


def _num_wanted(info: RunInfo, num_seats: int) -> int | None:
    """The planned number of trials of a run; None if unknown."""
    if info.kind not in ("trials", "duel"):
        return None
    return int_or_zero(info.config.get("trials")) * (max(num_seats, 1) if info.kind == "duel" else 1)


def _world_of(config: Mapping[str, Any]) -> str:
    inner = config.get("config")
    splits = config.get("splits")
    if isinstance(splits, list) and splits and isinstance(splits[0], dict):
        return ", ".join(dict.fromkeys(str(split.get("world", "")) for split in splits))
    return str(config.get("world") or (inner.get("world", "") if isinstance(inner, dict) else ""))


def _recipe(name: str) -> str:
    return _SEED.sub("", _TIMESTAMP.sub("", name))
