"""Weights that explode: the run stops with one line, saves nothing of them, and its advice works as it is printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mage.files import read_lines
from mage.learners.local import MAX_GROWTH, DivergedError
from mage.training.checkpoint import checkpoints
from tests.processes import Mage
from tests.tiny import samples_of, tiny_parts

TINY = (
    *("agent.model=nano(hidden=16,layers=1,heads=2,context=512)", "agent.context=512", "evaluation.splits=[]"),
    *("population.split=", 'population.members=["copy"]', "batch.groups=2", "batch.size=4"),
    *("steps=3", "checkpoint.every=1"),
)
LEAGUE = ("league.learners=2", "league.snapshot_every=0", "alarms.action=rollback")


def advice(said: str) -> list[str]:
    """The command that the last line says to go on with, as a shell would read it."""
    (line,) = [line for line in said.splitlines() if line.startswith("mage: ")]
    return shlex.split(line.partition("with: mage ")[2])


@pytest.mark.parametrize(
    ("lr", "says"), [("1e20", "weights are not finite"), ("1000", "weights exploded"), ("1", "weights exploded")]
)
@pytest.mark.parametrize("league", [(), (*LEAGUE, "league.explore=[]")])
def test_a_run_that_explodes_at_once_stops_and_goes_on_as_advised(
    mage: Mage, tmp_path: Path, lr: str, says: str, league: tuple[str, ...]
) -> None:
    folder = tmp_path / "my run"
    ended = mage("train", "rps", *TINY, *league, f"learner.lr={lr}", "--run", folder)
    assert ended.code == 2
    assert says in ended.said
    assert "go on from the initial weights with: mage train --resume" in ended.said
    (event,) = read_lines(folder / "events.jsonl")
    assert (event["step"], event["action"]) == (0, "stop")
    assert says in event["alarm"]
    assert checkpoints(folder / "checkpoints") == []
    again = mage(*advice(ended.said))
    assert again.code == 0, again.said
    assert [path.name for path in checkpoints(folder / "checkpoints")] == ["step-000002", "step-000003"]


def test_what_was_saved_before_the_explosion_is_kept_and_gone_on_from(mage: Mage, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert mage("train", "rps", *TINY, "--run", folder).code == 0
    before = (folder / "checkpoints" / "step-000003" / "model.safetensors").read_bytes()
    ended = mage("train", "--resume", folder, "steps=5", "learner.lr=1000")
    assert ended.code == 2
    assert "go on from step 3 with: mage train --resume" in ended.said
    assert checkpoints(folder / "checkpoints")[-1].name == "step-000003"
    assert (folder / "checkpoints" / "step-000003" / "model.safetensors").read_bytes() == before
    again = mage(*advice(ended.said))
    assert again.code == 0, again.said
    assert checkpoints(folder / "checkpoints")[-1].name == "step-000005"
    assert [line["step"] for line in read_lines(folder / "metrics.jsonl")] == [1, 2, 3, 4, 5]


def test_where_learners_have_their_own_rates_a_new_run_is_advised(mage: Mage, tmp_path: Path) -> None:
    ended = mage("train", "rps", *TINY, *LEAGUE, "learner.lr=1000", "--run", tmp_path / "run")
    assert ended.code == 2
    assert "mage: learner-0: the weights exploded" in ended.said
    assert "begin a new run with learner.lr=0.001: in this one each learner has its own" in ended.said


@pytest.mark.parametrize("lora", [0, 2])
def test_healthy_updates_are_far_from_the_limit_and_others_over_it(lora: int) -> None:
    healthy = tiny_parts(f"learner.lora_rank={lora}", "learner.lr=0.01")
    norms = [healthy.learner.update(samples_of(healthy))["learner/weight_norm"] for _ in range(3)]
    assert max(norms) < 1.2 * min(norms) < MAX_GROWTH * min(norms)
    exploding = tiny_parts(f"learner.lora_rank={lora}", "learner.lr=1.0")
    with pytest.raises(DivergedError, match=r"the weights exploded: an optimizer step took their norm from"):
        exploding.learner.update(samples_of(exploding))
