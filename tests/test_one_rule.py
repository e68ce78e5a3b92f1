"""The rule that agents of repeated games find first, as a player whose scores can be worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mage
from benchmarks.one_rule import by_the_rule, main
from mage.cli import app
from mage.engines.scripted import MODELS, ScriptedEngine
from mage.spec import parse_spec
from mage.types import Memory, Trial
from tests.seated import make_settings, make_task, play

SPLITS = Path(mage.__file__).parent / "splits"
EPISODES, ROUNDS = 4, 3


def by_hand(opponent: str) -> list[float]:
    """The rule's score in each episode, from rock in every round of the first."""
    how = parse_spec(opponent).named
    scores, plan = [], [0] * ROUNDS
    for _ in range(EPISODES):
        theirs = [int(how["first"])]
        for at in range(1, ROUNDS):
            heard = plan if str(how["on"]) == "them" else theirs
            theirs.append(int(how["map"][heard[at - 1]]))
        gains = [(0, 1, -1)[(mine - other) % 3] for mine, other in zip(plan, theirs, strict=True)]
        scores.append(sum(gains) / ROUNDS)
        plan = [(other + 1) % 3 for other in theirs]
    return scores


def trial_of(opponent: str, memory: Memory) -> Trial:
    task = make_task("rps(rounds=3)", opponents=(opponent,), episodes=EPISODES)
    return play(task, ScriptedEngine(MODELS["latest"]), make_settings(memory=memory, reflection_tokens=200))


@pytest.mark.parametrize("memory", [Memory.HISTORY, Memory.REFLECTIONS, Memory.BOTH])
def test_it_scores_what_the_rule_scores_by_hand(memory: Memory) -> None:
    for opponent in json.loads((SPLITS / "rps-held-out.json").read_bytes())["members"][::3]:
        trial = trial_of(opponent, memory)
        assert [episode.result.returns[0] for episode in trial.episodes] == pytest.approx(by_hand(opponent)), opponent
        assert all(is_ruled for *_, is_ruled in by_the_rule(trial))


def test_the_figures_that_the_documents_state() -> None:
    for split, stated in (
        ("rps-trained", (1 / 189, 124 / 189, 165 / 189, 1.0)),
        ("rps-held-out", (-2 / 45, 24 / 45, 36 / 45, 1.0)),
        ("rps-test", (1 / 45, 23 / 45, 36 / 45, 1.0)),
    ):
        members = json.loads((SPLITS / f"{split}.json").read_bytes())["members"]
        scores = [by_hand(member) for member in members]
        assert [sum(column) / len(members) for column in zip(*scores, strict=True)] == pytest.approx(stated)


def test_moves_that_are_not_the_rules_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for agent, share in (("latest", "1.000"), ("first", "0.000")):
        how = ("--world", "rps(rounds=3)", "--opponents", "always:rock", "--trials", "2", "--memory", "history")
        done = CliRunner().invoke(app, ["evaluate", f"scripted:{agent}", *how, "--out", str(tmp_path / agent)])
        assert done.exit_code == 0, done.output
        monkeypatch.setattr("sys.argv", ["one_rule.py", str(tmp_path / agent)])
        main()
        said = capsys.readouterr().out
        assert f"episode 3, round 3: {share} of 4 moves" in said
        assert "episode 1" not in said, "there is no episode before it"
