"""Whether a worker is to blame for chunks of which every trial failed: it is where other workers can play them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mage.errors import ConfigError, InexactError, PlayError, RecordError
from mage.league.matches import Outcome
from mage.types import Failure

_MOST = 300
"""Characters of an error's text that are kept."""
MIN_FAILED = 4
"""Trials, in whole chunks and one after the other, that a worker must have failed before it is to blame."""
_OF_TRIALS = {kind.__name__ for kind in (ConfigError, InexactError, PlayError, RecordError)}
"""Errors of a world or a player, which are raised wherever the trial is played."""


class AllFailedError(Exception):
    """All trials of a chunk failed, and another worker may be able to play them; says why in one line."""


class Blame:
    """Counts, for each worker, the trials of whole chunks that failed since it last played one."""

    def __init__(self) -> None:
        self._failed: dict[int, int] = {}
        self._blamed: dict[int, str] = {}

    def note_failed(self, number: int, num_trials: int) -> None:
        """All trials of a chunk failed on a worker."""
        self._failed[number] = self.num_failed(number) + num_trials

    def note_played(self, number: int, failed_on: Iterable[tuple[int, str]]) -> None:
        """A worker has played a chunk; it failed before on others, whose numbers and errors are given."""
        self.forget(number)
        for other, why in failed_on:
            if (num := self.num_failed(other)) >= MIN_FAILED:
                self._blamed[other] = f"{num} trials in a row failed, and another worker could play them: {why}"

    def num_failed(self, number: int) -> int:
        """Trials that failed on a worker since it last played a chunk."""
        return self._failed.get(number, 0)

    def why(self, number: int) -> str | None:
        """Why a worker is to blame, or None where it is not."""
        return self._blamed.get(number)

    def forget(self, number: int) -> None:
        """A worker can play, or is a new process."""
        self._failed.pop(number, None)
        self._blamed.pop(number, None)


def doubt(outcomes: Sequence[Outcome]) -> str | None:
    """Why no trial of a chunk was played, where one failed by an error that may be the worker's; else None."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    own = next((failure for failure in failures if failure.error not in _OF_TRIALS), None)
    if own is None or len(failures) < len(outcomes):
        return None
    return " ".join(f"{own.error}: {own.message}".split())[:_MOST]
