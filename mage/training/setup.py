"""What a run trains: its parts, its learners, and the source of their tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mage.training.combinations import uses_payoffs
from mage.training.league_members import LeagueMembers
from mage.training.match_play import LocalPlay, MatchPlay
from mage.training.parts import LEARNER, Parts
from mage.training.play_ahead import PlayAhead
from mage.training.run_learners import OneLearner, RunLearners
from mage.training.task_sources import (
    LeagueTasks,
    PopulationTasks,
    PrioritisedTasks,
    ReplayedTasks,
    TaskSource,
    VariedTasks,
)
from mage.training.workers.pool import WorkerPlay


@dataclass(frozen=True)
class Setup:
    """What the loop works on."""

    parts: Parts
    learners: RunLearners
    source: TaskSource
    members: LeagueMembers | None
    """The learners again where they are those of a league; else None."""
    match_play: MatchPlay
    ahead: PlayAhead


def set_up(parts: Parts, folder: Path) -> Setup:
    """The learners and the task source that a config asks for; a league keeps snapshots in the run's folder."""
    config = parts.config
    members = LeagueMembers(parts, folder) if config.league.learners else None
    learners = members or OneLearner(parts)
    source: TaskSource
    if members is not None:
        source = LeagueTasks(config, members)
    else:
        source = PrioritisedTasks(config, LEARNER) if uses_payoffs(config) else PopulationTasks(config)
    if config.batch.replay:
        source = ReplayedTasks(config, source)
    if config.schedule or config.population.wordings:
        source = VariedTasks(config, source, learners)
    match_play = WorkerPlay(parts, folder) if config.rollout.workers else LocalPlay(parts, learners)
    ahead = PlayAhead(parts, learners.names, source, match_play)
    return Setup(parts, learners, source, members, match_play, ahead)
