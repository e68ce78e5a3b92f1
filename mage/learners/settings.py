"""How to learn: a learner's config, and what it takes from the rest of the run; checked."""

from __future__ import annotations

from dataclasses import dataclass

from mage.config.schema import LearnerConfig
from mage.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """How to learn."""

    config: LearnerConfig
    temperature: float
    """The temperature that the samples were drawn with."""
    steps: int
    """Length of the run, for schedules."""
    tokens: int
    """The same in tokens; where it is above 0, schedules follow them and not the steps."""
    seed: int

    def __post_init__(self) -> None:
        """Refuse settings under which nothing, or not what was asked for, would be learned."""
        if self.temperature == 0.0:
            raise ConfigError("agent.temperature = 0: a certain policy has no gradient; train at a temperature above 0")
        config = self.config
        if config.entropy_floor > 0.0 and not (config.entropy_start > 0.0 and config.entropy_end > 0.0):
            raise ConfigError(
                f"learner.entropy_floor = {config.entropy_floor} raises the entropy bonus, "
                "so learner.entropy_start and learner.entropy_end must be above 0"
            )

    def learning_rate(self, num_updates: int, num_tokens: int) -> float:
        """The learning rate after some updates, which took so many tokens."""
        rise = min(1.0, (num_updates + 1) / max(1, self.config.warmup))
        fall = 1.0 - self._done(num_updates / max(1, self.steps), num_tokens) if self.config.decay else 1.0
        return self.config.lr * rise * fall

    def entropy_bonus(self, num_updates: int, num_tokens: int) -> float:
        """The entropy bonus after some updates, before the floor raises it."""
        done = self._done(num_updates / max(1, self.steps - 1), num_tokens)
        start, end = self.config.entropy_start, self.config.entropy_end
        return start + (end - start) * done

    def _done(self, by_updates: float, num_tokens: int) -> float:
        """How much of the run lies behind, from 0 to 1."""
        return min(1.0, num_tokens / self.tokens if self.tokens else by_updates)
