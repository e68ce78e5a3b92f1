"""Credit files: advantage and return of each turn of a kept trial, and the learner's log-probabilities of its tokens.

`credit.jsonl` has one line for each trial that a training run keeps, in the order of `trials.jsonl`. The file, and any
line of it, may be missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import msgspec

from mage.credit.steps import agent_turns
from mage.errors import RecordError
from mage.files import BAD_JSON
from mage.types import Phase, Trial

CREDIT = "credit.jsonl"


class CallCredit(msgspec.Struct, frozen=True):
    """The learner's values for the sampled tokens of one call; null where a token was forced."""

    logprobs: tuple[float | None, ...]
    """Before the update; the engine's are in the trial."""
    entropies: tuple[float | None, ...]
    """Over the allowed ids, divided by the maximum: 1 is uniform, 0 is deterministic."""


class TurnCredit(msgspec.Struct, frozen=True):
    """Advantage and return of one turn of the agent."""

    advantage: float | None
    """As used in the update; null for a turn that is never trained."""
    return_: float = msgspec.field(name="return")
    """Return from this turn on, minus penalties."""
    calls: tuple[CallCredit, ...]
    """One per call of the turn."""


class Credit(msgspec.Struct, frozen=True):
    """The credit of one trial."""

    trial: int
    """Its number, as in `trials.jsonl`."""
    step: int
    """Number of updates of the weights that played it."""
    trained: bool
    """Whether an update used it: false for showcases and dead groups."""
    turns: tuple[TurnCredit, ...]
    """The agent's turns in order of play: episode 0, reflection 0, episode 1, and so on."""


class EpisodeCredit(msgspec.Struct, frozen=True):
    """The credit of one episode and of the reflections that follow it."""

    plays: tuple[TurnCredit, ...]
    """Aligned with the agent's own turns in the episode."""
    reflections: tuple[TurnCredit, ...]


def read_credit(run: Path, number: int) -> Credit | None:
    """The credit of a trial, or None where the run has none; found by binary search in the file."""
    path = run / CREDIT
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            line = _find(file, path.stat().st_size, number)
            return None if line is None else msgspec.json.decode(line, type=Credit)
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror or error}") from None
    except BAD_JSON:
        raise RecordError(
            f"the credit of trial {number} in {path} cannot be read; delete the file to see the run without credit"
        ) from None


def by_episode(trial: Trial, credit: Credit) -> list[EpisodeCredit]:
    """The credit of a trial's turns, by episode."""
    turns = agent_turns(trial)
    fits = [[len(call.completion.tokens) for call in turn.calls] for turn in turns]
    learned = [[[len(values) for values in (c.logprobs, c.entropies)] for c in turn.calls] for turn in credit.turns]
    if learned != [[[num, num] for num in nums] for nums in fits]:
        raise RecordError(f"{CREDIT} has other turns for trial {credit.trial} than the trial itself")
    paired = list(zip(turns, credit.turns, strict=True))

    def part(episode: int, phase: Phase) -> tuple[TurnCredit, ...]:
        return tuple(c for turn, c in paired if turn.observation.episode == episode and turn.phase is phase)

    return [EpisodeCredit(part(k, Phase.PLAY), part(k, Phase.REFLECT)) for k in range(len(trial.episodes))]


class _Numbered(msgspec.Struct):
    trial: int


def _find(file: BinaryIO, size: int, number: int) -> bytes | None:
    """The line of a trial, by binary search: lines ascend by trial."""
    low, high = 0, size  # the line begins at or after `low` and before `high`, if there is one
    while low < high:
        middle = (low + high) // 2
        start = _line_start(file, middle)
        line = file.readline() if start < high else b""
        if not line.endswith(b"\n"):  # nothing begins in the upper half, or its last line is still being written
            high = middle
            continue
        found = msgspec.json.decode(line, type=_Numbered).trial
        if found == number:
            return line
        low, high = (start + len(line), high) if found < number else (low, middle)
    return None


def _line_start(file: BinaryIO, position: int) -> int:
    """Seek to the first line that begins at `position` or after it."""
    file.seek(max(0, position - 1))
    if position:
        file.readline()
    return file.tell()
