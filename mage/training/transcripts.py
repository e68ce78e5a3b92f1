"""Write trials of a training run, each with its credit and the learner's token log-probabilities and entropies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from mage.credit.group_baselines import TrialAdvantages
from mage.credit.steps import CreditGroup, Step, agent_turns, credit_group, trained_advantages
from mage.files import JsonLines, read_lines, truncate_lines
from mage.learners.samples import samples_by_stream
from mage.protocols import Learner
from mage.runs.credit import CREDIT, CallCredit, Credit, TurnCredit
from mage.runs.store import RunWriter
from mage.training.parts import LEARNER, Parts, opponent_name
from mage.types import Call, Failure, Group, Sample, Trial

NUM_SIBLINGS = 2
"""Trials of a group that are written: enough to compare two siblings."""

StatsByPosition = Mapping[int, tuple[float, float]]
"""The log-probability and the entropy of tokens, by their positions in a stream."""


class Transcripts:
    """Writes trials and their credit, and holds the lock of the run."""

    def __init__(self, folder: Path, parts: Parts) -> None:
        self._folder = folder
        self._parts = parts
        self._trials = RunWriter.reopen(folder)
        self._credit = JsonLines(folder / CREDIT)

    def cut_back(self, num_trials: int, num_credits: int) -> None:
        """Keep the first lines of both logs; the rest is moved aside, and so is the credit of trials that are lost."""
        self._trials.cut_back(num_trials)
        self._credit.close()
        if self._trials.num_lines < num_trials:
            lines = islice(read_lines(self._folder / CREDIT), num_credits)
            num_credits = sum(line["trial"] < self._trials.num_lines for line in lines)
        truncate_lines(self._folder / CREDIT, num_credits, "superseded")
        self._credit = JsonLines(self._folder / CREDIT)

    def write_credited(
        self,
        step: int,
        group: Group,
        credited: CreditGroup,
        advantages: TrialAdvantages,
        *,
        is_trained: bool,
        is_tutored: bool,
    ) -> None:
        """Write the first siblings of a group; call before the update, with the weights that played."""
        trials, steps = group.trials[:NUM_SIBLINGS], credited.trials[:NUM_SIBLINGS]
        found = [trained_advantages(s, a, is_tutored=is_tutored) for s, a in zip(steps, advantages, strict=False)]
        for trial, turns in zip(trials, turn_credits(self._parts.learner, trials, steps, found), strict=True):
            self._credit.append(Credit(self._trials.append(trial), step, is_trained, turns))

    def write_uncredited(self, step: int, outcome: Trial | Failure) -> None:
        """Write a trial that is not trained on, with returns and without advantages, or a failure, without either."""
        if isinstance(outcome, Failure):
            self._trials.append(outcome)
            return
        return_spec = self._parts.return_spec(outcome.task)
        name = opponent_name(outcome.task)
        (steps,) = credit_group(Group(outcome.task, (outcome,), ()), return_spec, name, LEARNER).trials
        (turns,) = turn_credits(self._parts.learner, [outcome], [steps], [[None] * len(steps)])
        self._credit.append(Credit(self._trials.append(outcome), step, False, turns))

    def close(self) -> None:
        """Close both logs and force them to the disk."""
        self._trials.close()
        self._credit.close()


def turn_credits(
    learner: Learner,
    trials: Sequence[Trial],
    steps: Sequence[Sequence[Step]],
    advantages: Sequence[Sequence[float | None]],
) -> list[tuple[TurnCredit, ...]]:
    """The credit of each turn of each trial, with token log-probabilities and entropies under the current weights."""
    asked = [_every_decision(trial) for trial in trials]
    answers = iter(learner.evaluate_tokens([sample for samples in asked for sample in samples.values()]))
    found: list[tuple[TurnCredit, ...]] = []
    for trial, samples, own_steps, own in zip(trials, asked, steps, advantages, strict=True):
        read = {n: dict(zip(sample.positions, next(answers), strict=True)) for n, sample in samples.items()}
        credit = [
            TurnCredit(advantage, step.return_, tuple(_call(call, read.get(call.stream, {})) for call in turn.calls))
            for turn, step, advantage in zip(agent_turns(trial), own_steps, own, strict=True)
        ]
        found.append(tuple(credit))
    return found


def _every_decision(trial: Trial) -> dict[int, Sample]:
    """All tokens that the agent chose, trained or not, by stream."""
    turns = agent_turns(trial)
    return samples_by_stream(trial, turns, [0.0] * len(turns), [0.0] * len(turns))


def _call(call: Call, read: StatsByPosition) -> CallCredit:
    found = [read.get(call.start + index, (None, None)) for index in range(len(call.completion.tokens))]
    return CallCredit(tuple(logprob for logprob, _ in found), tuple(entropy for _, entropy in found))
