"""The health of a run's workers, read incrementally from timings.jsonl and workers.jsonl."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from mage.errors import RecordError
from mage.files import BAD_JSON
from mage.training.workers.health import WORKERS, Incident, IncidentKind
from mage.view.read.folder import Location
from mage.view.read.run_summary import TIMINGS, int_or_zero, thin
from mage.view.read.tail import Tail

_NUMBER = re.compile(r"worker_([1-9][0-9]{0,5})/(\w+)")
_RECENT = 10
"""Steps that recent numbers are means over."""
_SPARK = 60
_MAX_INCIDENTS = 50


class State(StrEnum):
    """How a worker stands, by the last line about it."""

    ALIVE = "alive"
    SLOW = "slow"
    BUILDING = "building"
    """Not built yet, or built again after it died."""
    BROKEN = "broken"
    """Built again after it failed what another worker could play."""
    UNUSED = "unused"
    """The run goes on with fewer workers."""


_THERE = (State.ALIVE, State.SLOW)
_STATES = {IncidentKind.DIED: State.BUILDING, IncidentKind.BROKEN: State.BROKEN, IncidentKind.SLOW: State.SLOW}


class WorkerStanding(msgspec.Struct, frozen=True):
    """One worker."""

    worker: int
    state: State
    since: str
    """Time of the last line about it."""
    host: str | None
    pid: int | None
    trials: int
    """Over the whole run, like `deaths` and `broken`."""
    deaths: int
    broken: int
    """How often it was found broken, which is no death."""
    busy_share: float | None
    """A mean over recent steps, like `trial_s`."""
    trial_s: float | None
    host_gib: float | None
    spark: tuple[float | None, ...]
    """Seconds of a trial over the steps."""


class WorkerReport(msgspec.Struct, frozen=True):
    """The workers of a run."""

    planned: int
    alive: int
    deaths: int
    broken: int
    replayed: int
    trials_per_s: float | None
    """In the last step."""
    workers: tuple[WorkerStanding, ...]
    incidents: tuple[Incident, ...]
    """Workers that died, were broken or slow, newest first."""


def has_workers(place: Location, config: Mapping[str, Any]) -> bool:
    """Whether a run has workers, or had some before it was resumed."""
    return num_planned(config) > 0 or place.has(WORKERS)


def num_planned(config: Mapping[str, Any]) -> int:
    """The number of workers of a config."""
    rollout = config.get("rollout")
    return int_or_zero(rollout.get("workers")) if isinstance(rollout, dict) else 0


@dataclass
class _Played:
    """What timings.jsonl says, by worker."""

    trials: Counter[int] = field(default_factory=Counter)
    busy_shares: defaultdict[int, deque[float]] = field(default_factory=lambda: defaultdict(_recent))
    """Of recent steps."""
    trial_s: defaultdict[int, list[float | None]] = field(default_factory=lambda: defaultdict(list))
    gib: dict[int, float] = field(default_factory=dict)
    trials_per_s: float | None = None

    def add(self, timings: Mapping[str, Any]) -> None:
        """Add the numbers of a step."""
        self.trials_per_s = _number(timings.get("trials_per_s"))
        for key, value in timings.items():
            found, number = _NUMBER.fullmatch(key), _number(value)
            if found is None or number is None:
                continue
            worker, name = int(found[1]), found[2]
            if name == "trials":
                self.trials[worker] += round(number)
                self.trial_s[worker].append(_number(timings.get(f"worker_{worker}/trial_s")))
            elif name == "busy_share":
                self.busy_shares[worker].append(number)
            elif name == "host_gib":
                self.gib[worker] = number


@dataclass
class _Happened:
    """What workers.jsonl says, by worker."""

    last: dict[int, Incident] = field(default_factory=dict)
    built: dict[int, Incident] = field(default_factory=dict)
    deaths: Counter[int] = field(default_factory=Counter)
    broken: Counter[int] = field(default_factory=Counter)
    replayed: int = 0
    kept: deque[Incident] = field(default_factory=lambda: deque(maxlen=_MAX_INCIDENTS))
    """Newest first."""

    def add(self, incident: Incident) -> None:
        """Add a line."""
        self.last[incident.worker] = incident
        if incident.what is IncidentKind.BUILT:
            self.built[incident.worker] = incident
        elif incident.what in (IncidentKind.DIED, IncidentKind.BROKEN):
            ends = self.deaths if incident.what is IncidentKind.DIED else self.broken
            ends[incident.worker] += 1
            self.replayed += incident.trials or 0
        if incident.what in _STATES:
            self.kept.appendleft(incident)


class WorkerLog:
    """What the files of a run say about its workers."""

    def __init__(self, place: Location) -> None:
        self._place = place
        self._begin()

    def _begin(self) -> None:
        self._timings, self._incidents = Tail(self._place.path / TIMINGS), Tail(self._place.path / WORKERS)
        self._played, self._happened = _Played(), _Happened()

    def read(self) -> None:
        """Catch up with the files."""
        self._place.check(TIMINGS, WORKERS)
        if self._timings.is_restarted():
            self._played = _Played()
        if self._incidents.is_restarted():
            self._happened = _Happened()
        name = TIMINGS
        try:
            for line in self._timings.lines():
                self._played.add(msgspec.json.decode(line, type=dict[str, Any]))
            name = WORKERS
            for line in self._incidents.lines():
                self._happened.add(msgspec.json.decode(line, type=Incident))
        except BAD_JSON as error:
            self._begin()  # so that it is said again
            raise RecordError(f"{name} of {self._place.name} cannot be read: {error}") from None

    def report(self, planned: int) -> WorkerReport:
        """The workers of a run that is to have so many now."""
        played, happened = self._played, self._happened
        workers = tuple(self._standing(n, planned) for n in sorted(happened.last.keys() | played.trials.keys()))
        return WorkerReport(
            planned=planned,
            alive=sum(worker.state in _THERE for worker in workers),
            deaths=happened.deaths.total(),
            broken=happened.broken.total(),
            replayed=happened.replayed,
            trials_per_s=played.trials_per_s,
            workers=workers,
            incidents=tuple(happened.kept),
        )

    def _standing(self, number: int, planned: int) -> WorkerStanding:
        played, happened = self._played, self._happened
        last, built = happened.last.get(number), happened.built.get(number)
        state = _STATES.get(last.what, State.ALIVE) if last is not None else State.BUILDING
        if number > planned:
            state = State.UNUSED
        trial_s = played.trial_s.get(number, [])
        return WorkerStanding(
            worker=number,
            state=state,
            since=last.time if last is not None else "",
            host=built.host if built is not None else None,
            pid=built.pid if built is not None else None,
            trials=played.trials[number],
            deaths=happened.deaths[number],
            broken=happened.broken[number],
            busy_share=_mean(played.busy_shares.get(number, ())),
            trial_s=_mean(trial_s[-_RECENT:]),
            host_gib=played.gib.get(number) if state in _THERE else None,
            spark=thin(trial_s, _SPARK),
        )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e15 else None


def _recent() -> deque[float]:
    return deque(maxlen=_RECENT)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
