"""Learners of a tiny model, and trials with reflections for them to learn from."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from torch import Tensor

from mage.learners.local import LocalLearner
from mage.learners.settings import learner_settings
from mage.training.parts import Parts
from mage.types import Phase, Sample
from tests.tiny import model_of, samples_of, sharpen, tiny_config, tiny_parts

MODES = {
    "choice": (),
    "choice, notes": ("agent.memory=both", "agent.reflection_tokens=6"),
    "choice, notes only": ("agent.memory=reflections", "agent.reflection_tokens=5"),
    "text": ("agent.reply=text", "agent.max_tokens=6"),
    "text, notes": ("agent.reply=text", "agent.max_tokens=6", "agent.memory=both", "agent.reflection_tokens=4"),
}


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as they are now."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


def fresh(parts: Parts, *overrides: str, with_values: bool = False) -> LocalLearner:
    """A learner with the same weights and other settings."""
    model = copy.deepcopy(model_of(parts))
    return LocalLearner(model, learner_settings(tiny_config(*overrides)), with_values=with_values)


def played_notes() -> tuple[Parts, list[Sample]]:
    """Trials with moves of one token and reflections of several, and advantages that differ."""
    kuhn = ("world=kuhn_poker", 'population.members=["conservative", "aggressive", "uniform"]', "trial.episodes=3")
    parts = sharpen(tiny_parts(*MODES["choice, notes"], *kuhn, "batch.groups=3", "seed=3"))
    samples = samples_of(parts)
    assert {phase for s in samples for phase in s.phases} == set(Phase)
    assert len({a for s in samples for a in s.advantages}) > 4
    assert len({len(s.tokens) for s in samples}) > 2
    return parts, sorted(samples, key=lambda s: -len(s.tokens))
