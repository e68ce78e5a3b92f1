"""Exported models: transformers and PEFT load them with the log-probabilities that the run had."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.config.load import to_toml
from mage.errors import ConfigError, RecordError
from mage.models.load import load_model
from mage.training.checkpoint import AHEAD, checkpoint_path, load_checkpoint, read_state
from mage.training.parts import build_parts
from tests.tiny import tiny_config

SIZES = ("steps=3", "checkpoint.every=1", "checkpoint.keep=9", "learner.lr=0.01", "seed=3", "rollout.lag=1")
JUDGED = ("evaluation.every=1", 'evaluation.splits=["rps-seven"]', "evaluation.trials=2", "world=rps(rounds=3)")
LORA = ("learner.lora_rank=4", "learner.lr=0.05")
IDS_BT = torch.tensor([[4, 9, 33, 70, 5, 12, 60, 2, 4, 8, 100, 31]])


def trained(folder: Path, *overrides: str) -> Path:
    recipe = folder / "tiny.toml"
    recipe.write_text(to_toml(tiny_config(*SIZES, "evaluation.final_trials=2", *overrides)), encoding="utf-8")
    return mage.train(str(recipe), folder=folder / "run", quiet=True).path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("whole"), *JUDGED)


@pytest.fixture(scope="module")
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("peft", reason="the extra lora is not installed")
    return trained(tmp_path_factory.mktemp("adapter"), *LORA)


def weights(run: Path, step: int) -> Mapping[str, torch.Tensor]:
    """What the engine plays with after a step, from the learner itself."""
    parts = build_parts(mage.open_run(run).config)
    load_checkpoint(checkpoint_path(run / "checkpoints", step), parts.learner)
    return {name: tensor.clone() for name, tensor in parts.learner.weights().merged().items()}


def logprobs(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model.eval()(IDS_BT).logits.log_softmax(-1)
    return found


def expected(run: Path, step: int) -> torch.Tensor:
    model = load_model(mage.open_run(run).config.agent.model, seed=99, tokenizer=run / "tokenizer").model
    model.load_state_dict(weights(run, step))
    return logprobs(model)


def test_transformers_loads_it_with_the_same_log_probabilities(run: Path, tmp_path: Path) -> None:
    assert mage.export_model(run, tmp_path / "model") == tmp_path / "model"
    files = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja", "README.md"} <= files
    assert not files & {"optimizer.safetensors", "state.json"}
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert torch.allclose(logprobs(model), expected(run, 3), atol=1e-5, rtol=0)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    messages = [{"role": "user", "content": "Round 1 of 3."}]
    asked = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert asked == "<|user|>Round 1 of 3.<|assistant|>"
    card = (tmp_path / "model" / "README.md").read_text()
    assert "Weights after step 3 of 3." in card
    assert "AutoModelForCausalLM" in card
    again = load_model(str(tmp_path / "model"))
    assert torch.equal(logprobs(again.model), logprobs(model)), "mage loads it too"


def test_a_step_or_the_best_can_be_asked_for(run: Path, tmp_path: Path) -> None:
    mage.export_model(run, tmp_path / "first", step=1)
    assert (checkpoint_path(run / "checkpoints", 1) / AHEAD).exists()
    assert not (tmp_path / "first" / AHEAD).exists()
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "first")
    assert torch.allclose(logprobs(model), expected(run, 1), atol=1e-5, rtol=0)
    assert not torch.allclose(logprobs(model), expected(run, 3), atol=1e-5, rtol=0)
    best = read_state(checkpoint_path(run / "checkpoints", 3)).best
    assert best is not None
    done = CliRunner().invoke(app, ["export-model", str(run), "--best", "-o", str(tmp_path / "best")])
    assert done.exit_code == 0
    assert f"after step {best[1]} to " in done.output
    found, wanted = load_file(tmp_path / "best" / "model.safetensors"), weights(run, best[1])
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in found.items())


def test_an_adapter_is_exported_as_peft_has_it_or_merged(adapted: Path, tmp_path: Path) -> None:
    from peft import AutoPeftModelForCausalLM

    wanted = expected(adapted, 3)
    name, tokenizer = mage.open_run(adapted).config.agent.model, adapted / "tokenizer"
    first = logprobs(load_model(name, seed=3, tokenizer=tokenizer).model)
    assert (wanted - first).abs().max() > 1e-3, "the adapter has learned something"
    mage.export_model(adapted, tmp_path / "adapter")
    files = {path.name for path in (tmp_path / "adapter").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "README.md", "base"} <= files
    assert "model.safetensors" not in files
    model = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter")
    assert torch.allclose(logprobs(model), wanted, atol=1e-5, rtol=0)
    assert "AutoPeftModelForCausalLM" in (tmp_path / "adapter" / "README.md").read_text()
    mage.export_model(adapted, tmp_path / "merged", merge=True)
    assert not list((tmp_path / "merged").glob("adapter*"))
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert torch.allclose(logprobs(merged), wanted, atol=1e-5, rtol=0)


def test_an_adapter_of_a_directory_names_the_directory(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="the extra lora is not installed")
    from peft import AutoPeftModelForCausalLM

    load_model("nano(hidden=16,layers=1,heads=2,context=512)", seed=8, worlds=["rps(rounds=2)"]).save(tmp_path / "mine")
    run = trained(tmp_path, *LORA, f"agent.model={tmp_path / 'mine'}")
    mage.export_model(run, tmp_path / "adapter")
    assert not (tmp_path / "adapter" / "base").exists()
    model = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter")
    assert torch.allclose(logprobs(model), expected(run, 3), atol=1e-5, rtol=0)


def test_an_adapter_in_fewer_bits_is_merged_as_the_engine_had_it(tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="the extra lora is not installed")
    run = trained(tmp_path, *LORA, "dtype=bfloat16")
    mage.export_model(run, tmp_path / "merged", merge=True)
    found, wanted = load_file(tmp_path / "merged" / "model.safetensors"), weights(run, 3)
    assert {tensor.dtype for tensor in found.values()} == {torch.bfloat16}
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in found.items())


def test_merging_what_is_whole_changes_nothing(run: Path, tmp_path: Path) -> None:
    for name, merge in (("a", False), ("b", True)):
        mage.export_model(run, tmp_path / name, merge=merge)
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


def test_what_cannot_be_exported_is_refused_and_leaves_nothing(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="has no checkpoint of step 7; it has 1, 2, 3"):
        mage.export_model(run, tmp_path / "out", step=7)
    with pytest.raises(ConfigError, match="a step or ask for the best, and not both"):
        mage.export_model(run, tmp_path / "out", step=1, best=True)
    with pytest.raises(
        RecordError, match=r"was never evaluated while it trained, so none is best; set evaluation\.every"
    ):
        mage.export_model(trained(tmp_path, "steps=1"), tmp_path / "out", best=True)
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "tiny.toml").unlink()
    with pytest.raises(RecordError, match="does not exist; a run is a directory"):
        mage.export_model(tmp_path / "nowhere", tmp_path / "out")
    unborn = shutil.copytree(run, tmp_path / "unborn", ignore=shutil.ignore_patterns("checkpoints"))
    with pytest.raises(RecordError, match="has no checkpoint yet"):
        mage.export_model(unborn, tmp_path / "out")
    shutil.rmtree(unborn)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    for used in (tmp_path / "used", tmp_path / "used" / "file"):
        with pytest.raises(RecordError, match="is not empty; name a new directory for the model"):
            mage.export_model(run, used)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "used"]
    (tmp_path / "empty").mkdir()
    mage.export_model(run, tmp_path / "empty")
    assert (tmp_path / "empty" / "config.json").is_file()
