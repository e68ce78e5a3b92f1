"""What reflections do: kept, removed, swapped and replaced by history, on trials whose answer is known."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, Rewrite
from mage.cli.evaluate import print_evaluation
from mage.engines.scripted import Answer, ScriptedEngine, counter
from mage.errors import ConfigError
from mage.evaluation.plan import EvaluationRequest
from mage.evaluation.resource_limits import ResourceLimits
from mage.evaluation.run import begin_evaluation
from mage.evaluation.splits import Split, make_split
from mage.evaluation.suite.evaluate import evaluation_tasks
from mage.evaluation.suite.evaluate import play_all as play_everything
from mage.evaluation.suite.reflection_table import reflections_table
from mage.evaluation.suite.reflections import (
    FactoryWithRewrite,
    ReflectionReport,
    evaluate_reflections,
    swap_partners,
)
from mage.evaluation.suite.report import read_report
from mage.evaluation.suite.report_tables import interval
from mage.protocols import AgentFactory, Engine, World
from mage.rollout.group import Job
from mage.stats import Estimate, mean
from mage.training.build import language_agent_factory, scripted_engine
from mage.training.run import create_run_directory, train_run
from mage.types import Failure, Memory, Task, Trial
from tests.seated import WORLD, GluedCodec, make_settings, make_task, play_all
from tests.tiny import tiny_config

RPS = "rps(rounds=3)"
CONSTANT = make_split("constant", "", RPS, ("always:rock", "always:paper", "always:scissors"), held_out=False)
NOTES = [Memory.REFLECTIONS, Memory.BOTH]


def tasks_of(split: Split, trials: int, seats: Sequence[int] = (0,)) -> list[Task]:
    return evaluation_tasks(split, episodes=3, seats=seats, trials=trials, seed=5)


def seats(engine: Engine, how: AgentSettings, chat_format: ByteFormat | None = None) -> FactoryWithRewrite:
    def seated(rewrite: Rewrite) -> AgentFactory:
        return language_agent_factory(WORLD, engine, chat_format or ByteFormat(), how, rewrite)

    return seated


def history(engine: Engine) -> AgentFactory:
    """The same model, remembering what happened."""
    return language_agent_factory(WORLD, engine, ByteFormat(), make_settings(memory=Memory.HISTORY))


def alone(engine: Engine) -> AgentFactory:
    """The same model, remembering its notes."""
    return language_agent_factory(WORLD, engine, ByteFormat(), make_settings(memory=Memory.REFLECTIONS))


def evaluated(answer: Answer, memory: Memory, trials: int = 4, words: int = 5) -> ReflectionReport:
    engine = ScriptedEngine(answer)
    seated = seats(engine, make_settings(memory=memory, reflection_tokens=200))
    tasks = tasks_of(CONSTANT, trials)
    others = (history(engine), alone(engine))
    return asyncio.run(evaluate_reflections(WORLD, seated, *others, CONSTANT, tasks, words=words))


def trial_of(task: Task, answer: Answer, memory: Memory, rewrite: Rewrite) -> Trial:
    how = make_settings(memory=memory, reflection_tokens=40)
    (trial,) = play_all([(task, 0)], seats(ScriptedEngine(answer), how, GluedCodec())(rewrite))
    assert isinstance(trial, Trial)
    return trial


def test_own_notes_win_none_play_as_at_first_and_swapped_ones_mislead() -> None:
    report = evaluated(counter, Memory.REFLECTIONS)
    # Without a note `counter` plays rock throughout: it draws, loses and wins against the three. What beats the next
    # of rock, paper, scissors loses to this one; what beats the one after that draws.
    tasks, constants = tasks_of(CONSTANT, 4), CONSTANT.members
    lenders = [tasks[place].opponents[0] for place in swap_partners(tasks)]
    apart = [(constants.index(b) - constants.index(a.opponents[0])) % 3 for a, b in zip(tasks, lenders, strict=True)]
    misled = -apart.count(1) / len(tasks)
    assert [e.value for e in report.kept] == [0.0, 1.0, 1.0]
    assert [e.value for e in report.removed] == [0.0, 0.0, 0.0]
    assert [e.value for e in report.swapped] == pytest.approx([0.0, misled, misled])
    assert misled < 0
    assert [e.value for e in report.history] == [0.0, 1.0, 1.0], "it counts what happened as well as what it wrote"
    assert report.over_removed[0] == report.over_swapped[0] == mean([0.0] * report.num_trials, (-2.0, 2.0))
    assert report.over_removed[2].is_over(0.0)
    assert report.over_swapped[2].is_over(0.0)
    assert {*report.over_history} == {mean([0.0] * report.num_trials, (-2.0, 2.0))}
    assert (report.num_trials, report.failures, report.seats) == (12, 0, (0,))


def width(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


def test_differences_are_paired() -> None:
    report = evaluated(counter, Memory.REFLECTIONS, trials=8)
    # Scores differ by opponent only, and kept ones not at all: the difference scatters as the other arm does.
    assert report.kept[2] == mean([1.0] * report.num_trials, (-1.0, 1.0))
    for arm, difference in ((report.removed, report.over_removed), (report.swapped, report.over_swapped)):
        assert difference[2].value == pytest.approx(1.0 - arm[2].value)
        assert width(difference[2]) == pytest.approx(width(arm[2]))


def test_notes_that_are_not_used_change_nothing() -> None:
    def first_action(prompt: str, choices: tuple[str, ...]) -> str:
        return choices[0] if choices else f"note {len(prompt)}"

    for memory in NOTES:
        report = evaluated(first_action, memory)
        assert report.kept == report.removed == report.swapped == report.history
        nothing = mean([0.0] * report.num_trials, (-2.0, 2.0))
        assert {*report.over_removed, *report.over_swapped, *report.over_history} == {nothing}


@pytest.mark.parametrize("memory", NOTES)
def test_with_history_in_memory_only_the_notes_are_exchanged(memory: Memory) -> None:
    def trusting(prompt: str, choices: tuple[str, ...]) -> str:
        """Believes the newest note, and nothing else."""
        if not choices:
            return "lesson: " + prompt.rpartition(", opponent ")[2].partition(".")[0]
        lesson = prompt.rpartition("lesson: ")[2].split()[0] if "lesson: " in prompt else ""
        return {"rock": "paper", "paper": "scissors", "scissors": "rock"}.get(lesson, choices[0])

    report = evaluated(trusting, memory)
    assert [e.value for e in report.kept] == [0.0, 1.0, 1.0]
    assert [e.value for e in report.removed] == [0.0, 0.0, 0.0]
    assert report.swapped[1].value < 0.0, "what beats another constant draws with this one or loses to it"
    assert report.over_swapped[1].is_over(0.0)
    assert [e.value for e in report.history] == [0.0, 0.0, 0.0], "there are no notes to believe in"
    assert report.next_over_history == report.over_history[1] == report.over_history[2]


def test_the_effect_on_the_next_episode_leaves_the_first_out() -> None:
    def late(prompt: str, choices: tuple[str, ...]) -> str:
        """Believes its notes once it has two of them."""
        if choices and prompt.count("They play") < 2:
            return choices[0]
        return counter(prompt, choices)

    report = evaluated(late, Memory.REFLECTIONS, trials=8)
    by_opponent = {"always(rock)": 1.0, "always(paper)": 2.0, "always(scissors)": 0.0}  # won, over what rock scores
    gains = [by_opponent[task.opponents[0]] for task in tasks_of(CONSTANT, 8)]
    assert report.over_removed[1] == mean([0.0] * report.num_trials, (-2.0, 2.0))
    assert report.over_removed[2] == mean(gains)
    assert report.next_over_removed == mean([gain / 2 for gain in gains]), "episodes 2 and 3, averaged in each trial"
    assert report.next_over_swapped.value == pytest.approx(report.over_swapped[2].value / 2)


def test_a_journal_hears_of_every_arm_by_name() -> None:
    heard: list[tuple[str, int]] = []

    async def listening(arm: str, world: World, jobs: Sequence[Job], make_agent: AgentFactory) -> list[Trial | Failure]:
        heard.append((arm, len(jobs)))
        return await play_everything(arm, world, jobs, make_agent)

    engine = ScriptedEngine(counter)
    seated = seats(engine, make_settings(memory=Memory.REFLECTIONS, reflection_tokens=200))
    tasks = tasks_of(CONSTANT, 2)
    report = asyncio.run(
        evaluate_reflections(WORLD, seated, history(engine), alone(engine), CONSTANT, tasks, play=listening)
    )
    arms = ("kept", "removed", "swapped", "shortened", "history", "reader", "blank")
    assert heard == [(arm, 6) for arm in arms]
    assert report == evaluated(counter, Memory.REFLECTIONS, trials=2)


def test_notes_that_name_the_opponent_are_counted() -> None:
    def knowing(prompt: str, choices: tuple[str, ...]) -> str:
        return counter(prompt, choices) if choices else f"Always the same move. {counter(prompt, choices)}"

    named = evaluated(knowing, Memory.REFLECTIONS).naming
    assert named is not None
    assert (named.num_reflections, named.named.value) == (24, 1.0)
    assert named.by_chance.value == 1.0, "all opponents here are of one family"
    silent = evaluated(counter, Memory.REFLECTIONS).naming
    assert silent is not None
    assert silent.named.value == 0.0


def test_partners_are_other_opponents_in_the_same_seat_and_each_lends_once() -> None:
    members = ("always:rock", "always:paper", "copy", "cycle", "uniform")
    split = make_split("five", "", RPS, members, held_out=False)
    tasks = tasks_of(split, 12, seats=(0, 1))
    places = swap_partners(tasks)
    assert places == swap_partners(list(tasks))
    assert sorted(places) == list(range(len(tasks)))
    for task, place in zip(tasks, places, strict=True):
        assert tasks[place].seat == task.seat
        assert tasks[place].opponents != task.opponents
    lenders = {tasks[place].opponents for task, place in zip(tasks, places, strict=True) if task.opponents[0] == "copy"}
    assert len(lenders) == 4, "repetitions borrow from all others"


def test_partners_are_found_when_some_opponents_were_met_less_often() -> None:
    tasks = [t for i, t in enumerate(tasks_of(CONSTANT, 4, seats=(0, 1))) if i not in (1, 2, 3, 14, 21, 22)]
    for task, place in zip(tasks, swap_partners(tasks), strict=True):
        assert tasks[place].opponents != task.opponents
        assert tasks[place].seat == task.seat


def test_a_task_that_fails_in_one_arm_is_left_out_of_all() -> None:
    def fragile(prompt: str, choices: tuple[str, ...]) -> str:
        if choices and "They play" in prompt and "rock" in prompt.rpartition("They play")[2].partition("\n")[0]:
            return "nonsense"
        return counter(prompt, choices)

    report = evaluated(fragile, Memory.REFLECTIONS, trials=6)
    # Six tasks fail with their own notes, and those among the others that borrow no rock are played four times.
    assert report.failures >= 6
    assert report.num_trials + report.failures == 18
    assert report.kept[2].value == 1.0


@pytest.mark.parametrize("memory", [Memory.NONE, Memory.HISTORY])
def test_agents_that_write_nothing_are_refused(memory: Memory) -> None:
    with pytest.raises(ConfigError, match=r"no reflections to evaluate; they need agent\.memory=reflections or both"):
        evaluated(counter, memory)


def test_one_opponent_has_nobody_to_swap_with() -> None:
    with pytest.raises(ConfigError, match="swapped between opponents or levels, and seat 0 has only one"):
        swap_partners([make_task(seed=seed) for seed in range(3)])


def test_the_report_reads_back_and_its_table_fits_a_terminal() -> None:
    engine, _ = scripted_engine("scripted:counter")
    how = make_settings(memory=Memory.REFLECTIONS, reflection_tokens=200)
    seated, tasks = seats(engine, how), tasks_of(CONSTANT, 2)
    report = asyncio.run(evaluate_reflections(WORLD, seated, history(engine), alone(engine), CONSTANT, tasks))
    assert msgspec.json.decode(msgspec.json.encode(report), type=ReflectionReport) == report
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        console.print(reflections_table([report]))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= 80
    rows = {line[:26].strip(): line[26:].strip() for line in lines}
    assert rows["last score, own notes"] == "+1.000 ±0.919"
    assert rows["best memoryless"] == "2/3 = 0.667"
    assert rows["myopic Bayes"] == "1"
    assert rows["limit"] == "1"
    assert rows["own over removed"].startswith(f"{report.over_removed[2].value:+.3f}")
    assert rows["history instead"] == "+1.000 ±0.919"
    assert rows["next, own over swapped"] == interval(report.next_over_swapped)
    assert rows["first 5 words of them"] == interval(report.shortened[2])
    assert report.alone is not None
    assert rows["notes alone over blank"] == interval(report.alone.reader_over_blank)
    assert rows["opponent named (%)"] == "0.0 (0.0–45.9)"


@pytest.mark.parametrize("memory", NOTES)
def test_a_run_s_reflections_are_judged_saved_and_printed(tmp_path: Path, memory: Memory) -> None:
    splits = 'evaluation.splits=["rps-seven"]'
    config = tiny_config("steps=1", f"agent.memory={memory}", "agent.reflection_tokens=8", splits)
    create_run_directory(config, tmp_path / "run")
    train_run(tmp_path / "run", Console(quiet=True))
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        request = EvaluationRequest(str(tmp_path / "run"), trials=2, reflections=True)
        print_evaluation(begin_evaluation(request, None, ResourceLimits()), console)
    saved = read_report(tmp_path / "run" / "evaluations" / "reflections-000001.json", ReflectionReport)
    (report,) = saved.reports
    assert (report.split, report.episodes, report.num_trials, report.failures) == ("rps-seven", 2, 14, 0)
    assert report.kept[0] == report.removed[0] == report.swapped[0], "nothing differs before the first reflection"
    assert report.over_removed[0] == report.over_swapped[0] == mean([0.0] * report.num_trials, (-2.0, 2.0))
    assert f"own over swapped {interval(report.over_swapped[1])}" in " ".join(captured.get().split())
    assert (saved.step, saved.config) == (1, config.model_dump(mode="json"))


def test_a_run_that_writes_no_reflections_is_refused(tmp_path: Path) -> None:
    create_run_directory(tiny_config("agent.memory=history", "steps=1"), tmp_path / "run")
    train_run(tmp_path / "run", Console(quiet=True))
    with pytest.raises(ConfigError, match=r"agent\.memory = history: no reflections are written"):
        begin_evaluation(EvaluationRequest(str(tmp_path / "run"), reflections=True), None, ResourceLimits())
