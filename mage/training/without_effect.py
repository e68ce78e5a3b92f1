"""Settings that cannot have an effect with the others of a config: they are refused where training is asked for.

Runs and sweeps that have begun go on with them. So does a sweep that varies a setting: at one of its values others may
have none.
"""

from __future__ import annotations

from typing import NamedTuple

from mage.config.load import value_of
from mage.config.schema import Config
from mage.config.sections import LearnerConfig
from mage.errors import ConfigError
from mage.types import Divergence, Memory


class _Rule(NamedTuple):
    keys: tuple[str, ...]
    needs: bool
    """Whether the config has what these settings work on."""
    why: str


def refuse_without_effect(*configs: Config) -> None:
    """Raise a ConfigError for a setting that differs from its default and cannot have an effect."""
    usual = Config()
    for config in configs:
        for rule in _rules(config):
            for key in rule.keys if not rule.needs else ():
                value = value_of(config, key)
                if value != value_of(usual, key):
                    shown = list(value) if isinstance(value, tuple) else value
                    raise ConfigError(f"{key} = {shown}: it has no effect: {rule.why}")


def _rules(config: Config) -> tuple[_Rule, ...]:
    agent, credit, learner = config.agent, config.credit, config.learner
    has_notes = agent.memory in (Memory.REFLECTIONS, Memory.BOTH)
    return (
        _Rule(
            ("agent.tutor",),
            bool(agent.tutor_steps or agent.tutor_fade),
            "a tutor writes notes in agent.tutor_steps and agent.tutor_fade steps, which are both 0",
        ),
        _Rule(
            ("agent.tutor_steps", "agent.tutor_fade"),
            bool(agent.tutor),
            "there is no tutor; set agent.tutor to a regular expression with one group, or this to 0",
        ),
        _Rule(
            ("credit.length_free",),
            credit.length_penalty > 0,
            "no token is penalised with credit.length_penalty = 0; set that, or this to 0",
        ),
        _adapter_rule(learner),
        _Rule(
            ("learner.divergence_weight",),
            learner.divergence is not Divergence.NONE,
            "learner.divergence = none is no penalty; take k2 or k3, or set the weight to 0",
        ),
        _Rule(
            ("learner.entropy_reflect",),
            has_notes,
            f"with agent.memory = {agent.memory} there are no reflections; take reflections or both, or set it to 0",
        ),
        _Rule(
            ("rollout.address", "rollout.cpus", "rollout.gpus", "rollout.chunk"),
            config.rollout.workers > 0,
            "with rollout.workers = 0 there are no workers; set their number, or leave this out",
        ),
    )


def _adapter_rule(learner: LearnerConfig) -> _Rule:
    keys = ("learner.lora_init", "learner.lora_alpha", "learner.lora_targets")
    return _Rule(keys, learner.lora_rank > 0, "an adapter is only trained with learner.lora_rank; set that above 0")
