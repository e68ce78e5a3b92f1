"""Threads: a run uses all cores unless told otherwise, records the number, and a small model's bits do not change."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch

from mage.config.load import load_config
from mage.config.schema import Config
from mage.learners.metric_sums import MetricSums
from mage.learners.workers import GradientWorkers
from mage.models.device import num_cores, share_threads
from mage.runs.console import plain_console
from mage.runs.store import read_info
from mage.training.run import create_run, train_run
from mage.training.sweep import begin_sweep, run_sweep

TINY = {
    "agent.model": "nano(hidden=16,layers=1,heads=2,context=512)",
    "agent.context": 512,
    "batch.groups": 2,
    "batch.size": 4,
    "steps": 2,
    "learner.token_budget": 512,
    "evaluation.splits": [],
}


def tiny(**values: object) -> Config:
    return load_config("rps", {**TINY, **values})


def trained(folder: Path, threads: int) -> str:
    path, parts = create_run(tiny(threads=threads), folder, "rps")
    assert parts.learner._settings.workers == threads  # type: ignore[attr-defined]
    train_run(path, plain_console(quiet=True), parts=parts)
    weights = hashlib.sha256((path / "checkpoints/step-000002/model.safetensors").read_bytes()).hexdigest()
    return weights + (path / "metrics.jsonl").read_text(encoding="utf-8")


def test_a_small_model_has_the_same_bits_with_any_number_of_threads(tmp_path: Path) -> None:
    one, three = trained(tmp_path / "one", 1), trained(tmp_path / "three", 3)
    assert one == three


def test_a_run_takes_all_cores_and_records_their_number(tmp_path: Path) -> None:
    path, _ = create_run(tiny(), tmp_path / "run", "rps")
    assert read_info(path).config["threads"] == num_cores() > 0


@pytest.mark.slow
def test_jobs_of_a_sweep_share_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage.training.sweep_jobs.num_cores", lambda: 6)
    folder = begin_sweep([("rps", tiny(steps=1))], 2, tmp_path / "sweep", None)
    run_sweep(folder, plain_console(quiet=True), 2)
    assert [read_info(path.parent).config["threads"] for path in sorted(folder.glob("*/run.json"))] == [3, 3]


def test_only_larger_models_split_an_operation() -> None:
    before = torch.get_num_threads()
    try:
        assert (share_threads(torch.nn.Linear(4, 4), 3), torch.get_num_threads()) == (3, 1)
        assert (share_threads(torch.nn.Linear(10_000, 1_000, device="cpu"), 3), torch.get_num_threads()) == (1, 3)
    finally:
        torch.set_num_threads(before)


def test_gradients_are_added_in_the_order_of_the_micro_batches() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    unused = torch.nn.Parameter(torch.ones(1))
    amounts = [1e8, 1.0, -1e8, 0.25]  # in float32 another order has another sum
    workers = GradientWorkers([weight, unused], 4)
    losses = workers.accumulate(amounts, lambda amount, _: (weight * amount).sum(), MetricSums())
    assert weight.grad is not None
    assert (weight.grad.item(), unused.grad) == (0.25, None)
    assert [loss.item() for loss in losses] == amounts
