"""Metrics of a set of trials: scores, adaptation, win rates, pass@k, tokens and invalid replies."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import msgspec

from mage.credit.steps import agent_turns
from mage.evaluation.suite.averaging import Averaging
from mage.evaluation.suite.switch_recovery import Recovery, measure_recovery
from mage.stats import SHARES, Estimate, Verdict, result_verdict
from mage.types import Ending, Trial


class OutcomeRates(msgspec.Struct, frozen=True):
    """Shares of wins, draws and losses in one episode."""

    win: Estimate
    draw: Estimate
    loss: Estimate


class PassAtK(msgspec.Struct, frozen=True):
    """pass@k: the share of trials won at least once in their first k episodes, and its value without adaptation."""

    solved: Estimate
    independent: Estimate | None
    """The same if every episode were an independent repetition of the first; None where a member and seat have fewer
    than k trials."""
    over_independent: Estimate | None
    """The difference, paired by trial."""


class TrialMetrics(msgspec.Struct, frozen=True):
    """Metrics of one agent on one set of tasks."""

    scores: tuple[Estimate, ...]
    """score@k: the mean score of episode k."""
    scores_by_trial: tuple[tuple[float, ...], ...]
    """The scores behind it, in the order of the report's `tasks`, for paired differences."""
    adaptation: Estimate
    """score@N - score@1, paired by trial."""
    rates: tuple[OutcomeRates, ...]
    """Wins, draws and losses by episode."""
    passes: tuple[PassAtK, ...]
    """pass@k for every k."""
    recovery: Recovery | None
    """Scores after the opponent switched; None where none does."""
    replies: int
    """Model calls of the agent, retries included."""
    invalid: int
    """Replies that could not be parsed into an action."""
    truncated: int
    """Replies cut at the token limit."""
    forfeits: int
    overflows: int
    tokens_sampled: int
    tokens_read: int
    """Total length of all token streams."""


_OVER_TRIALS = Averaging()


def trial_metrics(trials: Sequence[Trial], averaging: Averaging = _OVER_TRIALS) -> TrialMetrics:
    """All metrics of a set of trials."""
    calls = [c for t in trials for turn in agent_turns(t) for c in turn.calls]
    return TrialMetrics(
        scores=mean_scores(trials, averaging),
        scores_by_trial=tuple(t.scores for t in trials),
        adaptation=averaging.gap(trials, [score_gain(t) for t in trials]),
        rates=outcome_rates(trials, averaging),
        passes=pass_at_k(trials, averaging),
        recovery=measure_recovery(trials, averaging),
        replies=len(calls),
        invalid=sum(c.problem is not None for c in calls),
        truncated=sum(c.completion.truncated for c in calls),
        forfeits=sum(e.result.ending is Ending.FORFEITED for t in trials for e in t.episodes),
        overflows=sum(len(t.overflows) for t in trials),
        tokens_sampled=sum(len(c.completion.tokens) for c in calls),
        tokens_read=sum(len(s) for t in trials for s in t.streams),
    )


def mean_scores(trials: Sequence[Trial], averaging: Averaging = _OVER_TRIALS) -> tuple[Estimate, ...]:
    """score@k, for every k."""
    return tuple(averaging.score(trials, scores) for scores in zip(*(t.scores for t in trials), strict=True))


def score_gain(trial: Trial) -> float:
    """Adaptation in one trial: the last score minus the first."""
    return trial.scores[-1] - trial.scores[0]


def verdicts(trial: Trial) -> tuple[Verdict, ...]:
    """Win, draw or loss of the task's seat in each episode."""
    return tuple(result_verdict(episode.result, trial.task.seat) for episode in trial.episodes)


def outcome_rates(trials: Sequence[Trial], averaging: Averaging = _OVER_TRIALS) -> tuple[OutcomeRates, ...]:
    """Shares of wins, draws and losses in every episode."""

    def share(of: Verdict, ended: Sequence[Verdict]) -> Estimate:
        return averaging.share(trials, [float(verdict is of) for verdict in ended])

    by_episode = zip(*map(verdicts, trials), strict=True)
    return tuple(
        OutcomeRates(*(share(of, ended) for of in (Verdict.WIN, Verdict.DRAW, Verdict.LOSS))) for ended in by_episode
    )


def pass_at_k(trials: Sequence[Trial], averaging: Averaging = _OVER_TRIALS) -> tuple[PassAtK, ...]:
    """pass@k for every k, beside its value if every episode were an independent repetition of the first.

    The latter is computed per member and seat, then averaged over the trials: against some opponents the first episode
    is always won, against others never, and repetition changes neither. A single win rate would overestimate it.
    """
    wins = [[v is Verdict.WIN for v in verdicts(trial)] for trial in trials]
    by_cell: dict[tuple[tuple[str, ...], int], list[int]] = {}
    for place, trial in enumerate(trials):
        by_cell.setdefault((trial.task.members, trial.task.seat), []).append(place)
    found: list[PassAtK] = []
    for k in range(1, len(wins[0]) + 1):
        solved = [float(any(won[:k])) for won in wins]
        estimate = averaging.share(trials, solved)
        if min(map(len, by_cell.values())) < k:
            found.append(PassAtK(estimate, None, None))
            continue
        repeated = [0.0] * len(trials)
        for places in by_cell.values():
            for place, value in zip(
                places, independent_pass_at_k([wins[place][0] for place in places], k), strict=True
            ):
                repeated[place] = value
        over = averaging.mean(trials, [a - b for a, b in zip(solved, repeated, strict=True)], (-1.0, 1.0))
        found.append(PassAtK(estimate, _share(averaging.mean(trials, repeated, SHARES)), over))
    return tuple(found)


def independent_pass_at_k(wins: Sequence[bool], k: int) -> list[float]:
    """One value per trial; their mean estimates pass@k of independent draws, their variance that of the estimate.

    The mean is the unbiased estimate of Chen et al. (2021), the share of the sets of k trials with a win; the observed
    rate in 1 - (1 - p)^k would be biased low. Each value is its first-order (Hájek) projection.

    >>> independent_pass_at_k([True, True, False, False], 1)
    [1.0, 1.0, 0.0, 0.0]
    >>> [round(value, 4) for value in independent_pass_at_k([True, True, False, False], 2)]
    [1.1667, 1.1667, 0.5, 0.5]
    """
    num, num_lost = len(wins), len(wins) - sum(wins)
    whole = 1 - comb(num_lost, k) / comb(num, k)
    if_lost = 1 - comb(max(num_lost - 1, 0), k - 1) / comb(num - 1, k - 1)
    return [whole + k * ((1.0 if won else if_lost) - whole) for won in wins]


def _share(estimate: Estimate) -> Estimate:
    """The estimate with its interval clipped to [0, 1]."""
    if estimate.low is None or estimate.high is None:
        return estimate
    return Estimate(estimate.value, max(0.0, estimate.low), min(1.0, estimate.high))
