"""`mage plan`: what is where, whether it fits, what to change, and how fast a step is."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.config.load import load_config
from mage.config.sections import LearnerConfig
from mage.errors import ConfigError
from mage.planning.cards import USABLE
from mage.planning.figures import Basis
from mage.planning.learner_memory import BFLOAT16, Placement, nearest
from mage.planning.measured import GIB, measured
from mage.planning.plan import Plan, plan
from mage.planning.shapes import named_shapes
from mage.planning.trial_tokens import count_trial_tokens
from mage.training.start import check_config
from tests.tree import ROOT


def rate(found: Plan, name: str, unit: str) -> float:
    (value,) = [one.value for one in found.rates if (one.name.split(" of ")[0], one.unit) == (name, unit)]
    return value


def part(found: Plan, name: str, card: int = 0) -> float:
    (size,) = [one.num_bytes for one in found.cards[card].parts if one.name == name]
    return size / GIB


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["plan", *arguments])


def test_qwen3_4b_with_lora_fits_one_card_of_80_gb() -> None:
    found = plan("rps+qwen3-4b")
    assert found.fits
    assert found.gpus == 1
    assert found.gib == 80
    assert found.shape.name == "qwen3-4b", "the directory Qwen3-4B is not there, and there is a shape of its name"
    assert found.verdict.startswith("fits: learner and engine needs 5")
    assert [one.name for one in found.cards[0].parts if one.basis is not Basis.COMPUTED] == ["activations"]
    (learning,) = [one for one in found.rates if (one.name, one.unit) == ("learning", "tokens/s")]
    assert learning.basis is Basis.MEASURED
    assert learning.value == pytest.approx(17_074, rel=0.01)
    assert learning.source.endswith("benchmarks/speed.md: Qwen3-4B, LoRA 16, eager")


def test_thoughts_of_qwen2_5_fit_one_card_of_48_gb() -> None:
    found = plan("doors+qwen2.5-1.5b+differential+thoughts", gib=48)
    assert found.fits
    assert found.shape.name == "qwen2.5-1.5b"
    (step,) = [one for one in found.rates if one.name == "step"]
    assert 0.8 < step.value / 7.6 < 1.3, "seconds of benchmarks/llm.md; texts are planned at their full length"


@pytest.mark.parametrize("world", ["rps", "kuhn", "tictactoe", "doors"])
def test_the_recipe_of_qwen3_4b_is_accepted_without_weights(world: str) -> None:
    config = load_config(f"{world}+qwen3-4b")
    check_config(config)
    done = CliRunner().invoke(app, ["train", f"{world}+qwen3-4b", "--dry-run"])
    assert done.exit_code == 0
    assert 'model = "Qwen3-4B"' in done.output


def test_a_directory_is_planned_by_its_own_sizes(tmp_path: Path) -> None:
    config = {"model_type": "qwen3", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128}
    config |= {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = plan("rps+qwen3-4b", model=str(tmp_path))
    assert found.shape.num_hidden_layers == 3
    assert found.shape.source == str(tmp_path / "config.json")


def test_seven_billion_on_eight_cards_needs_other_settings_and_then_fits() -> None:
    found = plan("rps-llm", model="7b", gpus=8)
    assert not found.fits
    (advised,) = re.findall(r"it fits with (.*)$", found.verdict)
    changed = plan("rps-llm", advised.split(), model="7b", gpus=8)
    assert changed.fits
    assert advised == "learner.ranks=8 learner.token_budget=2048"
    assert [(card.name, card.count) for card in changed.cards] == [("rank 0", 1), ("ranks 1 to 7", 7)]
    assert part(changed, "optimizer") == pytest.approx(part(found, "optimizer") / 8)
    assert changed.cards[0].num_bytes > changed.cards[1].num_bytes
    assert part(changed, "activations", 0) == part(changed, "activations", 1)


def test_at_the_start_rank_0_alone_holds_the_whole_weights_and_its_engine_besides() -> None:
    values = ["learner.ranks=8", "learner.lora_rank=16", "learner.token_budget=1024", "agent.slots=16"]
    root, other = plan("rps-llm", values, model="7b", gpus=8).cards
    engine = sum(p.num_bytes for p in root.parts if p.name.startswith(("engine", "KV")))
    assert root.start_bytes == 2 * named_shapes()["7b"].parameters + engine
    assert other.start_bytes == 0


def test_a_tenth_of_a_card_is_left_free() -> None:
    needed = plan("rps+qwen3-4b").cards[0].num_bytes / GIB
    assert plan("rps+qwen3-4b", gib=needed / 0.89).fits
    assert not plan("rps+qwen3-4b", gib=needed / 0.91).fits


@pytest.mark.parametrize(
    ("overrides", "gpus", "gib"),
    [
        (["learner.token_budget=16384"], 1, 40.0),
        (["agent.slots=1024"], 1, 80.0),
        (["learner.lora_rank=0"], 1, 80.0),
        (["learner.lora_rank=0", "learner.token_budget=16384"], 4, 80.0),
        (["learner.token_budget=auto", "agent.slots=512"], 2, 60.0),
    ],
)
def test_what_is_advised_fits_and_no_larger_number_does(overrides: list[str], gpus: int, gib: float) -> None:
    found = plan("rps+qwen3-4b", overrides, gpus=gpus, gib=gib)
    assert not found.fits
    assert max(card.num_bytes for card in found.cards) > USABLE * gib * GIB
    for advised in re.findall(r"it fits with (.*)$", found.verdict)[0].split(" or with "):
        values = advised.split()
        assert plan("rps+qwen3-4b", [*overrides, *values], gpus=gpus, gib=gib).fits, advised
        for value in values:
            key, _, number = value.partition("=")
            if key in ("learner.token_budget", "agent.slots"):
                more = [*values, f"{key}={2 * int(number)}"]
                larger = plan("rps+qwen3-4b", [*overrides, *more], gpus=gpus, gib=gib)
                is_most = int(number) in (16384, 1024, 512, 256)
                assert is_most or not larger.fits, advised


def test_workers_share_the_cards_of_ranks_because_ray_gives_them_out_from_the_first() -> None:
    values = ["learner.ranks=2", "rollout.workers=3", "rollout.gpus=1", "agent.slots=64", "learner.token_budget=2048"]
    found = plan("rps-llm", values, gpus=4)
    names = [(card.name, card.count) for card in found.cards]
    assert names == [("rank 0 + worker", 1), ("rank 1 + worker", 1), ("worker", 1), ("unused", 1)]
    weights = part(found, "worker: engine's weights")
    assert part(found, "worker: loaded weights") == weights
    for share in ("0.5", "0.4"):
        two = plan("rps-llm", [*values[1:], f"rollout.gpus={share}"], gpus=2)
        assert [(card.name, card.count) for card in two.cards] == [("learner and engine + 2 workers", 1), ("worker", 1)]
        assert part(two, "worker: engine's weights") == pytest.approx(2 * weights)


def test_the_speed_of_workers_is_shared_and_each_trial_costs_a_message() -> None:
    values = ["agent.slots=512", "rollout.chunk=512"]
    one = plan("rps-llm", values, gib=139)
    several = plan("rps-llm", [*values, "rollout.workers=4", "rollout.gpus=1"], gpus=4, gib=139)
    expected = rate(one, "playing", "s a step") / 4 + 512 * measured().worker.trial_ms / 1000 / 4
    assert rate(several, "playing", "s a step") == pytest.approx(expected)
    assert rate(several, "learning", "s a step") == rate(one, "learning", "s a step")
    chunks = plan("rps-llm", ["agent.slots=512", "rollout.workers=4", "rollout.gpus=1"], gpus=4, gib=139)
    assert rate(chunks, "generation", "tokens/s") == pytest.approx(4 * rate(one, "generation", "tokens/s") / 8)


def test_a_step_of_rps_llm_takes_about_the_time_that_was_measured() -> None:
    page = (ROOT / "benchmarks" / "llm.md").read_text(encoding="utf-8")
    low, high = (
        float(re.findall(pattern, page)[0]) for pattern in (r"and ([\d.]+) s for each", r"about ([\d.]+) s for")
    )
    found = plan("rps-llm+hard", gib=139)
    assert (low, high) == (1.00, 1.15)
    assert 0.75 * low < rate(found, "step", "s") < high


def test_the_demo_takes_the_time_that_was_measured() -> None:
    found = plan("rps")
    step = measured().cpu_step
    assert found.gpus == 0
    assert found.dtype == "float32"
    assert rate(found, "playing", "s a step") == pytest.approx(step.play_s, rel=0.03)
    assert rate(found, "learning", "s a step") == pytest.approx(step.update_s, rel=0.03)
    assert found.fits


@pytest.mark.parametrize("one", measured().learning, ids=lambda one: one.case)
def test_measured_speeds_of_learning_are_planned(one: Any) -> None:
    values = [f"learner.lora_rank={one.lora_rank}", f"learner.compile={str(one.compiled).lower()}"]
    if one.free_tokens:
        values += ["agent.reply=text", f"agent.max_tokens={one.free_tokens // 9}", "learner.prediction_weight=0"]
    found = plan("rps", values, model=one.shape, gpus=1, gib=141, trial_tokens=one.sample_tokens)
    assert rate(found, "learning", "tokens/s") == pytest.approx(one.tokens_per_s, rel=0.005)
    (learning,) = [r for r in found.rates if (r.name, r.unit) == ("learning", "tokens/s")]
    assert learning.basis is Basis.MEASURED


def test_long_samples_are_as_slow_as_measured() -> None:
    """16,384 tokens, all of them trained: a measurement that no constant is made from."""
    text = (ROOT / "benchmarks" / "speed.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"sequences of 16k tokens, all trained \| ([\d,]+)", text)
    values = ["agent.reply=text", "agent.max_tokens=1816", "agent.context=40000", "learner.prediction_weight=0"]
    found = plan("rps", values, model="qwen3-0.6b", gpus=1, gib=141, trial_tokens=16384)
    assert rate(found, "learning", "tokens/s") == pytest.approx(float(told.replace(",", "")), rel=0.1)
    (learning,) = [r for r in found.rates if (r.name, r.unit) == ("learning", "tokens/s")]
    assert learning.basis is Basis.EXTRAPOLATED


def test_larger_models_are_slower_in_everything() -> None:
    models = ("smollm2", "qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b")
    for name in ("reading", "generation"):
        speeds = [rate(plan("rps-llm", ["agent.slots=512"], model=m, gib=1000), name, "tokens/s") for m in models]
        assert speeds == sorted(speeds, reverse=True)
        assert len(set(speeds)) == len(speeds)


def test_the_nearest_measurement_has_the_same_way_of_training_first() -> None:
    card, shape = Placement(True, BFLOAT16), named_shapes()["qwen3-4b"]
    for values, case in (
        ({"compile": False}, "qwen3-4b-choice-full-eager"),
        ({}, "qwen3-0.6b-choice-full-compiled"),
        ({"lora_rank": 8, "compile": False}, "qwen3-4b-choice-lora-eager"),
        ({"lora_rank": 8}, "qwen2.5-1.5b-text-lora-compiled"),
        ({"ranks": 2}, "qwen3-4b-choice-full-eager"),
    ):
        assert nearest(shape, LearnerConfig(**values), card)[0].case == case


def test_an_automatic_budget_fills_what_is_left() -> None:
    small, large = (plan("rps+qwen3-4b", ["learner.token_budget=auto"], gib=gib) for gib in (60.0, 120.0))
    for found in (small, large):
        assert found.fits
        kept = sum(p.num_bytes for p in found.cards[0].parts if p.name != "activations")
        assert part(found, "activations") * GIB == pytest.approx(0.8 * (0.9 * found.gib * GIB - kept), rel=0.01)


def test_checkpointed_layers_keep_less_and_are_slower() -> None:
    plain, sparing = (plan("rps+qwen3-4b", [f"learner.gradient_checkpointing={flag}"]) for flag in ("false", "true"))
    assert part(sparing, "activations") < 0.2 * part(plain, "activations")
    assert rate(sparing, "learning", "tokens/s") < 0.8 * rate(plain, "learning", "tokens/s")


def test_tokens_of_texts_are_counted_at_full_length() -> None:
    short, long = (count_trial_tokens(load_config("rps-llm+text", [f"agent.max_tokens={n}"]), 2.6) for n in (16, 48))
    assert long.sampled - short.sampled == 9 * 32
    assert long.free == long.sampled
    assert count_trial_tokens(load_config("rps-llm"), 2.6).free == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["rps-llm", "learner.ranks=4", "--gpus", "2"], r"learner\.ranks = 4: each rank needs a GPU .* --gpus is 2"),
        (["rps-llm", "rollout.workers=4"], r"rollout\.gpus = 0: the model runs on cuda"),
        (["rps-league"], r"league\.learners = 4: a league is not planned for"),
        (["demo"], r"agent\.model = scripted:counter: a script needs no plan"),
        (["rps", "--model", "gpt-5"], r"cannot plan for the model 'gpt-5'"),
        (["rps", "learner.lora_rank=4", "learner.lora_targets=[fc1]"], r"learner\.lora_targets: 'fc1' .*q_proj"),
        (["rps", "--model", "nano(hidden=1)"], "hidden"),
        (["rps-llm", "--gib", "inf"], r"gib = inf: give a number from 1 up"),
    ],
)
def test_what_cannot_be_planned_is_one_line(arguments: list[str], error: str) -> None:
    done = invoke(*arguments)
    assert isinstance(done.exception, ConfigError)
    assert re.search(error, str(done.exception)), done.exception
    assert "\n" not in str(done.exception)


@pytest.mark.parametrize(
    ("name", "value"), [("gpus", -1), ("gib", 0.5), ("gib", math.nan), ("per_node", 0), ("trial_tokens", 0)]
)
def test_numbers_that_nothing_has_are_refused_in_python_too(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} = {value}: give a (whole )?number from (0 to 100000|1 up)$"):
        plan("rps", **{name: value})


def test_the_exit_code_says_whether_it_fits_and_json_has_everything() -> None:
    fitting, failing = invoke("rps+qwen3-4b", "--json"), invoke("rps+qwen3-4b", "--gib", "20", "--json")
    assert (fitting.exit_code, failing.exit_code) == (0, 1)
    found = json.loads(fitting.output)
    assert found["fits"] is True
    assert {one["basis"] for one in found["rates"]} <= {"computed", "measured", "extrapolated"}
    assert all(one["source"] for one in (*found["rates"], *found["cards"][0]["parts"]))
    assert found["parameters"] == 4_022_468_096


def test_the_pages_say_what_is_planned() -> None:
    scaling, models = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("scaling.md", "models.md"))
    told = re.findall(r"^\$ mage plan (.*)\n(.*)$", scaling, re.MULTILINE)
    assert len(told) == 2
    for arguments, line in told:
        assert line == json.loads(invoke(*arguments.split(), "--json").output)["verdict"]
    (advised,) = re.findall(r"it fits with (.*)$", told[0][1])
    root, other = plan("rps-llm", advised.split(), model="7b", gpus=8).cards
    needs = f"rank 0 needs {root.num_bytes / GIB:.1f} GiB and the other ranks {other.num_bytes / GIB:.1f}"
    assert needs in scaling
    assert f"planned as {rate(plan('rps-llm', gib=139), 'step', 's'):.2f} s" in scaling
    larger = plan("rps+qwen2.5-1.5b", ["batch.groups=32", "agent.slots=256"], model="qwen2.5-1.5b", gpus=1)
    assert f"is planned as {rate(larger, 'step', 's'):.2f} s" in scaling
    qwen = plan("rps+qwen3-4b")
    assert f"takes {qwen.cards[0].num_bytes / GIB:.0f} GiB of one card" in models
    assert f"{part(qwen, 'activations'):.1f} of them" in models
    assert f"{part(qwen, 'KV cache'):.1f} for 128 slots" in models


def test_it_prints_and_is_a_function_of_the_package() -> None:
    printed = str(mage.plan("rps+qwen3-4b", {"agent.slots": 64}))
    assert "64 slots of 1,280 tokens" in printed
    table = invoke("rps+qwen3-4b", "agent.slots=64").output
    for word in ("KV cache", "LoRA", "engine's weights", "activations", "reading", "generation", "learning", "fits:"):
        assert word in printed
        assert word in table


def test_neither_torch_nor_weights_are_loaded() -> None:
    code = (
        "import sys, mage; mage.plan('rps+qwen3-4b'); mage.plan('rps'); mage.plan('rps-llm', model='7b', gpus=8); "
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
