"""Alarms: metrics that stay bad for several steps in a row, and evaluation scores that fall."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mage.config.sections import AlarmConfig

MAX_ROLLBACKS = 3
"""Further rollbacks would not help: they change the random draws, not the cause of the collapse."""


class AlarmState(msgspec.Struct, frozen=True):
    """How many steps each metric has been bad, and the best score on each split; stored in checkpoints."""

    streaks: Mapping[str, int]
    best: Mapping[str, float]

    @property
    def is_healthy(self) -> bool:
        """Whether no metric is bad now."""
        return not any(self.streaks.values())


NO_ALARMS = AlarmState({}, {})


def watch_step(
    config: AlarmConfig, watch: AlarmState, metrics: Mapping[str, float], lag: int = 0
) -> tuple[AlarmState, list[str]]:
    """Update the state by the metrics of a step; return it and the messages of new alarms.

    With a lag, engine and learner differ on purpose: what is watched is how old samples are, and how much of their
    importance weights is truncated.
    """
    same_weights = (("gap/mean_difference", "over", config.gap), ("gap/outside_0.8_1.25", "over", config.ratios))
    older_weights = (("lag/max", "over", lag), ("lag/truncated_share", "over", config.truncated))
    limits = (
        ("entropy/play", "under", config.entropy),
        ("play/invalid_share", "over", config.invalid),
        ("groups/dead_share", "over", config.dead),
        ("groups/distinct_texts", "under", config.distinct),
        ("play/seat_gap", "over", config.asymmetry),
        *(older_weights if lag else same_weights),
    )
    streaks, alarms = dict(watch.streaks), []
    for name, side, limit in limits:
        if name not in metrics:
            continue  # A step without an update has no entropy: the streak stays as it is.
        value = metrics[name]
        is_bad = value < limit if side == "under" else value > limit
        streaks[name] = length = streaks.get(name, 0) + 1 if is_bad else 0
        if length and length % config.patience == 0:
            alarms.append(f"{name} is {side} {limit} for {length} steps ({value:.3g})")
    return AlarmState(streaks, watch.best), alarms


def watch_score(config: AlarmConfig, watch: AlarmState, split: str, score: float) -> tuple[AlarmState, list[str]]:
    """Update the state by the last episode's score on a split; a fall from its best raises an alarm at once."""
    best = max(score, watch.best.get(split, score))
    alarms = [f"score on {split} fell from {best:.3f} to {score:.3f}"] if best - score > config.drop else []
    return AlarmState(watch.streaks, {**watch.best, split: best}), alarms
