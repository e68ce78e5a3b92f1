"""Exact bounds for runs without an evaluation, computed by `python -m mage.view.read.bounds QUERY SECONDS`.

They take seconds per split, so they are computed once and in the background, one split after the other; one that takes
too long is given up. Only splits that come with mage or that are stored in a run are computed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mage.errors import MageError
from mage.evaluation.splits import POPULATION, load_split, make_split
from mage.spec import parse_spec
from mage.view.read.folder import Location
from mage.view.read.run_summary import int_or_zero
from mage.view.read.safe_world import is_safe

_ENDING = ".json"
_LIMIT_S = 300
"""Most processor time for one split."""


class BoundsQuery(msgspec.Struct, frozen=True):
    """A split and how it is played."""

    split: str
    """A name, or the path of a file in a run."""
    episodes: int
    seats: tuple[int, ...]
    world: str = ""
    members: tuple[str, ...] = ()
    """The world and the levels of the split `population` of a world of one seat."""


class Bounds:
    """Computes bounds in the background and caches them; `of` returns at once what is known so far."""

    def __init__(self, limit_s: int = _LIMIT_S) -> None:
        self._limit_s = limit_s
        self._known: dict[BoundsQuery, Mapping[str, Any] | None] = {}
        """None for those that are waited for, and for those that failed."""
        self._waiting: deque[BoundsQuery] = deque()
        """The first is the one that the process computes."""
        self._process: subprocess.Popen[bytes] | None = None

    def of(self, place: Location, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """The bounds known so far of a train run's splits, by split name."""
        self._collect()
        queries = dict(_queries(place, config))
        new = [query for query in queries.values() if query not in self._known]
        self._known |= dict.fromkeys(new)
        self._waiting.extend(new)
        self._start()
        found = {name: self._known.get(query) for name, query in queries.items()}
        return {name: bounds for name, bounds in found.items() if bounds is not None}

    def close(self) -> None:
        """Stop the subprocess."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _start(self) -> None:
        """Start the process of the first query that waits, if none runs."""
        if self._waiting and self._process is None:
            command = [
                sys.executable,
                "-m",
                __name__,
                msgspec.json.encode(self._waiting[0]).decode(),
                str(self._limit_s),
            ]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def _collect(self) -> None:
        """Store the result of the process; a failed query is not repeated."""
        if self._process is None or self._process.poll() is None:
            return
        said, _ = self._process.communicate()
        query = self._waiting.popleft()
        if said.strip():
            self._known[query] = msgspec.json.decode(said, type=dict[str, Any] | None)
        self._process = None


def _queries(place: Location, config: Mapping[str, Any]) -> Iterator[tuple[str, BoundsQuery]]:
    """The splits that a run is evaluated on or draws its opponents from, by name."""
    parts = (config.get(name) for name in ("evaluation", "population", "trial"))
    evaluation, population, trial = (part if isinstance(part, dict) else {} for part in parts)
    splits, seats = evaluation.get("splits"), trial.get("seats")
    names = [*(splits if isinstance(splits, list) else ()), population.get("split")]
    numbers = tuple(int_or_zero(seat) for seat in seats) if isinstance(seats, list) else ()
    for name in dict.fromkeys(name for name in names if isinstance(name, str) and name):
        stem = name.rpartition("/")[2].removesuffix(_ENDING)
        own = f"{stem}{_ENDING}"
        if name == POPULATION:
            yield from _population(config, population, int_or_zero(trial.get("episodes")))
        elif not name.endswith(_ENDING):
            yield stem, BoundsQuery(name, int_or_zero(trial.get("episodes")), numbers)
        elif place.has(f"splits/{own}"):
            yield stem, BoundsQuery(str(place.file("splits", own)), int_or_zero(trial.get("episodes")), numbers)


def _population(
    config: Mapping[str, Any], population: Mapping[str, Any], episodes: int
) -> Iterator[tuple[str, BoundsQuery]]:
    """The levels that are trained on, where they are listed with equal weights and the world can be loaded safely."""
    world, members = config.get("world"), population.get("members")
    is_plain = not population.get("split") and not population.get("weights")
    if isinstance(world, str) and is_plain and is_safe(parse_spec(world)):
        levels = tuple(map(str, members)) if isinstance(members, list) else ()
        yield POPULATION, BoundsQuery(POPULATION, episodes, (0,), world, levels)


def answer(query: BoundsQuery) -> Mapping[str, float | None] | None:
    """The exact values of a split, averaged over seats; None if there is no such split."""
    from mage.evaluation.suite.evaluate import split_references
    from mage.view.read.reports import averaged

    try:
        if query.split == POPULATION:
            split = make_split(POPULATION, "", query.world, query.members, held_out=False)
        else:
            split = load_split(query.split)
        found = [exact for _, exact in split_references(split, query.seats, split.episodes or query.episodes)]
    except MageError:
        return None
    return averaged(
        [exact.memoryless for exact in found],
        [None if exact.myopic is None else exact.myopic.high for exact in found],
        [exact.bayes_last for exact in found],
        [exact.equilibrium for exact in found],
    )


def main() -> None:
    """Print the answer to the query in the arguments; the system ends a process that takes too long."""
    os.nice(10)  # training has priority
    limit_s = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    print(msgspec.json.encode(answer(msgspec.json.decode(sys.argv[1], type=BoundsQuery))).decode())


if __name__ == "__main__":
    main()
