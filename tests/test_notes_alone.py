"""Notes cut to their first words, and notes as the only memory of the last episode."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from mage.agents.byte_format import ByteFormat
from mage.agents.language import as_written
from mage.cli import app
from mage.engines.scripted import ScriptedEngine, counter
from mage.errors import ConfigError
from mage.evaluation.plan import EvaluationRequest, read_plan
from mage.evaluation.resource_limits import ResourceLimits
from mage.evaluation.run import begin_evaluation
from mage.evaluation.splits import make_split
from mage.evaluation.suite.evaluate import evaluation_tasks
from mage.evaluation.suite.evaluate import play_all as play_everything
from mage.evaluation.suite.reflections import ReflectionReport, evaluate_reflections, shorten_reflection
from mage.evaluation.suite.report import read_report
from mage.protocols import AgentFactory, World
from mage.rollout.group import Job
from mage.stats import mean
from mage.training.run import create_run_directory, train_run
from mage.types import Failure, Memory, Observation, Reply, Trial, Turn
from tests.seated import WORLD, make_settings, make_task, prompt_text, saying
from tests.test_reflections import NOTES, RPS, alone, evaluated, history, seats, trial_of
from tests.tiny import tiny_config

BEATS = {"rock": "paper", "paper": "scissors", "scissors": "rock"}


def late_lesson(prompt: str, choices: tuple[str, ...]) -> str:
    """Its lesson is the sixth word of its notes, and all that it believes in is a lesson."""
    if not choices:
        return "I have seen it all: " + prompt.rpartition(", opponent ")[2].partition(".")[0]
    found = prompt.rpartition("seen it all: ")[2].split() if "seen it all: " in prompt else []
    return BEATS.get(found[0], choices[0]) if found else choices[0]


@pytest.mark.parametrize("memory", NOTES)
@pytest.mark.parametrize(("words", "score"), [(5, 0.0), (6, 1.0)])
def test_the_first_words_are_remembered_and_no_more(memory: Memory, words: int, score: float) -> None:
    report = evaluated(late_lesson, memory, words=words)
    assert [e.value for e in report.kept] == [0.0, 1.0, 1.0]
    assert [e.value for e in report.shortened] == [0.0, score, score]
    assert report.words == words
    assert report.next_over_shortened is not None
    assert report.next_over_shortened.value == report.over_shortened[2].value == 1.0 - score


@pytest.mark.parametrize("memory", NOTES)
def test_what_an_agent_reads_of_a_shortened_note(memory: Memory) -> None:
    task = make_task("rps(rounds=1)", opponents=("always:rock",))
    own = trial_of(task, saying("", note="one two three"), memory, as_written)
    cut = trial_of(task, saying("", note="one two three"), memory, shorten_reflection(2))
    for index, (episode, other) in enumerate(zip(own.episodes, cut.episodes, strict=True)):
        read = prompt_text(cut, other.turns[0].calls[0])
        assert read == prompt_text(own, episode.turns[0].calls[0]).replace("one two three", "one two")
        assert read.count("one two") == index
    assert [turn.action for turn in cut.reflections] == ["one two three"] * 2, "what was written stays on record"


@pytest.mark.parametrize(
    ("note", "expected"), [("one  two\nthree", "one  two"), ("one two", "one two"), ("", ""), ("é! ü? ö", "é! ü?")]
)
def test_a_note_is_cut_after_a_whole_word(note: str, expected: str) -> None:
    written = Reply(note, note, ())
    kept = shorten_reflection(2)(make_task(), Observation(0, 0, 0, "", (), (), "", {}), written)
    assert kept is not None
    assert kept.action == expected
    assert (kept is written) == (note == expected)


def test_with_notes_as_the_only_memory_a_reader_plays_the_last_episode_as_it_was() -> None:
    report = evaluated(counter, Memory.REFLECTIONS, trials=8)
    assert report.alone is not None
    assert report.alone.reader == report.kept[2]
    assert report.alone.blank == report.removed[2]
    assert report.alone.reader_over_blank == report.over_removed[2]
    assert report.alone.kept_over_reader == mean([0.0] * report.num_trials, (-2.0, 2.0))


def test_notes_that_history_makes_needless_are_worth_something_alone_and_others_nothing() -> None:
    def hollow(prompt: str, choices: tuple[str, ...]) -> str:
        return counter(prompt, choices) if choices else "It went well."

    told, empty = evaluated(counter, Memory.BOTH).alone, evaluated(hollow, Memory.BOTH).alone
    assert told is not None
    assert empty is not None
    assert (told.reader.value, told.blank.value, told.kept_over_reader.value) == (1.0, 0.0, 0.0)
    assert (empty.reader.value, empty.blank.value, empty.kept_over_reader.value) == (0.0, 0.0, 1.0)
    assert empty.reader_over_blank == mean([0.0] * 12, (-2.0, 2.0))


def said_to(trial: Trial, turn: Turn) -> str:
    """The prompt of a turn in the only stream of a trial."""
    return ByteFormat().decode(trial.streams[0][: turn.calls[0].start])


def test_a_reader_repeats_earlier_episodes_and_reads_notes_and_nothing_else() -> None:
    arms: dict[str, list[Trial | Failure]] = {}

    async def listening(arm: str, world: World, jobs: Sequence[Job], make_agent: AgentFactory) -> list[Trial | Failure]:
        arms[arm] = await play_everything(arm, world, jobs, make_agent)
        return arms[arm]

    engine, split = ScriptedEngine(counter), make_split("three", "", RPS, ("copy", "cycle", "uniform"), held_out=False)
    seated = seats(engine, make_settings(memory=Memory.BOTH, reflection_tokens=200))
    tasks = evaluation_tasks(split, episodes=3, seats=(0, 1), trials=3, seed=5)
    others = (history(engine), alone(engine))
    asyncio.run(evaluate_reflections(WORLD, seated, *others, split, tasks, play=listening))
    for kept, reader, blank in zip(arms["kept"], arms["reader"], arms["blank"], strict=True):
        assert isinstance(kept, Trial)
        assert isinstance(reader, Trial)
        assert isinstance(blank, Trial)
        for again in (reader, blank):
            assert again.scores[:2] == kept.scores[:2]
            for before, after in zip(kept.episodes[:2], again.episodes[:2], strict=True):
                assert [t.action for t in after.turns] == [t.action for t in before.turns]
                assert not any(t.calls for t in after.turns), "nothing is sampled again"
            assert len(again.streams) == 1
        notes = [turn.action for turn in kept.reflections]
        assert [turn.action for turn in reader.reflections] == notes
        assert blank.reflections == ()
        seat = kept.task.seat
        read, unread = (next(t for t in x.episodes[2].turns if t.observation.seat == seat) for x in (reader, blank))
        told = f"Your notes:\nAfter episode 1: {notes[0]}\nAfter episode 2: {notes[1]}\n\n"
        prompt, bare = (said_to(x, turn) for x, turn in ((reader, read), (blank, unread)))
        assert told in prompt
        assert "Episode 1" not in prompt, "what happened is not told"
        assert bare == prompt.replace(told, "")


def test_the_words_of_a_command_are_planned_reported_and_printed(tmp_path: Path) -> None:
    splits = 'evaluation.splits=["rps-seven"]'
    config = tiny_config("steps=1", "agent.memory=both", "agent.reflection_tokens=8", splits)
    create_run_directory(config, tmp_path / "run")
    train_run(tmp_path / "run", Console(quiet=True))
    how = ["evaluate", str(tmp_path / "run"), "--trials", "1", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*how, "--reflections", "--words", "2"], catch_exceptions=False)
    assert "first 2 words of them" in done.output
    assert read_plan(tmp_path / "out").words == 2
    path = tmp_path / "out" / "reflections.json"
    (report,) = read_report(path, ReflectionReport).reports
    assert report.words == 2
    assert report.alone is not None
    new = ("words", "shortened", "over_shortened", "next_over_shortened", "alone")
    before = msgspec.json.decode(path.read_bytes())
    before["reports"] = [{key: value for key, value in before["reports"][0].items() if key not in new}]
    path.write_bytes(msgspec.json.encode(before))
    (old,) = read_report(path, ReflectionReport).reports
    assert (old.kept, old.shortened, old.alone) == (report.kept, (), None), "files written before can be read"


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"words": 3}, "words = 3: only reflections are shortened; evaluate with --reflections"),
        ({"words": 0, "reflections": True}, "words"),
    ],
)
def test_words_that_cannot_be_used_are_refused(tmp_path: Path, how: dict[str, int], why: str) -> None:
    request = EvaluationRequest("scripted:counter", "rps(rounds=1)", ("always:rock", "copy"), 1, **how)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=why):
        begin_evaluation(request, tmp_path / "out", ResourceLimits())
