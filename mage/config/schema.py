"""The config: all settings of a run, with a docstring under each key; `sections.py` has those of the sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import SerializerFunctionWrapHandler, field_validator, model_serializer

from mage.config.frozen_model import FrozenModel
from mage.config.schedule import Number, Points, share_done, value_at, worlds_at_points
from mage.config.sections import (
    AgentConfig,
    AlarmConfig,
    BatchConfig,
    CheckpointConfig,
    Count,
    CreditConfig,
    EvaluationConfig,
    LeagueConfig,
    LearnerConfig,
    PopulationConfig,
    Positive,
    RolloutConfig,
    TrialConfig,
)
from mage.plugins import resolved_entry
from mage.spec import with_parameters
from mage.types import Device, Dtype


class Config(FrozenModel):
    """All settings of a run."""

    description: str = ""
    """One line for `mage list recipes`."""
    plugins: tuple[str, ...] = ()
    """Modules, or Python files that end in .py, that are imported first because they register names used here. Paths
    are relative to the recipe's folder, else to the working directory."""
    seed: Count = 0
    """Seed of every random draw of the run."""
    steps: Positive = 100
    """Training steps: play, then `learner.epochs` x `learner.minibatches` optimizer steps."""
    tokens: Count = 0
    """Tokens put through the learner after which the run ends, even if steps are left; schedules then follow tokens.
    Methods whose trials differ in length can so be compared at equal cost. 0: no limit."""
    world: str = "rps"
    """A world spec. Evaluations, references and the showcase play it as it stands, whatever `schedule` and
    `population.wordings` say."""
    schedule: Mapping[str, Points] = {}
    """Parameters of `world` that change over training: for each one its points [share of training, value]. Values are
    linear between points and constant before the first and after the last; two points with the same share make a jump.
    Values are whole where all points have whole numbers. `leave = [[0.5, 0.0], [0.5, 0.5]]` trains the first half with
    leave=0.0 and the second with leave=0.5."""
    trials: Positive = 8
    """How many trials `mage trials` plays."""
    threads: Count = 0
    """CPU threads; 0 means one for each core. A run records the number it was begun with, and a sweep's jobs share the
    cores. Models below 10 million parameters give the same bits with any number, larger ones with the same number."""
    device: Device = Device.CPU
    """Where the model runs: cpu, cuda, or auto (CUDA where there is a device)."""
    dtype: Dtype = Dtype.AUTO
    """The model's number format: float32, bfloat16, or auto (bfloat16 on CUDA, float32 on a CPU)."""
    engine: str = "local"
    """What serves the model: `local`, in this process, `vllm` (docs/scaling.md), or a name that a plugin registered;
    docs/models.md."""
    trackers: tuple[str, ...] = ()
    """Where metrics go besides the run directory: tensorboard, wandb, trackio."""
    trial: TrialConfig = TrialConfig()
    population: PopulationConfig = PopulationConfig()
    league: LeagueConfig = LeagueConfig()
    agent: AgentConfig = AgentConfig()
    rollout: RolloutConfig = RolloutConfig()
    batch: BatchConfig = BatchConfig()
    credit: CreditConfig = CreditConfig()
    learner: LearnerConfig = LearnerConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    alarms: AlarmConfig = AlarmConfig()

    @field_validator("plugins")
    @classmethod
    def _with_absolute_paths(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(resolved_entry, entries))

    @model_serializer(mode="wrap")
    def _without_empty(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Configs without plugins or a schedule are written as they were before there were any."""
        values: dict[str, Any] = dump(self)
        return {key: value for key, value in values.items() if key not in ("plugins", "schedule") or value}

    def is_over(self, step: int, num_tokens: int) -> bool:
        """Whether a run is over after so many steps and tokens.

        >>> [Config(steps=9, tokens=50).is_over(*done) for done in ((8, 49), (9, 49), (8, 50))]
        [False, True, True]
        """
        return step >= self.steps or 0 < self.tokens <= num_tokens

    def world_at(self, step: int, num_tokens: int) -> str:
        """The world that is trained in after so many steps and tokens, at the values of the schedule.

        >>> config = Config(steps=4, world="rps", schedule={"rounds": ((0.5, 3), (0.5, 5))})
        >>> [config.world_at(step, 0) for step in (0, 1, 2)]
        ['rps(rounds=3)', 'rps(rounds=3)', 'rps(rounds=5)']
        """
        if not self.schedule:
            return self.world
        share = share_done(step, self.steps, num_tokens, self.tokens)
        return with_parameters(self.world, {name: value_at(points, share) for name, points in self.schedule.items()})

    @property
    def scheduled_worlds(self) -> dict[str, dict[str, Number]]:
        """The worlds at the points of the schedule, each with its values of the parameters; empty without one."""
        return worlds_at_points(self.world, self.schedule)
