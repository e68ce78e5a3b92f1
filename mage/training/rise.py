"""The trial that a finished run ends on: of all trials of the final evaluation, the one whose scores rise most."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from mage.files import BAD_JSON, write_atomically
from mage.types import Failure, Trial

CHOSEN_TRIAL = "chosen_trial.json"


class ChosenTrial(msgspec.Struct, frozen=True):
    """A trial that was chosen because of its scores, and what it was chosen from."""

    trial: Trial
    num_rising: int
    """Trials whose last score is above the first."""
    num_trials: int


class RisingTrials:
    """Chooses while trials are played.

    Trials that rise with each episode come first, and among them those that lose the first and win the second.
    """

    def __init__(self) -> None:
        self._best: tuple[bool, bool, float] | None = None
        self._trial: Trial | None = None
        self._num_rising = self._num_trials = 0

    def add(self, outcomes: Sequence[Trial | Failure]) -> None:
        """Consider the trials among the outcomes; of equals the first is kept."""
        for trial in (outcome for outcome in outcomes if isinstance(outcome, Trial)):
            scores = trial.scores
            self._num_trials += 1
            if scores[-1] <= scores[0]:
                continue
            self._num_rising += 1
            is_steady = all(one < next_one for one, next_one in pairwise(scores))
            rank = (is_steady, is_steady and scores[0] < 0 < scores[1], scores[-1] - scores[0])
            if self._best is None or rank > self._best:
                self._best, self._trial = rank, trial

    def write(self, folder: Path) -> None:
        """Write the chosen trial to a run; where none rises, remove that of an earlier end of the run."""
        if self._trial is None:
            (folder / CHOSEN_TRIAL).unlink(missing_ok=True)
            return
        chosen = ChosenTrial(self._trial, self._num_rising, self._num_trials)
        write_atomically(folder / CHOSEN_TRIAL, msgspec.json.encode(chosen))


def read_chosen(folder: Path) -> ChosenTrial | None:
    """The trial that was chosen in a run; None where there is none that can be read."""
    try:
        return msgspec.json.decode((folder / CHOSEN_TRIAL).read_bytes(), type=ChosenTrial)
    except (OSError, *BAD_JSON):
        return None
