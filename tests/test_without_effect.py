"""Settings that cannot have an effect are refused where training is asked for, and never in what is composed."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.config.compose import RecipeKind, shipped_recipes
from mage.config.load import load_config, parse_override
from mage.errors import ConfigError
from mage.training.run import create_run_directory, train_run
from mage.training.start import check_start
from mage.training.without_effect import refuse_without_effect
from tests.tiny import SMALL, tiny_config

TUTOR = r"agent.tutor=opponent (\w+)"
NOTES = "agent.memory=reflections"

REFUSED = [
    (
        [NOTES, TUTOR],
        r"agent\.tutor = opponent \(\\w\+\): it has no effect: a tutor writes notes in agent\.tutor_steps",
    ),
    ([NOTES, "agent.tutor_steps=5"], r"agent\.tutor_steps = 5: it has no effect: there is no tutor; set agent\.tutor"),
    ([NOTES, "agent.tutor_fade=5"], r"agent\.tutor_fade = 5: it has no effect: there is no tutor"),
    (["credit.length_free=9"], r"credit\.length_free = 9: it has no effect: .* credit\.length_penalty = 0"),
    (["learner.lora_alpha=8"], r"learner\.lora_alpha = 8: it has no effect: .* learner\.lora_rank; set that above 0"),
    (["learner.lora_targets=[q_proj]"], r"learner\.lora_targets = \['q_proj'\]: it has no effect"),
    (["learner.lora_init=adapter"], r"learner\.lora_init = adapter: it has no effect: an adapter is only trained"),
    (
        ["learner.divergence_weight=0.1"],
        r"learner\.divergence_weight = 0\.1: it has no effect: .* take k2 or k3, or set",
    ),
    (["agent.memory=history", "learner.entropy_reflect=1"], r"learner\.entropy_reflect = 1\.0: it has no effect"),
    (
        ["rollout.address=auto"],
        r"rollout\.address = auto: it has no effect: with rollout\.workers = 0 there are no work",
    ),
    (["rollout.gpus=0.5"], r"rollout\.gpus = 0\.5: it has no effect"),
    (["rollout.cpus=2"], r"rollout\.cpus = 2: it has no effect"),
    (["rollout.chunk=8"], r"rollout\.chunk = 8: it has no effect"),
]
ALLOWED = [
    [NOTES, TUTOR, "agent.tutor_fade=5"],
    ["credit.length_free=9", "credit.length_penalty=0.1"],
    ["learner.lora_alpha=8", "learner.lora_rank=4"],
    ["learner.divergence_weight=0.1", "learner.divergence=k3"],
    ["learner.divergence=k3"],
    [NOTES, "learner.entropy_reflect=1"],
    ["rollout.address=auto", "rollout.workers=2"],
]


@pytest.mark.parametrize(("overrides", "says"), REFUSED, ids=[given[-1] for given, _ in REFUSED])
def test_a_setting_without_an_effect_is_refused_in_a_line(overrides: list[str], says: str, tmp_path: Path) -> None:
    values = dict(map(parse_override, (*SMALL, *overrides)))
    with pytest.raises(ConfigError, match=says) as caught:
        mage.train("rps", values, folder=tmp_path / "run", quiet=True)
    assert "\n" not in str(caught.value)
    for command in (["train", "rps", "--dry-run"], ["train", "rps"], ["sweep", "rps"]):
        done = CliRunner().invoke(app, [*command, "--run", str(tmp_path / "run"), *SMALL, *overrides])
        assert isinstance(done.exception, ConfigError)
        assert str(done.exception) == str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("overrides", ALLOWED, ids=" ".join)
def test_with_what_it_works_on_it_is_not(overrides: list[str]) -> None:
    refuse_without_effect(tiny_config(*overrides))


def test_no_composition_of_shipped_recipes_is_refused() -> None:
    by_kind = {kind: [recipe.name for recipe in shipped_recipes() if recipe.kind is kind] for kind in RecipeKind}
    whole = (*by_kind[RecipeKind.WORLD], *by_kind[RecipeKind.TUNED])
    others = ("", *by_kind[RecipeKind.MODEL], *by_kind[RecipeKind.METHOD])
    num = 0
    for names in product(whole, others, ("", *by_kind[RecipeKind.VARIANT])):
        try:
            config = load_config("+".join(filter(None, names)))
        except ConfigError as error:
            if "suits all" in str(error):  # two of them extend each other
                continue
            raise
        refuse_without_effect(config)
        num += 1
    assert num > 2000


def test_a_sweep_that_varies_a_setting_may_have_it_off(tmp_path: Path) -> None:
    given = {"learner.divergence_weight": 0.1, "evaluation.splits": ["rps-constants"], "evaluation.final_trials": 1}
    values = dict(map(parse_override, SMALL))
    vary = {"learner.divergence": ["none", "k3"]}
    swept = mage.sweep(
        "rps", {**values, "steps": 1, **given}, vary=vary, seeds=1, folder=tmp_path / "sweep", quiet=True
    )
    assert [run.state for run in swept.summary.runs] == ["finished", "finished"]


def test_a_run_that_has_begun_goes_on_with_it(tmp_path: Path) -> None:
    config = tiny_config("learner.divergence_weight=0.1", "steps=1", "alarms.entropy=0.0")
    check_start(config)
    create_run_directory(config, tmp_path / "run")
    train_run(tmp_path / "run", Console(quiet=True))
    assert train_run(tmp_path / "run", Console(quiet=True), values={"steps": 2}).step == 2
