"""The plan of an evaluation: who is judged on which tasks. It lies in `run.json`, and whoever resumes goes by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mage.config.load import replaced
from mage.config.schema import Config
from mage.errors import ConfigError, RecordError, listing
from mage.evaluation.eval_agent import EvalAgent
from mage.evaluation.splits import Split, check_split, fingerprint, is_path, load_split, make_split, split_names
from mage.evaluation.suite.evaluate import evaluation_tasks
from mage.evaluation.suite.reflections import check_swaps
from mage.evaluation.suite.report import command_line
from mage.evaluation.trial_log import KIND
from mage.models.address import PREFIX, read_address
from mage.opponents.registry import OPPONENTS
from mage.runs.store import read_info
from mage.spec import parse_spec, whole
from mage.types import Memory, Task
from mage.worlds.openspiel.game import load_game

GIVEN = "given"
"""What the name of a set of opponents begins with that was given on the spot."""
EPISODES, SEATS = "trial.episodes", "trial.seats"
_ALLOWED_KEYS = (EPISODES, SEATS, "evaluation.seed", "device", "dtype", "threads")
"""Settings that an evaluation heeds, besides those of the agent: episodes are dealt afresh and never stop early."""


class EvaluationPlan(msgspec.Struct, frozen=True):
    """All that an evaluation depends on."""

    name: str
    """Who is judged, as reports call it."""
    agent: str
    """The same by what means the same weights later on."""
    command: str
    """The command that was given."""
    values: Mapping[str, Any]
    """Settings that were replaced, by their dotted keys."""
    config: Mapping[str, Any]
    """The whole config then: that of a run may change later on."""
    splits: tuple[Split, ...]
    trials: int
    """Per member and seat."""
    reflections: bool
    """Whether it is judged what reflections do."""
    as_usual: bool
    """Whether a run is judged as it would judge itself."""

    def seats(self, eval_agent: EvalAgent, split: Split) -> tuple[int, ...]:
        """The seats that are played: those that are named, those of the run, or all of the game; each once."""
        if SEATS in self.values or eval_agent.run is not None:
            return tuple(dict.fromkeys(eval_agent.config.trial.seats))
        return tuple(range(load_game(split.world).num_seats))

    def tasks(self, eval_agent: EvalAgent, split: Split) -> list[Task]:
        """What is played on a split, which may say itself how many episodes it needs."""
        config = eval_agent.config
        own = None if EPISODES in self.values else split.episodes
        return evaluation_tasks(
            split,
            episodes=own or config.trial.episodes,
            seats=self.seats(eval_agent, split),
            trials=self.trials,
            seed=config.evaluation.seed,
        )

    def reported(self, eval_agent: EvalAgent) -> Config:
        """The config that the report carries: a run's own where it is judged as usual, else with what was judged."""
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


def make_plan(
    eval_agent: EvalAgent,
    *,
    world: str | None = None,
    opponents: Sequence[str] = (),
    trials: int | None = None,
    values: Mapping[str, object] | None = None,
    reflections: bool = False,
) -> EvaluationPlan:
    """The plan to judge somebody, checked: whatever is wrong shows before anything is played."""
    for key in values or {}:
        if key not in _ALLOWED_KEYS and not key.startswith("agent."):
            raise ConfigError(f"{key}: an evaluation does not heed it; it heeds agent.…, {', '.join(_ALLOWED_KEYS)}")
    if reflections:
        _check_reflections(eval_agent)
    plan = EvaluationPlan(
        name=eval_agent.name,
        agent=eval_agent.agent,
        command=command_line(),
        values=dict(values or {}),
        config=eval_agent.config.model_dump(mode="json"),
        splits=tuple(_splits(eval_agent, world, opponents)),
        trials=eval_agent.config.evaluation.final_trials if trials is None else whole("trials", trials, 1),
        reflections=reflections,
        as_usual=eval_agent.run is not None and not (values or opponents or world),
    )
    for split in plan.splits:
        if not plan.seats(eval_agent, split):
            raise ConfigError(f"{SEATS} = []: name at least one seat")
        check_split(split, plan.seats(eval_agent, split))
        if reflections:
            check_swaps(plan.tasks(eval_agent, split))
    return plan


def read_plan(folder: Path) -> EvaluationPlan:
    """The plan of an evaluation that exists."""
    info = read_info(folder)
    if info.kind != KIND:
        raise RecordError(f"{folder} is a {info.kind} run and no evaluation that could go on")
    try:
        plan = msgspec.convert(info.config, EvaluationPlan)
    except msgspec.ValidationError as error:
        raise RecordError(f"{folder} holds no plan that can be read: {error}") from None
    if any(fingerprint(split.world, split.members, split.episodes) != split.sha256 for split in plan.splits):
        raise RecordError(f"{folder} was changed: the members of its splits do not have their hash")
    return plan


def _check_reflections(eval_agent: EvalAgent) -> None:
    memory = eval_agent.config.agent.memory
    if not eval_agent.is_model:
        raise ConfigError(f"{eval_agent.name} writes no reflections that could be judged")
    if memory not in (Memory.REFLECTIONS, Memory.BOTH):
        raise ConfigError(f"agent.memory = {memory}: no reflections are written; use reflections or both")


def _splits(eval_agent: EvalAgent, game: str | None, opponents: Sequence[str]) -> list[Split]:
    """The splits to judge by: those that are named, and all opponents that are given by their specs as one more."""
    if not opponents:
        return _own_splits(eval_agent, game)
    named = [name for name in opponents if is_path(name) or name in split_names()]
    splits = [load_split(name) for name in named]
    for split in splits:
        if game is not None and split.world != str(parse_spec(game)):
            raise ConfigError(f"--world {game}: the split {split.name!r} is made for {split.world}")
    specs = [_spec(text) for text in opponents if text not in named]
    if specs:
        played = game or (eval_agent.config.world if eval_agent.run is not None else None)
        if played is None:
            raise ConfigError(f"which game is played against {specs[0]}? name it with --world")
        splits.append(split_of_opponents(played, specs))
    if len({split.name for split in splits}) < len(splits):
        raise ConfigError(f"name each split once, not {', '.join(named)}")
    return splits


def _own_splits(eval_agent: EvalAgent, game: str | None) -> list[Split]:
    if eval_agent.run is None or game is not None:
        raise ConfigError("name opponents to be judged by, or a split of them, with --opponents")
    names = eval_agent.config.evaluation.splits
    if not names:
        raise ConfigError(
            f"{eval_agent.run} names no splits to judge by; set evaluation.splits, or name opponents with --opponents"
        )
    return [load_split(name) for name in names]


def split_of_opponents(game: str, members: Sequence[str]) -> Split:
    """A set of opponents without a file, called by its hash; each of them counts the same."""
    split = make_split(GIVEN, "opponents that were given", game, tuple(members), held_out=False)
    name = f"{GIVEN}-{split.sha256[:8]}"
    return msgspec.structs.replace(split, name=name, pool=name)


def _spec(text: str) -> str:
    """The canonical spec of an opponent, who may be a remote model by its address."""
    spec = read_address(text).spec if text.startswith(PREFIX) else parse_spec(text)
    if spec.name not in OPPONENTS:
        raise ConfigError(
            f"{text!r} is neither a split ({listing(split_names())}, or a path.json) nor an opponent "
            f"({listing(OPPONENTS)})"
        )
    return str(spec)
