"""All that can be read of the runs below a directory: one method for each question that the pages ask."""

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
from mage.files import read_lines
from mage.league.report import LEAGUE, LeagueReport, read_league
from mage.runs.credit import read_credit
from mage.runs.pairs import Pair, pairs_among, step_of
from mage.runs.store import RUN, TOKENIZER, read_info
from mage.runs.wording import seat_names
from mage.types import Failure, Trial
from mage.view.read.bounds import Bounds
from mage.view.read.curves import MAX_POINTS, Curves
from mage.view.read.folder import NASHCONV, Folder, Location, NotFoundError
from mage.view.read.opponent_text import in_words, worded_game
from mage.view.read.reports import bounds_of, evaluation_files
from mage.view.read.run_summary import CREDIT, EVENTS, FILES, RunSummaries, RunSummary
from mage.view.read.status import CHECKPOINTS, Status, checkpoint_name, checkpoint_steps
from mage.view.read.tokens import PLAIN, Reader, is_plain, tokenizer_reader
from mage.view.read.trial_index import TrialFilter, TrialIndex
from mage.view.read.trial_json import drawn_trial

T = TypeVar("T")

_NUM_SHELVES = 4
_NUM_CURVES = 32
_MAX_EVENTS = 1000
_MAX_PAIRS = 200


class RunStore:
    """Reads; never writes. Requests come from several threads and are answered one after the other."""

    def __init__(self, root: Path, bounds: Bounds | None = None) -> None:
        self.folder = Folder(root)
        self._bounds = bounds
        """Who calculates the bounds of runs that were not judged yet; without it they have none."""
        self._cards = RunSummaries()
        self._shelves: OrderedDict[str, TrialIndex] = OrderedDict()
        self._curves: OrderedDict[str, Curves] = OrderedDict()
        self._lock = RLock()
        self._listed: tuple[float, list[RunSummary]] = (-inf, [])

    def runs(self, max_age_s: float = 0.0) -> list[RunSummary]:
        """The cards of all runs, newest first; made anew unless some are at hand that are not too old."""
        with self._lock:
            made, cards = self._listed
            if monotonic() - made >= max_age_s:
                found = [self._cards.card(place) for place in self.folder.places()]
                cards = sorted(found, key=lambda card: (card.updated, card.name), reverse=True)
                self._listed = (monotonic(), cards)
            return cards

    def card(self, identity: str) -> RunSummary:
        """The card of one run."""
        with self._lock:
            return self._cards.card(self.folder.find(identity))

    def run(self, identity: str) -> Mapping[str, Any]:
        """Everything about one run but its trials and figures; of a broken one what can be said."""
        with self._lock:
            place = self.folder.find(identity)
            card = self._cards.card(place)
            known: dict[str, Any] = msgspec.to_builtins(card)
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
                "children": children,
            }
            if card.status is Status.BROKEN:
                return known | nothing
            return known | nothing | self._details(place, card)

    def _details(self, place: Location, card: RunSummary) -> dict[str, Any]:
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
        is_running = card.status is Status.RUNNING
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
        }

    def metrics(self, identity: str, keys: Sequence[str] | None, after: int, points: int) -> Mapping[str, Any]:
        """Figures by step: those that are named, or all."""
        with self._lock:
            curves = self._curve(self._readable(identity))
            return curves.series(curves.keys if keys is None else keys, after, min(points, MAX_POINTS))

    def trials(self, identity: str, wanted: TrialFilter, offset: int, limit: int) -> Mapping[str, Any]:
        """A page of thin summaries, and what they can be filtered by."""
        with self._lock:
            place = self._readable(identity)
            trial_index = self._trial_index(place)
            total, rows = trial_index.rows(wanted, offset, limit)
            trains = place.has(RUN) and read_info(place.path).kind == "train"
            for row in rows:
                row["step"] = trial_index.step(row["number"]) if trains else None
                row["about"] = [in_words(name, row["world"]) for name in row["opponents"]]
            return {"total": total, "rows": rows, **trial_index.values()}

    def trial(self, identity: str, number: int) -> Mapping[str, Any]:
        """One trial for drawing."""
        with self._lock:
            place = self._readable(identity)
            trial_index = self._trial_index(place)
            outcome = trial_index.trial(number)
            place.check(CREDIT)
            credit = read_credit(place.path, number) if isinstance(outcome, Trial) else None
            readers = [self._reader(place, name) for name in seat_names(outcome)]
            split, arm = trial_index.arm(number) or (None, None)
        drawn = drawn_trial(outcome, readers, credit, _rules(outcome))
        drawn["about"] = [in_words(name, outcome.task.world) for name in drawn["names"]]
        numbers = {"number": number, "run": place.id, "split": split, "arm": arm, "num_trials": len(trial_index)}
        return {**numbers, **drawn, "step": drawn["step"] if drawn["step"] is not None else step_of(outcome)}

    def evaluation(self, identity: str, name: str) -> bytes:
        """A report as it is on file."""
        with self._lock:
            place = self.folder.find(identity)
            files = evaluation_files(place)
            if name not in files:
                raise NotFoundError(f"{place.name} has no evaluation {name!r}; it has {', '.join(files) or 'none'}")
            content = place.file(*files[name]).read_bytes()
        try:
            msgspec.json.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise RecordError(f"the evaluation {name!r} of {place.name} cannot be read: {error}") from None
        return content

    def pairs(self, identity: str) -> list[Mapping[str, Any]]:
        """Tasks that were played with the weights of several steps, each with one trial for each step."""
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

    def _readable(self, identity: str) -> Location:
        """A run that can be read, or one line on why it cannot."""
        place = self.folder.find(identity)
        place.check(*FILES)
        if place.has(RUN):
            read_info(place.path)
        elif not place.has(NASHCONV) and self._cards.card(place).status is Status.BROKEN:
            raise RecordError(self._cards.card(place).why)
        return place

    def _trial_index(self, place: Location) -> TrialIndex:
        trial_index = _kept(self._shelves, place, TrialIndex, _NUM_SHELVES)
        trial_index.read()
        return trial_index

    def _curve(self, place: Location) -> Curves:
        curves = _kept(self._curves, place, Curves, _NUM_CURVES)
        curves.read()
        return curves

    def _reader(self, place: Location, name: str) -> Reader | None:
        """Who reads the tokens of somebody who played in a run."""
        if is_plain(name):
            return PLAIN
        for run in self._origins(place, name):
            saved = [(CHECKPOINTS, checkpoint_name(step)) for step in reversed(checkpoint_steps(run))]
            for folder in ((TOKENIZER,), *saved):
                with suppress(RecordError, NotFoundError):  # a trial without the text of its tokens is still a trial
                    return tokenizer_reader(run.file(*folder, "tokenizer.json"))
        return None

    def _origins(self, place: Location, name: str) -> list[Location]:
        """The train runs that a model may come from, the likeliest first."""
        config = read_info(place.path).config if place.has(RUN) else {}
        seats = config.get("seats")
        sat = [s for s in seats if isinstance(s, dict) and s.get("name") == name] if isinstance(seats, list) else []
        names = [*(str(seat.get("run")) for seat in sat), name.split("/")[0]]
        if isinstance(agent := config.get("agent"), str):
            names.append(Path(agent).parent.parent.name if "/" in agent else agent)
        parent = None if place.parent is None else self.folder.find(place.parent)
        found = [self.folder.named(name) for name in names]
        return [run for run in (place, parent, *found) if run is not None]


def _kept(kept: OrderedDict[str, T], place: Location, make: Callable[[Location], T], num: int) -> T:
    """What is known of a run; of too many the one that was asked for longest ago is forgotten."""
    known = kept.pop(place.id, None)
    if known is None:
        known = make(place)
    kept[place.id] = known
    while len(kept) > num:
        kept.popitem(last=False)
    return known


def _rules(outcome: Trial | Failure) -> str | None:
    """The rules as the agent was told them, where this version of mage has words for the game."""
    game = worded_game(outcome.task.world)
    return None if game is None else game.rules_for(outcome.task.seat)


def _pair(pair: Pair) -> Mapping[str, Any]:
    task = {"world": pair.world, "opponents": list(pair.opponents), "seat": pair.seat, "seed": str(pair.seed)}
    return {"task": task, "trials": list(pair.trials), "steps": list(pair.steps)}
