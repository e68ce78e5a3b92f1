"""The settings of a learner: its config section, and what it needs from the rest of the config."""

from __future__ import annotations

from dataclasses import dataclass

from mage.config.schedule import share_done
from mage.config.schema import Config
from mage.config.sections import LearnerConfig
from mage.errors import ConfigError

AUTO_BUDGET = 4096
"""What `learner.token_budget = "auto"` stands for on a CPU, and what it begins with on a GPU."""
AUTO_SHARE = 0.8
"""Share of the free memory that an update may then take; the rest is for fragments, longer trials and CUDA graphs."""


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """Settings of a learner; schedules are computed from them."""

    config: LearnerConfig
    temperature: float
    """The temperature that samples were drawn at."""
    steps: int
    """Steps of the run, for schedules."""
    tokens: int
    """Tokens of the run; where above 0, schedules follow tokens instead of steps."""
    seed: int
    is_lagged: bool = False
    """Whether samples may come from older weights than those before the update (`rollout.lag`)."""
    workers: int = 1
    """Micro-batches that are computed side by side, in threads."""
    device: str = ""
    """The kind of device that ranks compute on, also where the model is loaded elsewhere; empty: the model's."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot train, or that contradict each other."""
        if self.temperature == 0.0:
            raise ConfigError(
                "agent.temperature = 0: a deterministic policy has no gradient; train at a temperature above 0"
            )
        config = self.config
        if config.entropy_floor > 0.0 and not (config.entropy_start > 0.0 and config.entropy_end > 0.0):
            raise ConfigError(
                f"learner.entropy_floor = {config.entropy_floor} raises the entropy bonus, "
                "so learner.entropy_start and learner.entropy_end must be above 0"
            )

    def learning_rate(self, num_updates: int, num_tokens: int) -> float:
        """The learning rate after so many updates and tokens."""
        rise = min(1.0, (num_updates + 1) / max(1, self.config.warmup))
        # Zero is reached after the last step, not in it.
        fall = 1.0 - share_done(num_updates, self.steps + 1, num_tokens, self.tokens) if self.config.decay else 1.0
        return self.config.lr * rise * fall

    def entropy_bonus(self, num_updates: int, num_tokens: int) -> float:
        """The entropy bonus after so many updates and tokens, before the floor raises it."""
        done = share_done(num_updates, self.steps, num_tokens, self.tokens)
        start, end = self.config.entropy_start, self.config.entropy_end
        return start + (end - start) * done


def learner_settings(config: Config, *, is_continued: bool = False) -> LearnerSettings:
    """The learner's settings, from the config; a run that continues from a checkpoint needs no initial adapter."""
    return LearnerSettings(
        config=config.learner.model_copy(update={"lora_init": ""}) if is_continued else config.learner,
        temperature=config.agent.temperature,
        steps=config.steps,
        tokens=config.tokens,
        seed=config.seed,
        is_lagged=config.rollout.lag > 0,
    )
