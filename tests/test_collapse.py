"""The collapse of free text, in seconds on a CPU: what brings it about, when it is noticed, and what prevents it."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from mage.files import read_lines
from mage.training.run import create_run_directory, train_run
from tests.speaking import SPEAKING, teach
from tests.tiny import tiny_config

STEPS = 20
LAST = 5
HIGH, LOW = "learner.lr=0.01", "learner.lr=0.001"
REFERENCE = ("learner.divergence=k3", "learner.divergence_weight=0.3")


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that writes the form most of the time, thoughts of any words and all moves alike."""
    return teach(tmp_path_factory.mktemp("speaking"))


def trained(model: Path, folder: Path, *overrides: str) -> list[dict[str, float]]:
    """The metrics of a run from the speaking model, step by step."""
    how = (f"agent.model={model}", f"steps={STEPS}", "alarms.patience=3", *overrides)  # a later value stands
    create_run_directory(tiny_config(*SPEAKING, *how), folder)
    train_run(folder, Console(quiet=True))
    return list(read_lines(folder / "metrics.jsonl"))


def late(metrics: list[dict[str, float]], name: str) -> float:
    """The mean of a metric over the last steps."""
    return sum(step[name] for step in metrics[-LAST:]) / LAST


def alarms(folder: Path) -> dict[str, int]:
    """The step after which each metric first raised an alarm."""
    first: dict[str, int] = {}
    for event in read_lines(folder / "events.jsonl"):
        if "alarm" in event:
            first.setdefault(event["alarm"].split()[0], event["step"])
    return first


def test_a_high_rate_collapses_and_is_noticed_within_three_steps(speaking: Path, tmp_path: Path) -> None:
    found = trained(speaking, tmp_path / "run", HIGH)
    assert found[0]["entropy/play"] > 0.1
    assert found[0]["groups/distinct_texts"] > 0.5
    assert found[0]["groups/dead_share"] == 0.0
    assert late(found, "entropy/play") < 0.02
    assert late(found, "groups/distinct_texts") < 0.1
    assert late(found, "groups/dead_share") > 0.4
    assert late(found, "play/tokens_sampled") / (8 * 8 * 2) < 4.2, "a bare action in its tag and the end: four tokens"
    collapsed = 1 + next(number for number, step in enumerate(found) if step["entropy/play"] < 0.02)
    assert alarms(tmp_path / "run")["groups/distinct_texts"] <= collapsed + 3


@pytest.mark.parametrize("how", [(LOW,), (HIGH, *REFERENCE)], ids=["low rate", "reference"])
def test_a_low_rate_or_a_reference_prevents_it(speaking: Path, tmp_path: Path, how: tuple[str, ...]) -> None:
    found = trained(speaking, tmp_path / "run", *how)
    assert late(found, "entropy/play") > 0.06
    assert late(found, "groups/distinct_texts") > 0.25
    assert late(found, "groups/dead_share") == 0.0
    assert alarms(tmp_path / "run") == {}
