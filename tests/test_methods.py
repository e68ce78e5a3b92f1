"""The training methods as recipes: the difference between two of them is the method, and each of them trains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from benchmarks.methods import LESS, SETS
from mage.config.compose import RecipeKind, Shipped, shipped_recipes
from mage.config.load import load_config
from mage.config.schema import Config
from mage.credit.dead_groups import split_dead
from mage.credit.running_stats import EMPTY
from mage.training.build import check, check_splits
from mage.training.loop import to_batch
from mage.training.parts import build_parts
from tests.learner_made import copied
from tests.tiny import collect

CREDIT = {"credit.objective", "credit.estimator", "credit.options"}
PLAIN = CREDIT
GIGPO = CREDIT | {"credit.turn"}
META = {"agent.memory", "credit.turn", "credit.episode"}
LAMER = META | {"credit.estimator", "credit.options"}
MAGE = META | {"credit.objective", "credit.to_go"}
SCALED = {"credit.options"}
"""Where the base does not scale already."""
CLONING = CREDIT | {"batch.groups", "batch.size", "learner.entropy_start", "learner.entropy_end"}

LLM_BASE = {"batch.groups", "tokens", "agent.reflection_tokens", "agent.context", "evaluation.splits"}
DIFFERENCES: dict[str, tuple[str, set[str]]] = {
    "rps-base": (
        "rps",
        {
            "tokens",
            "agent.model",
            "agent.reflection_tokens",
            "batch.groups",
            "batch.dead",
            "learner.lr",
            "learner.decay",
            "learner.entropy_start",
            "learner.entropy_end",
        },
    ),
    "rps-base+ppo": ("rps-base", PLAIN),
    "rps-base+rloo": ("rps-base", PLAIN),
    "rps-base+grpo": ("rps-base", PLAIN),
    "rps-base+gigpo": ("rps-base", GIGPO),
    "rps-base+lamer": ("rps-base", LAMER),
    "rps-base+mage": ("rps-base", MAGE),
    "rps-base+cloning batch.groups=32 batch.size=2": ("rps-base", CLONING),
    "rps-base+mage credit.to_go=false": ("rps-base+mage", {"credit.to_go"}),
    "rps-base+mage population.split=rps-seven": ("rps-base+mage", {"population.split"}),
    "rps-base+mage credit.options.scale=none": ("rps-base+mage", {"credit.options"}),
    "rps-base+mage agent.memory=history": ("rps-base+mage", {"agent.memory"}),
    "rps-base+mage agent.memory=reflections": ("rps-base+mage", {"agent.memory"}),
    "rps-base+mage credit.objective=cumulative credit.to_go=false": (
        "rps-base+mage",
        {"credit.objective", "credit.to_go"},
    ),
    "kuhn-base": (
        "kuhn",
        {"steps", "tokens", "agent.model", "agent.reflection_tokens", "batch.groups", "batch.dead"},
    ),
    "kuhn-base+grpo": ("kuhn-base", PLAIN),
    "kuhn-base+lamer": ("kuhn-base", LAMER),
    "kuhn-base+mage": ("kuhn-base", MAGE | SCALED),
    "kuhn-base+mage credit.options.scale=none": ("kuhn-base+mage", {"credit.options"}),
    **{
        f"{game}-llm-base+{name}": (f"{game}-llm-base", keys)
        for game in ("rps", "kuhn")
        for name, keys in (("mage", MAGE), ("lamer", LAMER), ("grpo", PLAIN), ("gigpo", GIGPO))
    },
    **{f"{game}-llm-base": (f"{game}-llm", LLM_BASE) for game in ("rps", "kuhn")},
    **{f"{game}-league league.learners=0": (f"{game}-league", {"league.learners"}) for game in ("rps", "kuhn")},
    **{f"{game}-league credit.options.scale=none": (f"{game}-league", {"credit.options"}) for game in ("rps", "kuhn")},
}
"""By recipe with overrides: what it is compared with, and the settings in which alone it differs."""
METHODS = [name for name in DIFFERENCES if not name.endswith("-base")]


def config_of(arm: str, more: Sequence[str] = ()) -> Config:
    """The config of an arm, a recipe with overrides after it."""
    recipe, *overrides = arm.split()
    return load_config(recipe, [*overrides, *more])


def flat(config: Config) -> dict[str, Any]:
    """All settings by their dotted keys."""
    values = config.model_dump(mode="json")
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    return plain | {f"{k}.{n}": v for k, table in values.items() if isinstance(table, dict) for n, v in table.items()}


@pytest.mark.parametrize("arm", DIFFERENCES)
def test_the_difference_is_the_method(arm: str) -> None:
    base, keys = DIFFERENCES[arm]
    mine, theirs = flat(config_of(arm)), flat(load_config(base))
    assert {key for key in mine if mine[key] != theirs[key]} - {"description"} == keys
    check(config_of(arm))
    check_splits(config_of(arm))


def test_every_arm_of_a_set_is_listed_and_trains_on_equally_much() -> None:
    compared = {arm for chosen in SETS.values() for arm in chosen.arms.values()}
    assert sorted(compared - {"rps-league", "kuhn-league"}) == sorted(METHODS)
    for chosen in SETS.values():
        configs = [config_of(arm) for arm in chosen.arms.values()]
        shared = {
            (c.tokens, c.steps, c.agent.model, c.batch.groups * c.batch.size, c.evaluation.model_dump_json(), c.world)
            for c in configs
        }
        assert len(shared) == 1
        assert configs[0].tokens > 0


def test_the_methods_are_what_their_names_say() -> None:
    mage, lamer = load_config("rps-base+mage"), load_config("rps-base+lamer")
    assert (mage.credit.objective, lamer.credit.objective) == ("differential", "cumulative")
    assert (mage.credit.turn, mage.credit.episode) == (lamer.credit.turn, lamer.credit.episode) == (0.95, 0.6)
    assert mage.agent.memory == lamer.agent.memory == "both"
    assert mage.credit.options["scale"] == "opponent"
    assert config_of(LESS["mage-no-scaling"]).credit.options == {"scale": "none", "unit": "turn"}
    assert config_of(LESS["mage-no-history"]).agent.memory == "reflections"
    assert config_of(LESS["mage-no-reflections"]).agent.memory == "history"
    for name in ("ppo", "rloo", "grpo", "gigpo", "cloning"):
        config = load_config(f"rps-base+{name}")
        assert (config.credit.estimator, config.credit.objective, config.agent.memory) == (name, "single", "history")


@pytest.mark.parametrize("recipe", [r for r in shipped_recipes() if r.kind is RecipeKind.METHOD], ids=lambda r: r.name)
def test_a_method_is_memory_and_credit_wherever_it_is_put(recipe: Shipped) -> None:
    for world in ("rps", "kuhn", "tictactoe", "rps-llm"):
        before, after = load_config(world), load_config(f"{world}+{recipe.name}")
        changed = {key for key, value in flat(after).items() if flat(before)[key] != value} - {"description"}
        cloning = {"learner.entropy_start", "learner.entropy_end", "batch.groups", "batch.size"}
        own = cloning if recipe.name == "cloning" else set()
        assert {key for key in changed if not key.startswith("credit.")} <= {"agent.memory"} | own
        assert after.credit.estimator == load_config(f"rps+{recipe.name}").credit.estimator
        assert after.credit.options == load_config(f"rps+{recipe.name}").credit.options


def test_objectives_alone_differ_in_what_is_paid_and_in_nothing_else() -> None:
    found = {name: load_config(f"dilemma+{name}") for name in ("single", "discounted", "cumulative", "differential")}
    found["final"] = load_config("dilemma+final")
    assert {name: (c.credit.objective, c.credit.episode, c.credit.to_go) for name, c in found.items()} == {
        "single": ("single", 1.0, False),
        "discounted": ("cumulative", 0.6, False),
        "cumulative": ("cumulative", 1.0, False),
        "differential": ("differential", 0.6, True),
        "final": ("final", 1.0, True),
    }
    paid = {"credit.objective", "credit.episode", "credit.to_go", "description"}
    rest = [{key: value for key, value in flat(config).items() if key not in paid} for config in found.values()]
    assert all(each == rest[0] for each in rest)
    assert (rest[0]["credit.estimator"], rest[0]["agent.memory"]) == ("rloo", "history")


SMALL = (
    "agent.model=nano(hidden=16,layers=1,heads=2)",
    "agent.context=1024",
    "device=cpu",
    "batch.groups=2",
    "batch.size=4",
    "evaluation.splits=[]",
    "learner.compile=false",
    "learner.token_budget=20000",
)


@pytest.mark.parametrize("arm", METHODS)
def test_one_step_of_every_method_changes_the_weights(arm: str) -> None:
    parts = build_parts(config_of(arm, SMALL))
    before = copied(parts.learner.weights().merged())
    groups, metrics = collect(parts)
    credited = parts.credit(groups)
    advantages, _ = parts.estimator.estimate(credited, EMPTY)
    report = parts.learner.update(to_batch(groups, credited, advantages, split_dead(advantages)[0]))
    assert metrics["play/failed_trials"] == 0
    assert report["learner/grad_norm"] > 0
    assert parts.learner.num_tokens == report["learner/tokens"] > 0
    moved = [name for name, weight in parts.learner.weights().merged().items() if not torch.equal(weight, before[name])]
    assert len(moved) == len(before)
    is_cloned = arm.startswith("rps-base+cloning")
    writes = parts.config.agent.memory in ("both", "reflections")
    assert ("entropy/reflect" in report) == writes
    assert ("learner/value_error" in report) == arm.startswith("rps-base+ppo")
    assert ("learner/imitation_loss" in report) == is_cloned == ("gap/mean_ratio" not in report)
    if not is_cloned:
        assert report["gap/mean_difference"] < 1e-4
