"""What reaching a level costs, on curves made by hand."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import msgspec
import pytest

from mage.agents.messages import asks_for_reflection
from mage.config.schema import Config
from mage.errors import RecordError
from mage.evaluation.compare.cost import (
    TRAINING,
    WINDOW,
    History,
    Level,
    Point,
    cost_to_reach,
    first_reached,
    levels,
    read_history,
)
from mage.training.step_metrics import step_metrics
from mage.types import Group, Memory, ReplyMode
from tests.compared import made_run
from tests.seated import make_settings, make_task, newest_message, play_scripted
from tests.tiny import play, tiny_parts


def history(path: Path, trained_on: str = "") -> History:
    return read_history(path, trained_on=trained_on, pool="rps")


def curve(*scores: float) -> list[Point]:
    return [Point(k + 1, 100.0 * (k + 1), 2.0 * (k + 1), score) for k, score in enumerate(scores)]


def test_evaluations_cost_what_was_spent_until_then(tmp_path: Path) -> None:
    evaluated = [(2, 0.1), (4, 0.3), (6, 0.2), (8, 0.3), (10, 0.9)]
    made_run(tmp_path / "run", config=Config(steps=10), curves={"two": evaluated}, step_s=3.0, evaluation_s=1.0)
    found = history(tmp_path / "run")
    points = found.curve("two", 3)
    assert [(p.step, p.tokens, p.seconds, p.score) for p in points] == [
        (step, 1000.0 * step, 2.0 * step, score) for step, score in evaluated
    ]
    assert (found.tokens, found.seconds) == (10_000.0, 20.0), "the seconds of evaluations are not counted"
    assert found.curve("two", 6) == (), "another number of episodes"
    assert found.curve("other", 3) == ()


def test_a_level_counts_once_the_next_point_confirms_it() -> None:
    points = curve(0.1, 0.3, 0.2, 0.3, 0.9)
    assert first_reached(points, 0.25) == points[3]
    assert first_reached(points, 0.9) == points[4], "nothing comes after the last one"
    assert first_reached(points, 0.91) is None
    assert first_reached([], 0.0) is None


def test_costs_are_means_over_the_seeds_that_got_there() -> None:
    found = cost_to_reach([curve(0.0, 0.5, 0.5), curve(0.0, 0.0, 0.5), curve(0.0, 0.0, 0.0)], 0.5)
    assert (found.num, found.of) == (2, 3)
    assert found.steps is not None
    assert found.tokens is not None
    assert found.seconds is not None
    assert (found.steps.value, found.tokens.value, found.seconds.value) == (2.5, 250.0, 5.0)
    assert found.tokens.high is not None
    assert found.tokens.high - 250.0 == pytest.approx(12.7062 * 50.0, rel=1e-4), "Student's t of one degree of freedom"


def test_what_was_not_reached_and_what_was_not_followed_are_told_apart() -> None:
    not_reached, not_followed = cost_to_reach([curve(0.0, 0.1)], 0.5), cost_to_reach([[]], 0.5)
    assert (not_reached.num, not_reached.of, not_reached.tokens) == (0, 1, None)
    assert (not_followed.num, not_followed.of) == (0, 0)


def test_training_scores_stand_in_on_the_split_that_is_trained_on(tmp_path: Path) -> None:
    scores = [1.0, *(0.0 for _ in range(WINDOW - 1)), *(0.5 for _ in range(WINDOW))]
    made_run(tmp_path / "run", config=Config(steps=len(scores)), curves={"two": [(20, 0.5)]}, training=scores)
    found = history(tmp_path / "run", "two")
    assert found.curves[TRAINING, 3][0].score == 1.0
    points = found.curve("two", 3)
    assert [p.step for p in points] == list(range(WINDOW, 2 * WINDOW + 1)), "the first have too few before them"
    assert [p.score for p in points[:3]] == pytest.approx([0.1, 0.05, 0.1])
    assert points[-1].score == 0.5
    assert history(tmp_path / "run", "other").curve("two", 3) == (), "one evaluation at the end is no curve"


def test_what_was_done_twice_took_its_time_twice(tmp_path: Path) -> None:
    made_run(tmp_path / "run", config=Config(steps=4), curves={"two": [(2, 0.1), (4, 0.2)]})
    lines = [{"step": step, "step_s": 10.0} for step in (1, 2, 3, 2, 3, 4)]
    (tmp_path / "run" / "timings.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    assert [p.seconds for p in history(tmp_path / "run").curve("two", 3)] == [40.0, 60.0]


def test_groups_that_replaced_dead_ones_cost_tokens_too() -> None:
    groups = play(tiny_parts())
    trials = [trial for group in groups for trial in group.trials]
    metrics = step_metrics(groups[:1], groups)
    assert len(groups) == 2
    assert metrics["play/tokens_in_streams"] == sum(len(stream) for trial in trials for stream in trial.streams)
    assert metrics["play/tokens_sampled"] == 2 * step_metrics(groups[:1], groups[:1])["play/tokens_sampled"]


@pytest.mark.parametrize(("temperature", "expected"), [("0.000001", 0.0), ("1.0", 1.0)])
def test_siblings_whose_first_texts_are_the_same_have_no_variety(temperature: str, expected: float) -> None:
    text = ("agent.reply=text", "agent.max_tokens=8", f"agent.temperature={temperature}")
    groups = play(tiny_parts(*text))
    assert step_metrics(groups, groups)["groups/distinct_texts"] == expected
    chosen = play(tiny_parts())
    texts = {"groups/distinct_texts", "play/repeated_texts"}
    assert texts <= step_metrics(groups, groups).keys()
    assert not texts & step_metrics(chosen, chosen).keys(), "choices are no texts"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (("rock",), 1.0),  # the same in all four rounds
        (("rock", "paper"), 2 / 3),
        (("rock", "paper", "scissors", "a rock"), 0.0),
    ],
)
def test_texts_that_a_trial_repeats(said: tuple[str, ...], expected: float) -> None:
    texts = cycle(f"{text} <action>rock</action>" for text in said)

    def answer(prompt: str, choices: tuple[str, ...]) -> str:
        return "rock" if asks_for_reflection(newest_message(prompt)) else next(texts)

    how = make_settings(memory=Memory.BOTH, reply=ReplyMode.TEXT)
    trial = play_scripted(make_task(episodes=2), answer, how)
    group = Group(trial.task, (trial, trial), ())
    assert step_metrics([group], [group])["play/repeated_texts"] == pytest.approx(expected), "notes do not count"


def test_levels() -> None:
    assert levels(0.25, 1.0) == {Level.MEMORYLESS: 0.25, Level.MOST: pytest.approx(0.85)}
    assert levels(0.25, None) == {Level.MEMORYLESS: 0.25}
    assert levels(None, 1.0) == {}


@pytest.mark.parametrize("name", ["metrics.jsonl", "timings.jsonl"])
def test_lines_without_a_step_are_refused(tmp_path: Path, name: str) -> None:
    made_run(tmp_path / "run", config=Config(steps=2))
    (tmp_path / "run" / name).write_text('{"score": 1}\n')
    with pytest.raises(RecordError, match="has no step"):
        history(tmp_path / "run")
