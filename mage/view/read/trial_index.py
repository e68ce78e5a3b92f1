"""The trial index of a run: summaries with filters and pages; whole trials are read one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from mage.errors import RecordError
from mage.files import BAD_JSON
from mage.runs.decode_trial import decode_outcome
from mage.runs.index import INDEX, TRIALS, Summary, scan
from mage.runs.same_task import step_of
from mage.types import Failure, Trial
from mage.view.read.folder import Location, NotFoundError
from mage.view.read.run_summary import ARMS
from mage.view.read.tail import Tail

MAX_ROWS = 500
"""Most summaries in one response."""
_MAX_OPPONENTS = 200


class _Arm(msgspec.Struct, frozen=True):
    split: str
    arm: str


class TrialFilter(msgspec.Struct, frozen=True):
    """A filter of trials; None matches any."""

    opponent: str | None = None
    """A part of the opponents' names; in a world of one seat a level, or a part of one where there is none of it."""
    seat: int | None = None
    arm: str | None = None
    split: str | None = None


class TrialIndex:
    """Reads the index file of a run incrementally; if it does not fit the trials, `scan` reads them all."""

    def __init__(self, place: Location) -> None:
        self._place = place
        self._summaries: list[Summary] = []
        self._arms: list[_Arm] = []
        self._steps: dict[tuple[int, int], int | None] = {}
        self._size = -1
        self._index = Tail(place.path / INDEX)
        self._arm_lines = Tail(place.path / ARMS)
        self.damage: tuple[str, ...] = ()
        """Descriptions of broken or lost trials."""

    def read(self) -> None:
        """Read the lines that were added."""
        self._place.check(TRIALS, INDEX, ARMS)
        try:
            self._read_summaries()
            self._read_arms()
        except OSError as error:
            raise RecordError(f"cannot read {self._place.name}: {error.strerror or error}") from None

    def __len__(self) -> int:
        return len(self._summaries)

    def rows(self, wanted: TrialFilter, offset: int, limit: int) -> tuple[int, list[dict[str, Any]]]:
        """The number of trials that match the filter, and one page of them."""
        levels = {s.level for s in self._summaries if s.level}
        found = [s for s in self._summaries if self._is_wanted(s, wanted, wanted.opponent in levels)]
        return len(found), [self._row(s) for s in found[offset : offset + min(limit, MAX_ROWS)]]

    def values(self) -> dict[str, list[Any]]:
        """The values of the filters; opponents by name without parameters if there are many; levels among them."""
        arms = self._arms[: len(self._summaries)]
        opponents = {", ".join(s.opponents) or s.level for s in self._summaries}
        if len(opponents) > _MAX_OPPONENTS:
            opponents = {name.partition("(")[0] for name in opponents}
        return {
            "opponents": sorted(opponents)[:_MAX_OPPONENTS],
            "seats": sorted({s.seat for s in self._summaries}),
            "arms": sorted({arm.arm for arm in arms}),
            "splits": sorted({arm.split for arm in arms}),
        }

    def summary(self, number: int) -> Summary:
        """The summary of one trial."""
        low, high = 0, len(self._summaries)
        while low < high:
            middle = (low + high) // 2
            if self._summaries[middle].number < number:
                low = middle + 1
            else:
                high = middle
        if low == len(self._summaries) or self._summaries[low].number != number:
            raise NotFoundError(f"{self._place.name} has no readable trial {number}; it has {len(self)} trials")
        return self._summaries[low]

    def trial(self, number: int) -> Trial | Failure:
        """One trial or failure, read by its offset."""
        summary = self.summary(number)
        with self._place.file(TRIALS).open("rb") as file:
            file.seek(summary.offset)
            try:
                return decode_outcome(file.read(summary.length))
            except BAD_JSON:
                raise RecordError(f"{TRIALS} of {self._place.name}: trial {number} cannot be read") from None

    def step(self, number: int) -> int | None:
        """The step of the weights of a trial, cached."""
        summary = self.summary(number)
        place = (summary.offset, summary.length)
        if place not in self._steps:
            try:
                self._steps[place] = step_of(self.trial(number))
            except RecordError:
                return None  # the trial's own page shows why it cannot be read
        return self._steps[place]

    def arm(self, number: int) -> tuple[str, str] | None:
        """The split and the arm of a trial in an evaluation, or None."""
        return (self._arms[number].split, self._arms[number].arm) if number < len(self._arms) else None

    def tasks(self) -> Iterator[tuple[tuple[Any, ...], Summary]]:
        """All trials without failures, each with the key of its task."""
        for s in self._summaries:
            if s.error is None:
                yield (s.world, s.opponents, s.level, s.seat, s.seed), s

    def _read_summaries(self) -> None:
        size = (self._place.path / TRIALS).stat().st_size if self._place.has(TRIALS) else 0
        if self._size >= 0 and not self._index.is_restarted() and self._follow(size):
            return
        self._index = Tail(self._place.path / INDEX)
        self._index.is_restarted()
        for _ in self._index.lines():
            pass
        found = scan(self._place.path)
        self._summaries, self.damage, self._size = list(found.summaries), found.damage, found.end
        self._steps = {}

    def _follow(self, size: int) -> bool:
        """Add the new summaries of the index; False if they do not continue the known ones."""
        if size < self._size or (size > self._size and not self._place.has(INDEX)):
            return False
        end = self._size
        for line in self._index.lines():
            try:
                summary = _summaries.decode(line)
            except BAD_JSON:
                return False
            if summary.end <= end:
                continue  # a scan has found it before it was in the index
            if summary.offset != end or summary.end > size:
                return False
            self._summaries.append(summary)
            end = summary.end
        self._size = end
        return True

    def _read_arms(self) -> None:
        if self._arm_lines.is_restarted():
            self._arms = []
        for line in self._arm_lines.lines():
            try:
                self._arms.append(_arms.decode(line))
            except BAD_JSON:
                raise RecordError(f"{ARMS} of {self._place.name} cannot be read") from None

    def _is_wanted(self, summary: Summary, wanted: TrialFilter, is_level: bool) -> bool:
        if wanted.seat is not None and summary.seat != wanted.seat:
            return False
        if wanted.opponent is not None:
            played = (", ".join(summary.opponents) or summary.level).casefold()
            if wanted.opponent.casefold() not in played or (is_level and wanted.opponent != summary.level):
                return False
        if wanted.arm is None and wanted.split is None:
            return True
        split, arm = self.arm(summary.number) or (None, None)
        return wanted.arm in (None, arm) and wanted.split in (None, split)

    def _row(self, summary: Summary) -> dict[str, Any]:
        row: dict[str, Any] = msgspec.to_builtins(summary)
        del row["offset"], row["length"]
        row["seed"] = str(summary.seed)  # it may exceed the integers of JavaScript
        row["split"], row["arm"] = self.arm(summary.number) or (None, None)
        return row


_summaries = msgspec.json.Decoder(Summary)
_arms = msgspec.json.Decoder(_Arm)
