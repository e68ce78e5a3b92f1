"""The plan of an evaluation: agent, splits and tasks, kept in `run.json` so that it can be resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mage.config.load import replaced
from mage.config.schema import Config
from mage.errors import ConfigError, RecordError, did_you_mean, listing
from mage.evaluation.config_splits import evaluated_splits
from mage.evaluation.eval_agent import EvalAgent
from mage.evaluation.splits import (
    Split,
    check_split,
    fingerprint,
    has_levels,
    is_path,
    load_split,
    make_split,
    split_names,
)
from mage.evaluation.suite.evaluate import evaluation_tasks
from mage.evaluation.suite.reflections import WORDS, check_swaps
from mage.evaluation.suite.report import command_line
from mage.evaluation.trial_log import KIND
from mage.models.address import PREFIX, read_address
from mage.opponents.registry import OPPONENTS
from mage.runs.store import read_info
from mage.spec import parse_spec, whole
from mage.types import Memory, Task
from mage.worlds.openspiel.world import OpenSpielWorld
from mage.worlds.registry import load_world, normal_world

GIVEN = "given"
"""Prefix of the name of a split made of opponents or levels given on the command line."""
EPISODES, SEATS = "trial.episodes", "trial.seats"
_ALLOWED_KEYS = (EPISODES, SEATS, "evaluation.seed", "device", "dtype", "threads")
"""Keys that an evaluation uses besides agent.…: deals are always fresh and trials never stop early."""


class EvaluationRequest(msgspec.Struct, frozen=True):
    """What to evaluate, on what."""

    agent: str
    world: str | None = None
    opponents: Sequence[str] = ()
    """Splits, or opponent specs or levels of `world`; a run's own splits where there are none."""
    trials: int | None = None
    values: Mapping[str, object] = {}
    """Settings to replace, by their dotted keys."""
    reflections: bool = False
    """Evaluate what reflections do instead."""
    words: int | None = None
    """Words of a shortened reflection; needs `reflections`."""

    @property
    def worlds(self) -> tuple[str, ...]:
        """The worlds that it names, itself or by a split."""
        named = [load_split(name).world for name in self.opponents if is_path(name) or name in split_names()]
        return (*named, *filter(None, (self.world,)))


class EvaluationPlan(msgspec.Struct, frozen=True):
    """Everything an evaluation depends on."""

    name: str
    """The agent's name in reports."""
    agent: str
    """Text that loads the same weights later."""
    command: str
    """The command that was given."""
    values: Mapping[str, Any]
    """Replaced settings, by dotted key."""
    config: Mapping[str, Any]
    """The whole config at the time: that of a run may change later."""
    splits: tuple[Split, ...]
    trials: int
    """Per member and seat, times the member's weight; in all where a split has no members."""
    reflections: bool
    """Whether the effect of reflections is evaluated too."""
    as_usual: bool
    """Whether a run is evaluated with its own splits and settings."""
    words: int = WORDS
    """Words of a shortened reflection."""

    def seats(self, eval_agent: EvalAgent, split: Split) -> tuple[int, ...]:
        """The seats to play, each once: those given, those of the run, or all of the world."""
        if SEATS in self.values or eval_agent.run is not None:
            return tuple(dict.fromkeys(eval_agent.config.trial.seats))
        return tuple(range(load_world(split.world).info.num_seats))

    def tasks(self, eval_agent: EvalAgent, split: Split) -> list[Task]:
        """The tasks on a split, which may fix the number of episodes."""
        config = eval_agent.config
        own = None if EPISODES in self.values else split.episodes
        return evaluation_tasks(
            split,
            episodes=own or config.trial.episodes,
            seats=self.seats(eval_agent, split),
            trials=self.trials,
            seed=config.evaluation.seed,
        )

    def report_config(self, eval_agent: EvalAgent) -> Config:
        """The config for the report: the run's own if `as_usual`, else with the world, seats and splits evaluated."""
        if self.as_usual:
            return eval_agent.config
        seats = {seat for split in self.splits for seat in self.seats(eval_agent, split)}
        evaluated = {
            "world": self.splits[0].world,
            SEATS: sorted(seats),
            "evaluation.splits": [split.name for split in self.splits],
            "evaluation.final_trials": self.trials,
        }
        return replaced(eval_agent.config, evaluated, eval_agent.name)


def make_plan(eval_agent: EvalAgent, request: EvaluationRequest) -> EvaluationPlan:
    """A checked plan: errors are raised before anything is played."""
    for key in request.values:
        if key not in _ALLOWED_KEYS and not key.startswith("agent."):
            raise ConfigError(f"{key}: an evaluation does not use it; it uses agent.…, {', '.join(_ALLOWED_KEYS)}")
    if request.reflections:
        _check_reflections(eval_agent)
    elif request.words is not None:
        raise ConfigError(f"words = {request.words}: only reflections are shortened; evaluate with --reflections")
    usual = eval_agent.config.evaluation.final_trials
    plan = EvaluationPlan(
        name=eval_agent.name,
        agent=eval_agent.agent,
        command=command_line(),
        values=dict(request.values),
        config=eval_agent.config.model_dump(mode="json"),
        splits=tuple(_splits(eval_agent, request.world, request.opponents)),
        trials=usual if request.trials is None else whole("trials", request.trials, 1),
        reflections=request.reflections,
        as_usual=eval_agent.run is not None and not (request.values or request.opponents or request.world),
        words=WORDS if request.words is None else whole("words", request.words, 1),
    )
    for split in plan.splits:
        if not plan.seats(eval_agent, split):
            raise ConfigError(f"{SEATS} = []: name at least one seat")
        check_split(split, plan.seats(eval_agent, split))
        eval_agent.check(split.world, plan.seats(eval_agent, split))
        if request.reflections:
            check_swaps(plan.tasks(eval_agent, split))
    return plan


def read_plan(folder: Path) -> EvaluationPlan:
    """Read the plan of an existing evaluation."""
    info = read_info(folder)
    if info.kind != KIND:
        raise RecordError(f"{folder} is a {info.kind} run, not an evaluation that can be resumed")
    try:
        plan = msgspec.convert(info.config, EvaluationPlan)
    except msgspec.ValidationError as error:
        raise RecordError(f"{folder} holds no plan that can be read: {error}") from None
    if not all(split.has_its_hash for split in plan.splits):
        raise RecordError(f"{folder} was changed: the members of its splits do not have their hash")
    return plan


def _check_reflections(eval_agent: EvalAgent) -> None:
    memory = eval_agent.config.agent.memory
    if not eval_agent.is_model:
        raise ConfigError(f"{eval_agent.name} writes no reflections that could be evaluated")
    if memory not in (Memory.REFLECTIONS, Memory.BOTH):
        raise ConfigError(f"agent.memory = {memory}: no reflections are written; use reflections or both")


def _splits(eval_agent: EvalAgent, game: str | None, opponents: Sequence[str]) -> list[Split]:
    """The splits to evaluate on: those given by name, and one more of all opponents or levels given."""
    if not opponents:
        return _own_splits(eval_agent, game)
    splits, given = _named_splits(game, opponents)
    named = [split.name for split in splits]
    if given:
        played = game or (eval_agent.config.world if eval_agent.run is not None else None)
        members = [text if _has_own_names(played) else _spec(text) for text in given]
        if played is None:
            raise ConfigError(f"which world is played against {members[0]}? name it with --world")
        splits.append(split_of_opponents(played, members))
    if len({split.name for split in splits}) < len(splits):
        raise ConfigError(f"name each split once, not {', '.join(named)}")
    return splits


def named_members(world: str, opponents: Sequence[str]) -> list[tuple[str, int]]:
    """The members of all splits, opponent specs or levels of `world` that are named, with a split's weights or 1."""
    splits, given = _named_splits(world, opponents)
    own = [(text if _has_own_names(world) else _spec(text), 1) for text in given]
    return [*(member for split in splits for member in split.weighted_members), *own]


def _named_splits(game: str | None, opponents: Sequence[str]) -> tuple[list[Split], list[str]]:
    """The splits among the names, and the other names."""
    named = [name for name in opponents if is_path(name) or name in split_names()]
    splits = [load_split(name) for name in named]
    for split in splits:
        if game is not None and normal_world(split.world) != normal_world(game):
            raise ConfigError(f"the world {game}: the split {split.name!r} is made for {split.world}")
    return splits, [text for text in opponents if text not in named]


def _own_splits(eval_agent: EvalAgent, game: str | None) -> list[Split]:
    if game is not None and has_levels(game):
        return [split_of_opponents(game, ())]
    if eval_agent.run is None or game is not None:
        raise ConfigError("name opponents to evaluate against, or a split of them, with --opponents")
    names, world = eval_agent.config.evaluation.splits, eval_agent.config.world
    if not names and has_levels(world):
        return [split_of_opponents(world, eval_agent.config.population.members)]
    if not names:
        raise ConfigError(
            f"{eval_agent.run} names no splits; set evaluation.splits, or name opponents with --opponents"
        )
    return list(evaluated_splits(eval_agent.config))


def split_of_opponents(game: str, members: Sequence[str]) -> Split:
    """A split of opponents or levels without a file, named by its hash."""
    split = make_split(GIVEN, "members that were given", game, tuple(members), held_out=False)
    same = fingerprint(normal_world(game), split.members)  # the name is the same however the world is written
    name = f"{GIVEN}-{same[:8]}"
    return msgspec.structs.replace(split, name=name)


def _has_own_names(world: str | None) -> bool:
    """Whether a world names its opponents or levels itself; OpenSpiel's games have the registered opponents."""
    return world is not None and (has_levels(world) or not isinstance(load_world(world), OpenSpielWorld))


def _spec(text: str) -> str:
    """The canonical spec of an opponent; a remote model may be given by its address."""
    spec = read_address(text).spec if text.startswith(PREFIX) else parse_spec(text)
    if spec.name not in OPPONENTS:
        guess = did_you_mean(spec.name, (*OPPONENTS, *split_names()))
        raise ConfigError(
            f"{guess}{text!r} is neither a split ({listing(split_names())}, or a path.json) nor an opponent "
            f"({listing(OPPONENTS)})"
        )
    return str(spec)
