"""The training methods as recipes: the difference between two of them is the method, and each of them trains."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import torch

from benchmarks.judge import SETS
from mage.build import check, check_splits
from mage.config import load_config, recipe_names
from mage.credit.dead import split_dead
from mage.credit.stats import EMPTY
from mage.learn.parts import build_parts
from mage.schema import Config
from mage.train import collect, to_batch
from tests.learner_made import copied

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
    "rps-ppo": ("rps-base", PLAIN),
    "rps-rloo": ("rps-base", PLAIN),
    "rps-grpo": ("rps-base", PLAIN),
    "rps-gigpo": ("rps-base", GIGPO),
    "rps-lamer": ("rps-base", LAMER),
    "rps-mage": ("rps-base", MAGE),
    "rps-cloning": ("rps-base", CLONING),
    "rps-mage-as-published": ("rps-mage", {"credit.to_go"}),
    "rps-mage-no-population": ("rps-mage", {"population.split"}),
    "rps-mage-no-scaling": ("rps-mage", {"credit.options"}),
    "rps-mage-no-reflections": ("rps-mage", {"agent.memory"}),
    "rps-mage-no-history": ("rps-mage", {"agent.memory"}),
    "rps-mage-no-last-episode": ("rps-mage", {"credit.objective", "credit.to_go"}),
    "kuhn-base": (
        "kuhn",
        {"steps", "tokens", "agent.model", "agent.reflection_tokens", "batch.groups", "batch.dead"},
    ),
    "kuhn-grpo": ("kuhn-base", PLAIN),
    "kuhn-lamer": ("kuhn-base", LAMER),
    "kuhn-mage": ("kuhn-base", MAGE | SCALED),
    "kuhn-mage-no-scaling": ("kuhn-mage", {"credit.options"}),
    **{
        f"{game}-llm-{name}": (f"{game}-llm-base", keys)
        for game in ("rps", "kuhn")
        for name, keys in (("mage", MAGE), ("lamer", LAMER), ("grpo", PLAIN), ("gigpo", GIGPO))
    },
    **{f"{game}-llm-base": (f"{game}-llm", LLM_BASE) for game in ("rps", "kuhn")},
    **{f"{game}-league-fixed": (f"{game}-league", {"league.learners"}) for game in ("rps", "kuhn")},
    **{f"{game}-league-no-scaling": (f"{game}-league", {"credit.options"}) for game in ("rps", "kuhn")},
}
"""By recipe: what it is compared with, and the settings in which alone it differs."""
METHODS = [name for name in DIFFERENCES if not name.endswith("-base")]


def flat(config: Config) -> dict[str, Any]:
    """All settings by their dotted keys."""
    values = config.model_dump(mode="json")
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    return plain | {f"{k}.{n}": v for k, table in values.items() if isinstance(table, dict) for n, v in table.items()}


@pytest.mark.parametrize("recipe", DIFFERENCES)
def test_the_difference_is_the_method(recipe: str) -> None:
    base, keys = DIFFERENCES[recipe]
    mine, theirs = flat(load_config(recipe)), flat(load_config(base))
    assert {key for key in mine if mine[key] != theirs[key]} == keys | {"description"}
    check(load_config(recipe))
    check_splits(load_config(recipe))


def test_every_method_of_a_set_is_listed_and_trains_on_equally_much() -> None:
    names = {name for name, _ in recipe_names()}
    compared = [recipe for chosen in SETS.values() for sweep in chosen.sweeps for recipe in sweep]
    assert sorted(set(compared) - {"rps-league", "kuhn-league"}) == sorted(METHODS)
    assert set(DIFFERENCES) <= names
    for chosen in SETS.values():
        configs = [load_config(recipe) for sweep in chosen.sweeps for recipe in sweep]
        shared = {
            (c.tokens, c.steps, c.agent.model, c.batch.groups * c.batch.size, c.evaluation.model_dump_json(), c.game)
            for c in configs
        }
        assert len(shared) == 1
        assert configs[0].tokens > 0


def test_the_methods_are_what_their_names_say() -> None:
    mage, lamer = load_config("rps-mage"), load_config("rps-lamer")
    assert (mage.credit.objective, lamer.credit.objective) == ("differential", "cumulative")
    assert (mage.credit.turn, mage.credit.episode) == (lamer.credit.turn, lamer.credit.episode) == (0.95, 0.6)
    assert mage.agent.memory == lamer.agent.memory == "both"
    assert mage.credit.options["scale"] == "agent"
    assert load_config("rps-mage-no-scaling").credit.options["scale"] == "none"
    assert load_config("rps-mage-no-history").agent.memory == "reflections"
    assert load_config("rps-mage-no-reflections").agent.memory == "history"
    for name in ("ppo", "rloo", "grpo", "gigpo", "cloning"):
        config = load_config(f"rps-{name}")
        assert (config.credit.estimator, config.credit.objective, config.agent.memory) == (name, "single", "history")


@pytest.mark.parametrize("name", ["grpo", "gigpo", "lamer", "mage"])
def test_a_method_is_the_same_at_the_length_of_the_demo(name: str) -> None:
    long, short, demo = load_config(name), load_config(f"rps-{name}"), load_config("rps")
    assert (long.credit, long.agent.memory) == (short.credit, short.agent.memory)
    assert (long.steps, long.learner, long.batch) == (demo.steps, demo.learner, demo.batch)


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


@pytest.mark.parametrize("recipe", METHODS)
def test_one_step_of_every_method_changes_the_weights(recipe: str) -> None:
    parts = build_parts(load_config(recipe, SMALL))
    before = copied(parts.learner.weights())
    groups, figures = asyncio.run(collect(parts.config, parts, 0, EMPTY))
    credited = parts.credit(groups)
    advantages, _ = parts.estimator.estimate(credited, EMPTY)
    report = parts.learner.update(to_batch(groups, credited, advantages, split_dead(advantages)[0]))
    assert figures["play/failed_trials"] == 0
    assert report["learner/grad_norm"] > 0
    assert parts.learner.num_tokens == report["learner/tokens"] > 0
    moved = [name for name, weight in parts.learner.weights().items() if not torch.equal(weight, before[name])]
    assert len(moved) == len(before)
    writes = parts.config.agent.memory in ("both", "reflections")
    assert ("entropy/reflect" in report) == writes
    assert ("learner/value_error" in report) == (recipe == "rps-ppo")
    assert ("learner/imitation_loss" in report) == (recipe == "rps-cloning") == ("gap/mean_ratio" not in report)
    if recipe != "rps-cloning":
        assert report["gap/mean_difference"] < 1e-4
