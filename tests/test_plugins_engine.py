"""An engine and a learner of one's own train a run through protocols and registries alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

import mage
from mage.checks.servers import check_policy_server, check_publish
from mage.config.load import load_config
from mage.engines.settings import EngineSettings
from mage.errors import ConfigError
from mage.files import read_lines
from mage.models.load import load_model
from mage.training.start import check_start
from mage.weights import PolicyWeights
from tests.made import made_settings
from tests.plugins_engine import CountingServer, SgdLearner
from tests.test_policy_server import learner_of, loaded, other_weights

SHORT: dict[str, object] = {
    "agent.model": "nano(hidden=16,layers=1,heads=2,context=512)",
    "agent.context": 512,
    "trial.episodes": 2,
    "batch.groups": 4,
    "batch.size": 4,
    "steps": 3,
    "checkpoint.every": 2,
    "evaluation.splits": ["rps-seven"],
    "evaluation.final_trials": 1,
    "learner.prediction_weight": 0.0,
}
OWN = {**SHORT, "engine": "counting", "learner.kind": "sgd", "learner.lr": 0.5}


@pytest.fixture(autouse=True)
def _registered(own_names: None) -> None:
    mage.register_engine("counting", CountingServer)
    mage.register_learner("sgd", SgdLearner)


def weights(folder: Path, step: int) -> dict[str, bytes]:
    found = load_file(folder / "checkpoints" / f"step-{step:06d}" / "model.safetensors")
    return {name: tensor.numpy().tobytes() for name, tensor in found.items()}


def test_a_run_trains_with_both_and_goes_on_after_a_stop(tmp_path: Path) -> None:
    whole = mage.train("rps", OWN, folder=tmp_path / "whole", quiet=True).path
    timings = list(read_lines(whole / "timings.jsonl"))
    assert all(line["calls"] >= 2 * 4 * 4 for line in timings), "every trial asks for several moves"
    assert all(line["capture_s"] == 0.0 for line in timings)
    metrics = [line for line in read_lines(whole / "metrics.jsonl") if "learner/loss" in line]
    assert len(metrics) == 3
    assert weights(whole, 2) != weights(whole, 3)
    mage.train("rps", {**OWN, "steps": 2, "evaluation.splits": []}, folder=tmp_path / "begun", quiet=True)
    assert weights(tmp_path / "begun", 2) == weights(whole, 2)
    mage.open_run(tmp_path / "begun").resume({"steps": 3}, quiet=True)
    assert weights(tmp_path / "begun", 3) == weights(whole, 3)


def test_another_engine_changes_nothing_about_the_results(tmp_path: Path) -> None:
    usual = {**SHORT, "steps": 2, "evaluation.splits": []}
    folders = [tmp_path / "local", tmp_path / "counting"]
    for folder in folders:
        mage.train("rps", {**usual, "engine": folder.name}, folder=folder, quiet=True)
    for name in ("metrics.jsonl", "trials.jsonl", "checkpoints/step-000002/model.safetensors"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_a_league_trains_with_both(tmp_path: Path) -> None:
    league = {"league.learners": 2, "league.snapshot_every": 1, "league.snapshots": 2, "batch.dead": "drop"}
    own = {**OWN, **league, "evaluation.splits": []}
    whole = mage.train("rps", own, folder=tmp_path / "whole", quiet=True).path
    mage.train("rps", {**own, "steps": 2}, folder=tmp_path / "begun", quiet=True)
    mage.open_run(tmp_path / "begun").resume({"steps": 3}, quiet=True)
    assert weights(tmp_path / "begun", 3) == weights(whole, 3)
    assert all(line["calls"] > 0 for line in read_lines(whole / "timings.jsonl"))


def test_a_run_with_both_is_evaluated(tmp_path: Path) -> None:
    run = mage.train("rps", {**OWN, "evaluation.splits": []}, folder=tmp_path / "run", quiet=True)
    report = mage.evaluate(run, opponents=["always:rock"], trials=2)
    assert report.step == 3


def test_the_engine_keeps_the_contract() -> None:
    def make() -> CountingServer:
        return CountingServer(loaded("tied"), EngineSettings(256, slots=8))

    check_policy_server(make, other_weights("tied"), loaded("tied").chat_format)
    check_publish(make(), learner_of("tied"), loaded("tied").chat_format)
    check_publish(
        make(),
        SgdLearner(loaded("tied").model, made_settings("learner.lr=0.1"), False, False),
        loaded("tied").chat_format,
    )


def test_unknown_names_are_refused_before_a_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage.training.model_cache.load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    with pytest.raises(ConfigError, match=r"unknown engine 'cuonting'; did you mean counting\? known: "):
        check_start(load_config("rps", ["engine=cuonting"]))
    with pytest.raises(ConfigError, match="unknown learner 'adam'; known: local, sgd"):
        mage.train("rps", {"learner.kind": "adam"}, quiet=True)
    with pytest.raises(ConfigError, match="unknown engine 'x'; known: counting, local"):
        mage.evaluate("nano", world="rps", opponents=["always:rock"], overrides={"engine": "x"})


def test_only_what_makes_them_can_be_registered() -> None:
    with pytest.raises(ConfigError, match="an engine is registered by a function that makes its policy server"):
        mage.register_engine("x", 3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a learner is registered by a class or function that makes it"):
        mage.register_learner("x", None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="the engine 'local' comes with mage"):
        mage.register_engine("local", CountingServer)


def test_registering_does_not_load_torch() -> None:
    code = (
        "import sys, mage; mage.register_engine('x', print); mage.register_learner('x', print); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_plain_model_is_served_by_any_engine() -> None:
    model = load_model("nano(hidden=16,layers=1,heads=2,context=512)")
    server = CountingServer(model, EngineSettings(64, is_trained=False))
    assert server.limits.length == 64
    assert PolicyWeights(model.model.state_dict()).merged().keys() == model.model.state_dict().keys()
