"""Make a task from a config."""

from __future__ import annotations

from mage.config.schema import Config
from mage.types import Task


def task_of(config: Config, opponents: tuple[str, ...], index: int, seed: int) -> Task:
    """The task at an index of a stream, against these opponents; the seats of the config are taken in turn."""
    return Task(
        world=config.world,
        opponents=opponents,
        seat=config.trial.seats[index % len(config.trial.seats)],
        seed=seed,
        episodes=config.trial.episodes,
        replay_deal=config.trial.replay_deal,
        early_stop=config.trial.early_stop,
        max_turns=config.trial.max_turns,
    )
