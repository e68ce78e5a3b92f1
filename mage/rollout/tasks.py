"""Make tasks from a config, and the opponents of a task."""

from __future__ import annotations

from mage.config.schema import Config
from mage.errors import ConfigError
from mage.protocols import Player, World
from mage.types import Task


def task_of(config: Config, opponents: tuple[str, ...], index: int, seed: int, level: str = "") -> Task:
    """The task at an index of a stream, with these opponents or level; the seats of the config are taken in turn."""
    return Task(
        world=config.world,
        opponents=opponents,
        seat=config.trial.seats[index % len(config.trial.seats)],
        seed=seed,
        episodes=config.trial.episodes,
        replay_deal=config.trial.replay_deal,
        early_stop=config.trial.early_stop,
        max_turns=config.trial.max_turns,
        level=level,
    )


def other_seats(task: Task, num_seats: int) -> list[int]:
    """All seats but the task's, checked against the number of opponents."""
    if not 0 <= task.seat < num_seats:
        raise ConfigError(f"seat {task.seat} does not exist; {task.world} has seats 0 to {num_seats - 1}")
    if len(task.opponents) != num_seats - 1:
        raise ConfigError(f"{task.world} needs {num_seats - 1} opponents, not {len(task.opponents)}")
    return [seat for seat in range(num_seats) if seat != task.seat]


def opponents_of(world: World, task: Task) -> dict[int, Player]:
    """New players for every seat but the task's, for one trial."""
    others = other_seats(task, world.info.num_seats)
    return {seat: world.opponent(spec, task, seat) for seat, spec in zip(others, task.opponents, strict=True)}
