"""What the list shows of a run: thin, and kept up to date by reading only what its files gained."""

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
from mage.files import is_file_locked, read_lines
from mage.runs.index import INDEX, TRIALS
from mage.runs.store import RUN, RunInfo, read_info
from mage.runs.sweep_plan import SWEEP, read_plan
from mage.types import AlarmAction
from mage.view.read.folder import NASHCONV, Location, one_line
from mage.view.read.status import RunStatus, Status, played_standing, train_standing
from mage.view.read.tail import Tail

METRICS, EVENTS, ARMS, CREDIT = "metrics.jsonl", "events.jsonl", "arms.jsonl", "credit.jsonl"
FILES = (RUN, TRIALS, INDEX, METRICS, EVENTS, ARMS, CREDIT)
"""What is read of a run."""
REPORTS: Mapping[str, tuple[str, ...]] = {
    "evaluate": ("report.json", "reflections.json"),
    "cross-play": ("crossplay.json",),
}
"""What a run of some kind writes when it is done."""
_OTHERS = ("report.json", "reflections.json", "crossplay.json", "checkpoints", "evaluations")
"""What a status depends on besides; a directory changes when something comes into it."""
_KINDS = {"cross-play": "crossplay"}
_SPARK = 60
"""Most points of the small curve."""
_ENDED = "ended.jsonl"
_STAMP = re.compile(r"^\d{8}-\d{6}-[a-z]+-")
_SEED = re.compile(r"-seed\d+$")
_MAX_CARDS = 2000


class RunSummary(msgspec.Struct, frozen=True):
    """A run in the list."""

    id: str
    name: str
    kind: str
    recipe: str
    """What its directory is called, less the time, the kind and the seed."""
    world: str
    status: Status
    why: str
    """One sentence on the status, or empty."""
    steps: int
    """Of a train run: how many it is to have."""
    step: int
    updated: str
    """When one of its files changed last; UTC, ISO 8601."""
    spark: tuple[float | None, ...]
    """Of a train run: the score of the last episode over its steps."""
    trials: int
    parent: str | None
    """The run or sweep that it belongs to."""
    alarms: int
    description: str


class _Event(msgspec.Struct):
    step: int = 0
    alarm: str | None = None
    action: str = AlarmAction.PRINT


class _Line(msgspec.Struct):
    opponents: tuple[str, ...] = ()


class _Log:
    """What the logs of one run have said so far."""

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
        """The step of the newest alarm that did more than print."""

    def read(self, episodes: int) -> None:
        """Catch up with the files."""
        if self._metrics.is_restarted():
            self.step, self.scores = 0, []
        if self._events.is_restarted():
            self.num_alarms, self.alarm, self.halted_at = 0, "", -1
        if self._index.is_restarted():
            self.num_trials = 0
        try:
            self._read_metrics(episodes)
            for line in self._events.lines():
                event = msgspec.json.decode(line, type=_Event)
                if event.alarm is not None:
                    self.num_alarms += 1
                    self.alarm = f"alarm at step {event.step}: {event.alarm}"
                    self.halted_at = -1 if event.action == AlarmAction.PRINT else event.step
            for line in self._index.lines():
                self.num_seats = self.num_seats or 1 + len(msgspec.json.decode(line, type=_Line).opponents)
                self.num_trials += 1
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
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
    """Makes cards and remembers what it has read; the runs that were asked for longest ago are forgotten."""

    def __init__(self) -> None:
        self._logs: OrderedDict[str, _Log] = OrderedDict()
        self._made: OrderedDict[str, tuple[object, RunSummary]] = OrderedDict()
        self._lock = Lock()

    def card(self, place: Location) -> RunSummary:
        """The card of a run, also of one that cannot be read; made anew only where a file has changed."""
        traces = _traces(place)
        known, card = self._made.pop(place.id, (None, None))
        if card is None or known != traces or card.parent != place.parent:
            card = self._read(place)
        self._made[place.id] = (traces, card)
        while len(self._made) > _MAX_CARDS:
            self._made.popitem(last=False)
        return card

    def _read(self, place: Location) -> RunSummary:
        try:
            place.check(*FILES, SWEEP, NASHCONV)
            if place.has(RUN) or place.has(TRIALS):
                return self._of_run(place, read_info(place.path))
            return _of_sweep(place) if place.has(SWEEP) else _of_report(place)
        except (RecordError, OSError) as error:
            return _card(place, "broken", RunStatus(Status.BROKEN, one_line(error)))

    def _of_run(self, place: Location, info: RunInfo) -> RunSummary:
        config = info.config
        trial = config.get("trial")
        episodes = whole(trial.get("episodes")) if isinstance(trial, dict) else 0
        with self._lock:
            log = self._log(place)
            log.read(episodes)
        steps = whole(config.get("steps")) if info.kind == "train" else 0
        if info.kind == "train":
            standing = train_standing(place, steps, log.step, log.alarm, log.halted_at == log.step)
        else:
            wanted = _num_wanted(info, log.num_seats)
            standing = played_standing(place, log.num_trials, wanted, REPORTS.get(info.kind, ()))
        return _card(
            place,
            info.kind,
            standing,
            recipe=_recipe(place.name.rpartition("/")[2]) if info.kind in ("train", "trials") else "",
            world=_game(config),
            steps=steps,
            step=log.step,
            spark=thinned(log.scores, _SPARK) if info.kind == "train" else (),
            trials=log.num_trials,
            alarms=log.num_alarms,
            description=str(config.get("description", "")),
        )

    def _log(self, place: Location) -> _Log:
        log = self._logs.pop(place.id, None) or _Log(place)
        self._logs[place.id] = log
        while len(self._logs) > _MAX_CARDS:
            self._logs.popitem(last=False)
        return log


def _traces(place: Location) -> object:
    """What differs when a file of a run has changed, or when somebody begins or ends to write to it."""
    found: dict[str, tuple[int, ...]] = {}
    for name in (*FILES, SWEEP, _ENDED, *_OTHERS):
        try:
            of = (place.path / name).lstat()
        except OSError:
            continue
        found[name] = (of.st_mode, of.st_ino, of.st_size, of.st_mtime_ns)
    locked = SWEEP if SWEEP in found else TRIALS
    is_locked = locked in found and S_ISREG(found[locked][0]) and is_file_locked(place.path / locked)
    return place.name, found, is_locked


def whole(value: object) -> int:
    """A number of somebody's config as it ought to be; 0 where it is something else."""
    return value if isinstance(value, int) else 0


def thinned(values: list[float | None], num: int) -> tuple[float | None, ...]:
    """At most `num` values: the means of equal parts; None where a part has no value.

    >>> thinned([1.0, 3.0, 5.0, None], 2)
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
    ended = {line["name"] for line in read_lines(place.path / _ENDED) if isinstance(line, dict) and "name" in line}
    num_ended = sum(run.name in ended for run in plan.runs)
    if is_file_locked(place.path / SWEEP):
        standing = RunStatus(Status.RUNNING, "")
    elif num_ended < len(plan.runs):
        so_far = f"{num_ended} of {len(plan.runs)} runs have ended; mage sweep --resume goes on"
        standing = RunStatus(Status.STOPPED, so_far)
    else:
        standing = RunStatus(Status.FINISHED, "")
    recipes = ", ".join(dict.fromkeys(run.recipe for run in plan.runs))
    games = ", ".join(dict.fromkeys(_game(run.config) for run in plan.runs))
    return _card(place, "sweep", standing, recipe=recipes, world=games, steps=len(plan.runs), step=num_ended)


def _of_report(place: Location) -> RunSummary:
    return _card(place, "nashconv", RunStatus(Status.FINISHED, ""))


def _card(place: Location, kind: str, standing: RunStatus, **more: Any) -> RunSummary:
    usual: dict[str, Any] = {"recipe": "", "world": "", "steps": 0, "step": 0, "spark": (), "trials": 0, "alarms": 0}
    known = {**usual, "description": "", **more}
    return RunSummary(
        id=place.id,
        name=place.name,
        kind=_KINDS.get(kind, kind),
        status=standing.status,
        why=standing.why,
        updated=_updated(place),
        parent=place.parent,
        **known,
    )


def _updated(place: Location) -> str:
    times = [place.path.lstat().st_mtime]
    times += [(place.path / name).lstat().st_mtime for name in FILES if place.has(name)]
    return datetime.fromtimestamp(max(times), UTC).isoformat(timespec="seconds")


def _num_wanted(info: RunInfo, num_seats: int) -> int | None:
    """How many trials the plan of a run has, where it says so."""
    if info.kind not in ("trials", "duel"):
        return None
    return whole(info.config.get("trials")) * (max(num_seats, 1) if info.kind == "duel" else 1)


def _game(config: Mapping[str, Any]) -> str:
    inner = config.get("config")
    splits = config.get("splits")
    if isinstance(splits, list) and splits and isinstance(splits[0], dict):
        return ", ".join(dict.fromkeys(str(split.get("world", "")) for split in splits))
    return str(config.get("world") or (inner.get("world", "") if isinstance(inner, dict) else ""))


def _recipe(name: str) -> str:
    return _SEED.sub("", _STAMP.sub("", name))
