"""Training with vLLM: the same trials as with the local engine, and whole runs through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ray_made import Trained, assert_same_trials, assert_same_weights, trained
from tests.vllm.made import MODEL, SMALL, TOLERANCE, need_vllm

CHOICES = ("agent.memory=history",)
TEXTS = ("agent.memory=both", "agent.reflection_tokens=6")


@pytest.mark.parametrize("lora", [(), ("learner.lora_rank=4",)], ids=["whole", "adapter"])
def test_two_steps_are_those_of_the_local_engine(tmp_path: Path, lora: tuple[str, ...]) -> None:
    need_vllm()
    found: dict[str, Trained] = {}
    for engine in ("local", "vllm"):
        found[engine] = trained(tmp_path / engine, *SMALL, *CHOICES, *lora, f"engine={engine}")
    assert_same_trials(found["vllm"].groups, found["local"].groups, TOLERANCE)
    assert_same_weights(found["vllm"].weights, found["local"].weights, TOLERANCE)
    versions = {
        call.completion.version
        for group in found["vllm"].groups
        for trial in group.trials
        for episode in trial.episodes
        for turn in episode.turns
        for call in turn.calls
    }
    assert versions == {0, 1}


def run_mage(*words: str | Path) -> str:
    """What a command prints; it must succeed."""
    command = [sys.executable, "-c", "from mage.cli import main; main()", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def metrics_of(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def steps_of(folder: Path) -> set[float]:
    return {line["step"] for line in metrics_of(folder)}


TINY = (
    *SMALL,
    "world=rps(rounds=2)",
    "population.split=",
    "population.members=[always:rock]",
    "trial.episodes=2",
    "batch.groups=2",
    "batch.size=4",
    "evaluation.splits=[population]",
    "evaluation.final_trials=2",
    "steps=2",
    "threads=1",
)


@pytest.mark.parametrize(
    ("where", "ranks", "lora"),
    [("here", 1, 0), ("http", 1, 0), ("http", 2, 0), ("http", 2, 4)],
    ids=["here", "http", "two ranks", "two ranks with an adapter"],
)
def test_a_run_through_the_command_line(
    where: str, ranks: int, lora: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    need_vllm()
    engine, model = ["engine=vllm", f"learner.ranks={ranks}"], MODEL
    if where == "http":
        server = request.getfixturevalue("started")["tied"]
        engine, model = [*engine, f"agent.server={server.address}"], str(server.folder)
    common = (*TINY, *CHOICES, f"agent.model={model}", f"learner.lora_rank={lora}")
    for name, more in (("vllm", engine), ("local", ["engine=local"])):
        run_mage("train", "rps", "--run", tmp_path / name, *common, *more)
    found, wanted = metrics_of(tmp_path / "vllm"), metrics_of(tmp_path / "local")
    assert steps_of(tmp_path / "vllm") == {1, 2}
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys()
        for key, value in other.items():
            assert one[key] == pytest.approx(value, abs=1e-3), key
    timings = [json.loads(line) for line in (tmp_path / "vllm" / "timings.jsonl").read_text().splitlines()]
    assert all(line["requests"] > 0 and line["publish_s"] > 0 for line in timings)
    run_mage("train", "--resume", tmp_path / "vllm", "steps=3")
    assert steps_of(tmp_path / "vllm") == {1, 2, 3}


def test_a_run_that_writes_texts(tmp_path: Path) -> None:
    need_vllm()
    for name in ("one", "two"):
        run_mage("train", "rps", "--run", tmp_path / name, *TINY, *TEXTS, "engine=vllm", "learner.lora_rank=4")
    found = [metrics_of(tmp_path / name) for name in ("one", "two")]
    assert found[0] == found[1], "two runs with the same seed differ"
    gaps = [line["gap/mean_difference"] for line in found[0] if "gap/mean_difference" in line]
    assert len(gaps) == 2
    assert max(gaps) < TOLERANCE
