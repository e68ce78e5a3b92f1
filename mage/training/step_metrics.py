"""Metrics of one training step's trials. `docs/metrics.md` defines every key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from mage.credit.steps import agent_turns
from mage.evaluation.suite.evaluate import SplitReport
from mage.opponents.registry import family
from mage.spec import parse_spec
from mage.types import Completion, Ending, Group, Phase, Sample, Trial


def step_metrics(drawn: Sequence[Group], groups: Sequence[Group], num_replayed: int = 0) -> dict[str, float]:
    """Metrics of the newly drawn groups; `groups` also has replayed tasks and the replacements of dead groups."""
    trials = [trial for group in drawn for trial in group.trials]
    num_failed = sum(len(group.failures) for group in groups)
    num_replaced = len(groups) - len(drawn) - num_replayed
    metrics = {"play/failed_trials": float(num_failed), "groups/replacements": float(num_replaced)}
    if num_replayed:
        metrics["groups/replayed"] = float(num_replayed)
    if not trials:
        return metrics
    texts = {**_variety(drawn), **_repetition(trials)}
    parts = (_scores(trials), _health(trials), texts, _cost(groups), _shares(drawn, groups))
    return {**metrics, **{name: value for part in parts for name, value in part.items()}}


def as_teacher_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics of a step that a teacher played, with scores named as the teacher's; a teacher writes no texts.

    >>> as_teacher_metrics({"score/episode_1": 1.0, "play/overflows": 0.0, "groups/distinct_texts": 0.0})
    {'teacher/episode_1': 1.0, 'play/overflows': 0.0}
    """
    written = ("groups/distinct_texts", "play/repeated_texts")
    played = {name: value for name, value in metrics.items() if name not in written}
    return {re.sub("^score/", "teacher/", name): value for name, value in played.items()}


def world_metrics(world: str, parameters: Iterable[str]) -> dict[str, float]:
    """The values of some parameters in the spec of a world.

    >>> world_metrics("rps(rounds=3)", ["rounds"])
    {'world/rounds': 3.0}
    """
    named = parse_spec(world).named
    return {f"world/{name}": float(named[name]) for name in parameters}


def lag_metrics(samples: Sequence[Sample], step: int) -> dict[str, float]:
    """By how many updates the weights that sampled are older than those that learn, which have `step` behind them."""
    lags = [step - sample.version for sample in samples]
    return {"lag/mean": sum(lags) / len(lags), "lag/max": float(max(lags))}


def _scores(trials: Sequence[Trial]) -> dict[str, float]:
    longest = max(len(trial.scores) for trial in trials)
    by_episode = [[t.scores[k] for t in trials if len(t.scores) > k] for k in range(longest)]
    means = [sum(scores) / len(scores) for scores in by_episode]
    seats = sorted({trial.task.seat for trial in trials})
    last = [[t.scores[-1] for t in trials if t.task.seat == seat] for seat in seats]
    by_seat = [sum(scores) / len(scores) for scores in last]
    return {
        **{f"score/episode_{k + 1}": value for k, value in enumerate(means)},
        "score/adaptation": means[-1] - means[0],
        "play/seat_gap": max(by_seat) - min(by_seat),
    }


def _health(trials: Sequence[Trial]) -> dict[str, float]:
    calls = [call for trial in trials for turn in agent_turns(trial) for call in turn.calls]
    episodes = [episode for trial in trials for episode in trial.episodes]
    return {
        "play/invalid_share": sum(c.problem is not None for c in calls) / max(1, len(calls)),
        "play/truncated_share": sum(c.completion.truncated for c in calls) / max(1, len(calls)),
        "play/forfeit_share": sum(e.result.ending is Ending.FORFEITED for e in episodes) / max(1, len(episodes)),
        "play/overflows": float(sum(len(t.overflows) for t in trials)),
    }


def _variety(groups: Sequence[Group]) -> dict[str, float]:
    """How much the first texts of siblings differ: 0 where all of a group are the same, 1 where no two are."""
    found = [[made.tokens for trial in group.trials for _, made in islice(_texts(trial), 1)] for group in groups]
    shares = [(len(set(texts)) - 1) / (len(texts) - 1) for texts in found if len(texts) > 1]
    return {"groups/distinct_texts": sum(shares) / len(shares)} if shares else {}


def _repetition(trials: Sequence[Trial]) -> dict[str, float]:
    """How often an agent says again what it has said in the same trial: of its replies after the first, the share."""
    found = [[made.tokens for phase, made in _texts(trial) if phase is Phase.PLAY] for trial in trials]
    num_later = sum(len(texts) - 1 for texts in found if texts)
    num_new = sum(len(set(texts)) - 1 for texts in found if texts)
    return {"play/repeated_texts": 1 - num_new / num_later} if num_later else {}


def _texts(trial: Trial) -> Iterator[tuple[Phase, Completion]]:
    """The replies and reflections that were not held to choices."""
    for turn in agent_turns(trial):
        for call in turn.calls:
            if call.completion.allowed is None:
                yield turn.phase, call.completion


def _cost(groups: Sequence[Group]) -> dict[str, float]:
    """Tokens of all groups, replacements and replayed tasks included."""
    trials = [trial for group in groups for trial in group.trials]
    calls = [call for trial in trials for turn in agent_turns(trial) for call in turn.calls]
    return {
        "play/tokens_sampled": float(sum(len(c.completion.tokens) for c in calls)),
        "play/tokens_in_streams": float(sum(len(s) for t in trials for s in t.streams)),
    }


def _shares(drawn: Sequence[Group], groups: Sequence[Group]) -> dict[str, float]:
    """Shares of opponents among drawn and played groups; they differ by replacements and replayed tasks."""
    before, after = (Counter(family(o) for g in some for o in g.task.opponents) for some in (drawn, groups))
    shares: dict[str, float] = {}
    for name in sorted(after):
        shares[f"opponents/drawn/{name}"] = before[name] / max(1, before.total())
        shares[f"opponents/played/{name}"] = after[name] / after.total()
    return shares


def evaluation_metrics(reports: Sequence[SplitReport]) -> dict[str, float]:
    """Scores of each episode on every split, beside those of the control."""
    metrics: dict[str, float] = {}
    for report in reports:
        for k, (score, control) in enumerate(zip(report.agent.scores, report.control.scores, strict=True)):
            metrics[f"eval/{report.split}/score_{k + 1}"] = score.value
            metrics[f"eval/{report.split}/control_{k + 1}"] = control.value
        metrics[f"eval/{report.split}/over_control"] = report.over_control.value
    return metrics
