"""Judging: players whose answer is known, fixed tasks, paired intervals, reports that read back and fit a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from rich.console import Console, RenderableType

from mage.build import draw_tasks
from mage.config import load_config
from mage.engines.scripted import ScriptedEngine, counter
from mage.errors import PlayError, RecordError
from mage.evaluate.exact import BayesSeating, Objective, References
from mage.evaluate.metrics import Estimate, mean
from mage.evaluate.report import evaluation_report, read_report, to_json
from mage.evaluate.splits import Split, load_split, make_split, split_names
from mage.evaluate.suite import SplitReport, complete, evaluation_tasks, judge, references_of
from mage.evaluate.table import evaluation_table, interval, over_seats
from mage.games.openspiel import load_game
from mage.players.policy import Guest
from mage.players.table import make_player
from mage.protocols import Agent, Seating
from mage.types import Failure, Memory, ReplyMode, Task
from tests.seated import WORLD, agent_calls, make_settings, make_task, play_all, seat_engine

SEVEN = load_split("rps-seven")
KUHN = load_split("kuhn-scripts")


def guest(spec: str) -> Seating:
    """Seats a player without a model."""

    def seat(task: Task, sibling: int) -> Agent:
        return Guest(make_player(spec, load_game(task.game), task.seat, task.seed), spec)

    return seat


def scripted(memory: Memory, reply: ReplyMode = ReplyMode.CHOICE) -> Seating:
    how = make_settings(memory=memory, reply=reply, reflection_tokens=200)
    return seat_engine(ScriptedEngine(counter), how)


def tasks_of(split: Split, trials: int, seats: Sequence[int] = (0,), seed: int = 7) -> list[Task]:
    return evaluation_tasks(split, episodes=3, seats=seats, trials=trials, seed=seed)


def judged(agent: Seating, control: Seating, split: Split, trials: int, seats: Sequence[int] = (0,)) -> SplitReport:
    return asyncio.run(judge(WORLD, agent, control, split, tasks_of(split, trials, seats)))


def printed(table: RenderableType, width: int = 80) -> list[str]:
    console = Console(width=width, force_terminal=False, markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get().splitlines()


def test_an_agent_that_equals_its_control_has_adapted_by_nothing() -> None:
    report = judged(guest("uniform"), guest("uniform"), SEVEN, 10)
    assert report.agent == report.control
    assert report.over_control == Estimate(0.0, 0.0, 0.0), "the same draws on both sides"
    assert report.agent.adaptation.holds(0.0)
    for score in report.agent.scores:
        assert score.holds(0.0)
    assert (report.num_trials, report.failures, report.seats, report.episodes) == (70, 0, (0,), 3)


def test_bayes_optimal_play_reaches_the_limit() -> None:
    pool = [(member, 1.0) for member in SEVEN.members]
    report = judged(BayesSeating(pool, Objective.LAST), guest("uniform"), SEVEN, 12)
    ((seat, found),) = report.references
    assert seat == 0
    assert found.bayes_last == pytest.approx(1.0)
    assert report.agent.scores[2] == Estimate(1.0, 1.0, 1.0)
    assert report.over_control.is_over(0.0)
    assert dict(report.by_member)["copy"][2] == Estimate(1.0, 1.0, 1.0)
    assert [member for member, _ in report.by_member] == list(SEVEN.members)


@pytest.mark.parametrize("memory", [Memory.HISTORY, Memory.REFLECTIONS, Memory.BOTH])
def test_memory_shows_as_adaptation_over_control(memory: Memory) -> None:
    report = judged(scripted(memory), scripted(Memory.NONE), SEVEN, 6)
    assert report.control.adaptation == Estimate(0.0, 0.0, 0.0)
    assert report.over_control.is_over(0.0)
    assert report.over_control == report.agent.adaptation
    assert report.agent.scores[0] == report.control.scores[0]
    ((_, found),) = report.references
    assert found.memoryless is not None
    assert not report.control.scores[2].is_over(found.memoryless)
    assert found.memoryless < report.agent.scores[2].value


def test_adaptation_is_paired_by_trial() -> None:
    tasks = tasks_of(SEVEN, 6)
    agent, control = scripted(Memory.BOTH), guest("uniform")
    report = asyncio.run(judge(WORLD, agent, control, SEVEN, tasks))
    trials, controls = complete(*(play_all([(t, 0) for t in tasks], who) for who in (agent, control)))
    gains = [(t.scores[2] - t.scores[0]) - (c.scores[2] - c.scores[0]) for t, c in zip(trials, controls, strict=True)]
    assert report.over_control == mean(gains)
    assert report.agent.adaptation == mean([t.scores[2] - t.scores[0] for t in trials])


def test_what_fails_on_one_side_is_left_out_on_both() -> None:
    def failing(seating: Seating, *members: str) -> Seating:
        def seat(task: Task, sibling: int) -> Agent:
            if task.opponents[0] in members:
                raise PlayError("the model is gone")
            return seating(task, sibling)

        return seat

    agent = failing(scripted(Memory.BOTH), "copy")
    control = failing(scripted(Memory.NONE), "always(rock)", "copy")
    report = judged(agent, control, SEVEN, 4)
    assert (report.num_trials, report.failures) == (20, 8)
    assert [member for member, _ in report.by_member] == [m for m in SEVEN.members if m not in ("always(rock)", "copy")]
    others = [t for t in tasks_of(SEVEN, 4) if t.opponents[0] not in ("always(rock)", "copy")]
    alone = asyncio.run(judge(WORLD, scripted(Memory.BOTH), scripted(Memory.NONE), SEVEN, others))
    assert (report.agent, report.control, report.over_control) == (alone.agent, alone.control, alone.over_control)


def test_nothing_but_failures_is_one_line_that_says_why() -> None:
    failure = Failure(make_task(), 0, "EngineError", "the model is gone")
    with pytest.raises(PlayError, match=r"none of 2 tasks could be played.*EngineError: the model is gone"):
        complete([failure, failure], [failure, failure])


def test_health_and_cost_are_counted() -> None:
    report = judged(scripted(Memory.BOTH, ReplyMode.TEXT), scripted(Memory.NONE), SEVEN, 2)
    # `counter` answers free text without a tag: two tries a turn, then a forfeit, in each of 3 episodes.
    assert report.agent.forfeits == 14 * 3
    assert report.agent.invalid == 14 * 3 * 2
    assert (report.control.invalid, report.control.forfeits, report.control.cut) == (0, 0, 0)
    (controls,) = complete(play_all([(t, 0) for t in tasks_of(SEVEN, 2)], scripted(Memory.NONE)))
    assert report.control.tokens_read == sum(len(stream) for trial in controls for stream in trial.streams)
    assert report.control.tokens_sampled == sum(len(c.sampled.tokens) for t in controls for c in agent_calls(t))


def test_tasks_are_the_same_whenever_the_arguments_are() -> None:
    tasks = tasks_of(SEVEN, 3, (0, 1))
    assert tasks == tasks_of(SEVEN, 3, (0, 1))
    assert len(tasks) == 7 * 2 * 3
    assert len({task.seed for task in tasks}) == len(tasks), "trials are independent, across seats too"
    assert set(tasks) < set(tasks_of(SEVEN, 5, (0, 1))), "more trials are the same ones and others"
    assert set(tasks_of(SEVEN, 3, (1,))) < set(tasks)
    for other in (tasks_of(SEVEN, 3, (0, 1), seed=8), tasks_of(load_split("rps-trained"), 3, (0, 1))):
        assert not {task.seed for task in tasks} & {task.seed for task in other}
    assert not any(task.early_stop or task.replay_deal for task in tasks)


def test_tasks_are_none_of_those_trained_on_whatever_the_seeds() -> None:
    config = load_config("rps")
    config = config.model_copy(update={"seed": config.evaluation.seed})
    trained = {
        task.seed
        for step in range(3)
        for path in (("tasks", step), ("replacements", step, 0), ("showcase",))
        for task in islice(draw_tasks(config, *path), 200)
    }
    for name in config.evaluation.splits:
        seeds = {task.seed for task in tasks_of(load_split(name), 20, (0, 1), seed=config.evaluation.seed)}
        assert not seeds & trained


def kuhn_report() -> SplitReport:
    return judged(guest("uniform"), guest("always:bet"), KUHN, 4, (0, 1))


def with_references(split: str, seats: Sequence[int]) -> SplitReport:
    """The figures of any agent under another split's name and references."""
    shipped = load_split(split)
    base = judged(guest("uniform"), guest("uniform"), SEVEN, 1)
    return msgspec.structs.replace(
        base, split=split, sha256=shipped.sha256, references=references_of(shipped, seats, base.episodes)
    )


def test_references_stand_beside_the_scores() -> None:
    reports = [with_references(name, (0,)) for name in ("rps-seven", "rps-trained", "rps-held-out")]
    reports = [*reports, kuhn_report()]
    lines = printed(evaluation_table(reports))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    bounds = [line.split()[2:] for line in lines if line.startswith("best memoryless")]
    assert [word for words in bounds for word in words if "/" in word] == ["22/63", "23/105", "23/105", "1/9"]
    limits = " ".join(line for line in lines if line.startswith("limit"))
    assert "157/648" in limits
    assert all(f"{report.split}" in text for report in reports)
    assert text.count("score, episode 3") == 2, "four splits do not fit beside each other"
    assert text.count("Fixed tasks") == 1


def test_no_table_is_wider_than_a_terminal_or_loses_a_word() -> None:
    base = kuhn_report()
    reports = [msgspec.structs.replace(base, split=name) for name in split_names()]
    lines = printed(evaluation_table(reports))
    assert max(map(len, lines)) <= 80
    for name in split_names():
        assert name in "\n".join(lines)
    assert "…" not in "\n".join(lines)
    assert len(printed(evaluation_table(reports[:1]))) < 20


def test_a_reference_that_is_missing_for_one_seat_is_a_dash() -> None:
    (_, first), (_, second) = references_of(KUHN, (0, 1), 3)
    without: References = msgspec.structs.replace(second, memoryless=None)
    assert over_seats([(0, first), (1, second)], "memoryless") == "1/9 = 0.111"
    assert over_seats([(0, first), (1, without)], "memoryless") == "–"
    assert over_seats([], "memoryless") == "–"
    assert interval(Estimate(-1e-9, -0.5, 0.5)) == "+0.000 ±0.500"
    assert interval(Estimate(-0.25, -0.5, 0.0)) == "-0.250 ±0.250"


def test_a_report_reads_back_with_all_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/mage", "evaluate", "my run"])
    config = load_config("rps", ["evaluation.seed=11"])
    report = evaluation_report([kuhn_report()], config, 42)
    assert (report.command, report.step, report.seed) == ("mage evaluate 'my run'", 42, 11)
    assert report.config == config.model_dump(mode="json")
    assert {"mage", "python", "open_spiel", "torch"} <= set(report.versions)
    assert "CPU" in report.machine
    path = tmp_path / "report.json"
    path.write_bytes(to_json(report))
    assert read_report(path, SplitReport) == report
    assert to_json(read_report(path, SplitReport)) == to_json(report)


@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff", None])
def test_a_report_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "report.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordError, match=r"report\.json is not a report that can be read"):
        read_report(path, SplitReport)


def test_one_trial_a_member_is_enough_where_there_are_several() -> None:
    report = judged(scripted(Memory.BOTH), scripted(Memory.NONE), SEVEN, 1)
    assert report.num_trials == 7
    assert report.over_control.low is not None, "seven trials have an interval"
    assert [member for member, _ in report.by_member] == list(SEVEN.members)
    assert {(e.low, e.high) for _, scores in report.by_member for e in scores} == {(None, None)}


def test_one_trial_alone_has_scores_and_no_interval(tmp_path: Path) -> None:
    rock = make_split("rock", "", SEVEN.game, ("always:rock",), held_out=False)
    report = judged(scripted(Memory.BOTH), scripted(Memory.NONE), rock, 1)
    assert report.num_trials == 1
    assert report.agent.scores == tuple(Estimate(value, None, None) for value in (0.0, 1.0, 1.0))
    assert report.over_control == report.agent.adaptation == Estimate(1.0, None, None)
    assert not report.over_control.is_over(0.0), "which is evidence of nothing"
    assert not report.over_control.holds(1.0)
    cells = {tuple(line.split()[-2:]) for line in printed(evaluation_table([report])) if "±" in line}
    assert cells == {("+0.000", "±n/a"), ("+1.000", "±n/a")}
    path = tmp_path / "report.json"
    path.write_bytes(to_json(evaluation_report([report], load_config("rps"), 1)))
    assert b'"low": null' in path.read_bytes()
    assert read_report(path, SplitReport).reports == (report,)
