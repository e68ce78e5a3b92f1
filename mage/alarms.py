"""Collapse is watched: figures that mean trouble when they stay bad for several steps in a row."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mage.schema import AlarmConfig


class Watch(msgspec.Struct, frozen=True):
    """How long each figure has been bad, and the best score seen on each split; goes into checkpoints."""

    streaks: Mapping[str, int]
    best: Mapping[str, float]


NOTHING_SEEN = Watch({}, {})


def watch_step(config: AlarmConfig, watch: Watch, metrics: Mapping[str, float]) -> tuple[Watch, list[str]]:
    """Look at the metrics of a step; return the alarms that sound, in sentences."""
    limits = {
        "entropy/play": (metrics.get("entropy/play", 1.0) < config.entropy, f"is under {config.entropy}"),
        "play/invalid_share": (metrics.get("play/invalid_share", 0.0) > config.invalid, f"is over {config.invalid}"),
        "groups/dead_share": (metrics.get("groups/dead_share", 0.0) > config.dead, f"is over {config.dead}"),
        "play/seat_gap": (metrics.get("play/seat_gap", 0.0) > config.asymmetry, f"is over {config.asymmetry}"),
    }
    streaks = {name: watch.streaks.get(name, 0) + 1 if bad else 0 for name, (bad, _) in limits.items()}
    alarms = [
        f"{name} {limits[name][1]} for {length} steps ({metrics[name]:.3g})"
        for name, length in streaks.items()
        if length and length % config.patience == 0
    ]
    return Watch(streaks, watch.best), alarms


def watch_score(config: AlarmConfig, watch: Watch, split: str, score: float) -> tuple[Watch, list[str]]:
    """Look at the last episode's score on a frozen split; a fall from its best sounds at once."""
    best = max(score, watch.best.get(split, score))
    alarms = [f"score on {split} fell from {best:.3f} to {score:.3f}"] if best - score > config.drop else []
    return Watch(watch.streaks, {**watch.best, split: best}), alarms
