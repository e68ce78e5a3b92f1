"""Exact bounds for runs that were not judged yet: `python -m mage.view.read.bounds` reads questions and prints answers.

They take seconds to calculate, once for each split: in a process of their own, while the pages show what is known
already. Only splits that come with mage are asked for, or those that a run keeps with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mage.errors import MageError
from mage.view.read.folder import Location
from mage.view.read.run_summary import whole

_ENDING = ".json"


class BoundsQuery(msgspec.Struct, frozen=True):
    """A split and how it is played."""

    split: str
    """A name, or the path of a file in a run."""
    episodes: int
    seats: tuple[int, ...]


class Bounds:
    """Has calculated what is asked for, and remembers it; a question is answered at once with what is known by then."""

    def __init__(self) -> None:
        self._known: dict[BoundsQuery, Mapping[str, Any] | None] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._asked: list[BoundsQuery] = []

    def of(self, place: Location, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """The bounds of a train run's splits that are known by now, by the names of the splits."""
        self._take()
        questions = dict(_questions(place, config))
        new = [question for question in questions.values() if question not in self._known]
        if new and self._process is None:
            self._ask(new)
        found = {name: self._known.get(question) for name, question in questions.items()}
        return {name: bounds for name, bounds in found.items() if bounds is not None}

    def close(self) -> None:
        """Stop calculating."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _ask(self, questions: list[BoundsQuery]) -> None:
        command = [sys.executable, "-m", __name__, msgspec.json.encode(questions).decode()]
        self._asked = questions
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def _take(self) -> None:
        """Take up what the process has found; what it could not find is not asked for again."""
        if self._process is None or self._process.poll() is None:
            return
        said, _ = self._process.communicate()
        found = [msgspec.json.decode(line, type=dict[str, Any] | None) for line in said.splitlines()]
        self._known |= dict.fromkeys(self._asked) | dict(zip(self._asked, found, strict=False))
        self._process = None


def _questions(place: Location, config: Mapping[str, Any]) -> Iterator[tuple[str, BoundsQuery]]:
    """The splits that a run is judged by or draws its opponents from, by name."""
    parts = (config.get(name) for name in ("evaluation", "population", "trial"))
    evaluation, population, trial = (part if isinstance(part, dict) else {} for part in parts)
    splits, seats = evaluation.get("splits"), trial.get("seats")
    names = [*(splits if isinstance(splits, list) else ()), population.get("split")]
    numbers = tuple(whole(seat) for seat in seats) if isinstance(seats, list) else ()
    for name in dict.fromkeys(name for name in names if isinstance(name, str) and name):
        stem = name.rpartition("/")[2].removesuffix(_ENDING)
        own = f"{stem}{_ENDING}"
        if not name.endswith(_ENDING):
            yield stem, BoundsQuery(name, whole(trial.get("episodes")), numbers)
        elif place.has(f"splits/{own}"):
            yield stem, BoundsQuery(str(place.file("splits", own)), whole(trial.get("episodes")), numbers)


def answer(question: BoundsQuery) -> Mapping[str, float | None] | None:
    """The exact figures of a split, averaged over seats; None where there is no such split."""
    from mage.evaluation.splits import load_split
    from mage.evaluation.suite.evaluate import split_references
    from mage.view.read.reports import averaged

    try:
        split = load_split(question.split)
        found = [exact for _, exact in split_references(split, question.seats, split.episodes or question.episodes)]
    except MageError:
        return None
    return averaged(
        [exact.memoryless for exact in found],
        [exact.bayes_last for exact in found],
        [exact.equilibrium for exact in found],
    )


def main() -> None:
    """Answer the questions that were given, a line for each."""
    os.nice(10)  # whoever trains here comes first
    for question in msgspec.json.decode(sys.argv[1], type=tuple[BoundsQuery, ...]):
        print(msgspec.json.encode(answer(question)).decode(), flush=True)


if __name__ == "__main__":
    main()
