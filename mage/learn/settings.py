"""How to learn: the settings of a learner, complete and checked."""

from __future__ import annotations

import msgspec

from mage.errors import ConfigError
from mage.types import Divergence, Weight


class LearnerSettings(msgspec.Struct, frozen=True):
    """How to learn."""

    lr: float
    warmup: int
    """Updates over which the learning rate rises."""
    decay: bool
    """Let the learning rate fall to zero over the run."""
    weight_decay: float
    grad_clip: float
    epochs: int
    """Passes over each batch."""
    minibatches: int
    """Optimizer steps per pass."""
    token_budget: int
    """Positions per micro-batch; memory, not results, depends on it. Halved when memory runs out."""
    gradient_checkpointing: bool
    """Keep only what goes into each layer, and compute the rest again for the gradient."""
    compile: str | bool
    """Compile the decoder layers; `auto` is yes on CUDA and no on a CPU."""
    lora_rank: int
    """Rank of a low-rank adapter; 0 trains all weights."""
    lora_alpha: int
    """The adapter is scaled by this over its rank; 0 is twice the rank."""
    lora_targets: str | tuple[str, ...]
    """`all-linear`, or the names of the layers that get an adapter."""
    weight: Weight
    clip_low: float
    clip_high: float
    dual_clip: float
    divergence: Divergence
    divergence_weight: float
    entropy_start: float
    entropy_end: float
    """The entropy bonus goes from start to end over the run."""
    entropy_reflect: float
    """What a reflection's entropy counts for, relative to that of play turns."""
    entropy_even: float
    """What evenness counts for, relative to entropy."""
    entropy_floor: float
    """The bonus is raised while the normalised entropy of play turns is under this; 0 is off."""
    entropy_rate: float
    prediction_weight: float
    """Weight of predicting the text, next token by next token; 0 is off."""
    value_weight: float
    """Weight of the value loss, for estimators that use values."""
    temperature: float
    """The temperature that the samples were drawn with."""
    steps: int
    """Length of the run, for schedules."""
    tokens: int
    """The same in tokens; where it is above 0, schedules follow them and not the steps."""
    seed: int
    max_skips: int
    """Updates in a row that may be skipped because something was not finite."""

    def __post_init__(self) -> None:
        """Refuse settings under which nothing, or not what was asked for, would be learned."""
        if self.temperature == 0.0:
            raise ConfigError("agent.temperature = 0: a certain policy has no gradient; train at a temperature above 0")
        if self.entropy_floor > 0.0 and not (self.entropy_start > 0.0 and self.entropy_end > 0.0):
            raise ConfigError(
                f"learner.entropy_floor = {self.entropy_floor} raises the entropy bonus, "
                "so learner.entropy_start and learner.entropy_end must be above 0"
            )

    def rate(self, num_updates: int, num_tokens: int) -> float:
        """The learning rate after some updates, which took so many tokens."""
        rise = min(1.0, (num_updates + 1) / max(1, self.warmup))
        fall = 1.0 - self._done(num_updates / max(1, self.steps), num_tokens) if self.decay else 1.0
        return self.lr * rise * fall

    def bonus(self, num_updates: int, num_tokens: int) -> float:
        """The entropy bonus after some updates, before the floor raises it."""
        done = self._done(num_updates / max(1, self.steps - 1), num_tokens)
        return self.entropy_start + (self.entropy_end - self.entropy_start) * done

    def _done(self, by_updates: float, num_tokens: int) -> float:
        """How much of the run lies behind, from 0 to 1."""
        return min(1.0, num_tokens / self.tokens if self.tokens else by_updates)
