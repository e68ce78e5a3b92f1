"""The run store: reads the runs below a directory, one method for each request of the pages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import Any, TypeVar

import msgspec

from mage.errors import RecordError
from mage.files import BAD_JSON, read_lines
from mage.league.report import LEAGUE, LeagueReport, read_league
from mage.runs.credit import read_credit
from mage.runs.same_task import Pair, pairs_among, step_of
from mage.runs.store import RUN, TOKENIZER, read_info
from mage.runs.wording import seat_names
from mage.types import Trial
from mage.view.read.bounds import Bounds
from mage.view.read.curves import MAX_POINTS, Curves
from mage.view.read.folder import NASHCONV, Folder, Location, NotFoundError
from mage.view.read.opponent_text import describe_opponent, describe_opponents_of
from mage.view.read.reports import bounds_of, evaluation_files
from mage.view.read.run_summary import CREDIT, EVENTS, FILES, RunSummaries, RunSummary
from mage.view.read.safe_world import rules_of
from mage.view.read.status import CHECKPOINTS, Status, checkpoint_name, checkpoint_steps
from mage.view.read.tokens import BYTES, Reader, tokenizer_reader, uses_bytes
from mage.view.read.trial_index import TrialFilter, TrialIndex
from mage.view.read.trial_json import trial_json
from mage.view.read.worker_report import WorkerLog, WorkerReport, has_workers, num_planned

T = TypeVar("T")

_NUM_INDEXES = 4
_NUM_CURVES = 32
_MAX_EVENTS = 1000
_MAX_PAIRS = 200


class RunStore:
    """Read-only and thread-safe: requests are served one after the other."""

    def __init__(self, root: Path, bounds: Bounds | None = None) -> None:
        self.folder = Folder(root)
        self._bounds = bounds
        """Computes the bounds of runs without an evaluation; without it they have none."""
        self._summaries = RunSummaries()
        self._trial_indexes: OrderedDict[str, TrialIndex] = OrderedDict()
        self._curves: OrderedDict[str, Curves] = OrderedDict()
        self._worker_logs: OrderedDict[str, WorkerLog] = OrderedDict()
        self._lock = RLock()
        self._listed: tuple[float, list[RunSummary]] = (-inf, [])

    def runs(self, max_age_s: float = 0.0) -> list[RunSummary]:
        """The summaries of all runs, newest first; a listing of at most `max_age_s` is reused."""
        with self._lock:
            made, summaries = self._listed
            if monotonic() - made >= max_age_s:
                found = [self._summaries.summary(place) for place in self.folder.places()]
                summaries = sorted(found, key=lambda summary: (summary.updated, summary.name), reverse=True)
                self._listed = (monotonic(), summaries)
            return summaries

    def summary(self, identity: str) -> RunSummary:
        """The summary of one run."""
        with self._lock:
            return self._summaries.summary(self.folder.find(identity))

    def run(self, identity: str) -> Mapping[str, Any]:
        """Everything about one run except trials and metrics; only the summary if it is broken."""
        with self._lock:
            place = self.folder.find(identity)
            summary = self._summaries.summary(place)
            known: dict[str, Any] = msgspec.to_builtins(summary)
            children = [other.id for other in self.folder.places() if other.parent == identity]
            nothing: dict[str, Any] = {
                "config": {},
                "seed": None,
                "created": None,
                "versions": {},
                "changes": [],
                "events": [],
                "evaluations": [],
                "checkpoints": [],
                "bounds": {},
                "keys": [],
                "damage": [],
                "league": False,
                "workers": False,
                "children": children,
            }
            if summary.status is Status.BROKEN:
                return known | nothing
            return known | nothing | self._details(place, summary)

    def _details(self, place: Location, summary: RunSummary) -> dict[str, Any]:
        found: dict[str, Any] = {
            "evaluations": list(evaluation_files(place)),
            "checkpoints": checkpoint_steps(place),
            "bounds": bounds_of(place),
        }
        if not place.has(RUN):
            return found
        info = read_info(place.path)
        if self._bounds is not None and info.kind == "train":
            found["bounds"] = {**self._bounds.of(place, info.config), **found["bounds"]}
        trial_index = self._trial_index(place)
        is_running = summary.status is Status.RUNNING
        damage = [d for d in trial_index.damage if not (is_running and "still being written" in d)]
        return {
            **found,
            "config": dict(info.config),
            "seed": str(info.seed),
            "created": info.created,
            "versions": dict(info.versions),
            "changes": msgspec.to_builtins(info.changes),
            "events": list(read_lines(place.path / EVENTS))[-_MAX_EVENTS:],
            "keys": self._curve(place).keys,
            "damage": damage,
            "league": place.has(LEAGUE),
            "workers": info.kind == "train" and has_workers(place, info.config),
        }

    def metrics(self, identity: str, keys: Sequence[str] | None, after: int, points: int) -> Mapping[str, Any]:
        """Metrics by step: the given keys, or all."""
        with self._lock:
            curves = self._curve(self._readable(identity))
            return curves.series(curves.keys if keys is None else keys, after, min(points, MAX_POINTS))

    def trials(self, identity: str, wanted: TrialFilter, offset: int, limit: int) -> Mapping[str, Any]:
        """A page of trial summaries, and the values of the filters."""
        with self._lock:
            place = self._readable(identity)
            trial_index = self._trial_index(place)
            total, rows = trial_index.rows(wanted, offset, limit)
            trains = place.has(RUN) and read_info(place.path).kind == "train"
            for row in rows:
                row["step"] = trial_index.step(row["number"]) if trains else None
                row["about"] = [describe_opponent(name, row["world"]) for name in row["opponents"]]
            return {"total": total, "rows": rows, **trial_index.values()}

    def trial(self, identity: str, number: int) -> Mapping[str, Any]:
        """One trial as JSON for the pages."""
        with self._lock:
            place = self._readable(identity)
            trial_index = self._trial_index(place)
            outcome = trial_index.trial(number)
            place.check(CREDIT)
            credit = read_credit(place.path, number) if isinstance(outcome, Trial) else None
            readers = [self._reader(place, name) for name in seat_names(outcome)]
            split, arm = trial_index.arm(number) or (None, None)
        shown = trial_json(outcome, readers, credit, rules_of(outcome.task))
        shown["about"] = [describe_opponent(name, outcome.task.world) for name in shown["names"]]
        numbers = {"number": number, "run": place.id, "split": split, "arm": arm, "num_trials": len(trial_index)}
        return {**numbers, **shown, "step": shown["step"] if shown["step"] is not None else step_of(outcome)}

    def evaluation(self, identity: str, name: str) -> bytes:
        """The bytes of a report, with `about`: what each opponent in it does, in words."""
        with self._lock:
            place = self.folder.find(identity)
            files = evaluation_files(place)
            if name not in files:
                raise NotFoundError(f"{place.name} has no evaluation {name!r}; it has {', '.join(files) or 'none'}")
            content = place.file(*files[name]).read_bytes()
        try:
            report = msgspec.json.decode(content)
        except BAD_JSON as error:
            raise RecordError(f"{'/'.join(files[name])} of {place.name} cannot be read: {error}") from None
        about = describe_opponents_of(report)
        return msgspec.json.encode({**report, "about": about}) if about else content

    def pairs(self, identity: str) -> list[Mapping[str, Any]]:
        """Tasks played with the weights of several steps, with one trial for each step."""
        with self._lock:
            place = self._readable(identity)
            if not place.has(RUN) or read_info(place.path).kind != "train":
                return []
            trial_index = self._trial_index(place)
            found = pairs_among((summary for _, summary in trial_index.tasks()), trial_index.trial)
        return [_pair(pair) for pair in found[:_MAX_PAIRS]]

    def league(self, identity: str) -> LeagueReport:
        """The league of a run that has one."""
        with self._lock:
            place = self._readable(identity)
            if not place.has(LEAGUE):
                raise NotFoundError(f"{place.name} has no league")
            place.file(LEAGUE)
        return read_league(place.path)

    def workers(self, identity: str) -> WorkerReport:
        """The health of the workers of a run that has some."""
        with self._lock:
            place = self._readable(identity)
            config = read_info(place.path).config if place.has(RUN) else {}
            if not has_workers(place, config):
                raise NotFoundError(f"{place.name} has no workers")
            log = _cached(self._worker_logs, place, WorkerLog, _NUM_CURVES)
            log.read()
            return log.report(num_planned(config))

    def _readable(self, identity: str) -> Location:
        """The location of a run that can be read; raises if it cannot."""
        place = self.folder.find(identity)
        place.check(*FILES)
        if place.has(RUN):
            read_info(place.path)
        elif not place.has(NASHCONV) and self._summaries.summary(place).status is Status.BROKEN:
            raise RecordError(self._summaries.summary(place).why)
        return place

    def _trial_index(self, place: Location) -> TrialIndex:
        trial_index = _cached(self._trial_indexes, place, TrialIndex, _NUM_INDEXES)
        trial_index.read()
        return trial_index

    def _curve(self, place: Location) -> Curves:
        curves = _cached(self._curves, place, Curves, _NUM_CURVES)
        curves.read()
        return curves

    def _reader(self, place: Location, name: str) -> Reader | None:
        """The token reader of a player in a run; None if its tokenizer is not found."""
        if uses_bytes(name):
            return BYTES
        for run in self._origins(place, name):
            saved = [(CHECKPOINTS, checkpoint_name(step)) for step in reversed(checkpoint_steps(run))]
            for folder in ((TOKENIZER,), *saved):
                with suppress(RecordError, NotFoundError):  # the trial is shown without token texts
                    return tokenizer_reader(run.file(*folder, "tokenizer.json"))
        return None

    def _origins(self, place: Location, name: str) -> list[Location]:
        """The train runs that a model may come from, the most likely first."""
        config = read_info(place.path).config if place.has(RUN) else {}
        seats = config.get("seats")
        sat = [s for s in seats if isinstance(s, dict) and s.get("name") == name] if isinstance(seats, list) else []
        names = [*(str(seat.get("run")) for seat in sat), name.split("/")[0]]
        if isinstance(agent := config.get("agent"), str):
            names.append(Path(agent).parent.parent.name if "/" in agent else agent)
        parent = None if place.parent is None else self.folder.find(place.parent)
        found = [self.folder.named(name) for name in names]
        return [run for run in (place, parent, *found) if run is not None]


def _cached(kept: OrderedDict[str, T], place: Location, make: Callable[[Location], T], num: int) -> T:
    """The cached object of a run, with LRU eviction."""
    known = kept.pop(place.id, None)
    if known is None:
        known = make(place)
    kept[place.id] = known
    while len(kept) > num:
        kept.popitem(last=False)
    return known


def _pair(pair: Pair) -> Mapping[str, Any]:
    task = {"world": pair.world, "opponents": list(pair.opponents), "seat": pair.seat, "seed": str(pair.seed)}
    task |= {"level": pair.level} if pair.level else {}
    return {"task": task, "trials": list(pair.trials), "steps": list(pair.steps)}
