"""The methods of prompting with a real model: trials of random weights, a training step, the command line."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mage.agents.methods.registry import METHODS
from mage.checks.agents import check_agent
from mage.cli import app
from mage.engines.local.engine import LocalEngine
from mage.models.load import LoadedModel, load_model
from mage.runs.store import RunReader
from mage.training.build import language_agent_factory
from mage.types import Memory, ReplyMode, Trial
from tests.prompted import BASELINES, how_of
from tests.seated import WORLD, agent_calls, make_task
from tests.tiny import evaluated, logprobs, play, sharpen, tiny_parts
from tests.tree import ROOT


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return load_model("nano", worlds=["rps(rounds=2)"])


@pytest.mark.parametrize("reply", ReplyMode)
@pytest.mark.parametrize("method", BASELINES)
def test_a_model_with_random_weights_plays_whole_trials(method: str, reply: ReplyMode, loaded: LoadedModel) -> None:
    engine = LocalEngine(loaded, slots=8)
    how = how_of(method, reply=reply, max_tokens=12, reflection_tokens=12, context=engine.length)
    task = make_task("rps(rounds=2)", opponents=("cycle(step=1)",), episodes=3)
    check_agent(language_agent_factory(WORLD, engine, loaded.chat_format, how), [task])


@pytest.mark.parametrize("method", BASELINES)
def test_a_method_can_be_trained(method: str) -> None:
    """Every token that was decided is trained, and the learner gives it the probability with which it was drawn."""
    sizes = ("agent.max_tokens=6", "agent.reflection_tokens=6", "credit.objective=cumulative")
    parts = sharpen(tiny_parts(f"agent.method={method}", f"agent.memory={how_of(method).memory}", *sizes))
    groups = play(parts)
    trials = [trial for group in groups for trial in group.trials]
    assert len(trials) == 8
    assert {trial.agent.method for trial in trials} == {method}
    samples = evaluated(parts, groups)
    drawn = [call.completion for trial in trials for call in agent_calls(trial)]
    num_decided = sum(len(s.tokens) if s.allowed is None else sum(len(ids) > 1 for ids in s.allowed) for s in drawn)
    assert sum(len(sample.positions) for sample in samples) == num_decided
    assert any(s.allowed is None for s in drawn) is (method != "cases"), "a thought or a note is trained like a move"
    for sample, found in zip(samples, logprobs(parts.learner, *samples), strict=True):
        assert found == pytest.approx(sample.logprobs, abs=1e-4)
    assert math.isfinite(parts.learner.update(samples)["learner/loss"])


@pytest.mark.parametrize("method", BASELINES)
def test_trials_of_a_method_can_be_played_and_shown(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    overrides = [f"agent.method={method}", f"agent.memory={how_of(method).memory}", "trials=2"]
    done = CliRunner().invoke(app, ["trials", "demo", *overrides, "--run", "run"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    trials = [trial for trial in RunReader(Path("run")).trials() if isinstance(trial, Trial)]
    assert [trial.agent.method for trial in trials] == [method] * 2
    shown = CliRunner().invoke(app, ["show", "run", "0"], catch_exceptions=False)
    assert f"method    {method}" in shown.output
    assert ("says" in shown.output) == (method == "react"), "thoughts are shown"


def test_the_page_names_every_method_and_the_memory_that_is_usual_for_it() -> None:
    page = (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w-]+)` \|[^|]*\| `?([\w-]+)`? \|", page, re.MULTILINE))
    taken = {name: kind.memories for name, kind in METHODS.items()}
    usual = {name: "any" if set(memories) == set(Memory) else memories[0].value for name, memories in taken.items()}
    assert rows == usual
