"""What an agent reads where its reflections are kept, removed or another trial's."""

from __future__ import annotations

import pytest

from mage.agents.language import Rewrite, as_written
from mage.engines.scripted import ScriptedEngine
from mage.evaluation.suite.reflections import drop_reflection, swap_reflections
from mage.types import Memory, Task, Trial
from tests.seated import make_settings, make_task, play_all, prompt_text, saying
from tests.test_reflections import NOTES, seats, trial_of


def lending(task: Task) -> Rewrite:
    """Lends the reflections of a trial whose notes say `theirs`."""
    lender = trial_of(task, saying("", note="theirs"), Memory.BOTH, as_written)
    return swap_reflections({task: lender.reflections})


@pytest.mark.parametrize("memory", NOTES)
def test_what_an_agent_reads_when_its_notes_are_another_s(memory: Memory) -> None:
    task = make_task("rps(rounds=1)", opponents=("always:rock",))
    own = trial_of(task, saying("", note="mine"), memory, as_written)
    swapped = trial_of(task, saying("", note="mine"), memory, lending(task))
    for index, episode in enumerate(own.episodes):
        for turn, other in zip(episode.turns[:1], swapped.episodes[index].turns[:1], strict=True):
            read = prompt_text(swapped, other.calls[0])
            assert read == prompt_text(own, turn.calls[0]).replace("mine", "theirs")
            assert read.count("theirs") == index
    assert [turn.action for turn in swapped.reflections] == ["mine"] * 2, "what was written stays on record"


@pytest.mark.parametrize("memory", NOTES)
def test_what_an_agent_reads_without_its_notes(memory: Memory) -> None:
    task = make_task("rps(rounds=1)", opponents=("always:rock",))
    removed = trial_of(task, saying("", note="mine"), memory, drop_reflection)
    read = prompt_text(removed, removed.episodes[2].turns[0].calls[0])
    assert "mine" not in read
    assert "Write a short note" not in read
    assert "Your notes" not in read
    if memory is Memory.REFLECTIONS:
        assert "Episode 1" not in read
        return
    history = trial_of(task, saying(""), Memory.HISTORY, as_written)
    expected = prompt_text(history, history.episodes[2].turns[0].calls[0])
    assert read.partition("<|user|>")[2] == expected.partition("<|user|>")[2], "without notes, both is history"


@pytest.mark.parametrize("memory", NOTES)
@pytest.mark.parametrize("rewrite", [as_written, drop_reflection, None])
def test_calls_point_at_their_own_tokens_whatever_is_remembered(memory: Memory, rewrite: Rewrite | None) -> None:
    task = make_task(opponents=("always:paper",))
    trial = trial_of(task, saying("", note="mine"), memory, rewrite or lending(task))
    turns = [t for e in trial.episodes for t in e.turns if t.observation.seat == 0] + list(trial.reflections)
    for call in (call for turn in turns for call in turn.calls):
        stream = trial.streams[call.stream]
        assert stream[call.start : call.start + len(call.completion.tokens)] == call.completion.tokens
    num_streams = 3 if memory is Memory.REFLECTIONS or rewrite is not as_written else 1
    assert len(trial.streams) == num_streams


def test_a_small_context_holds_other_notes_too() -> None:
    how = make_settings(memory=Memory.BOTH, context=900)
    task = make_task(opponents=("always:paper",), episodes=8)
    lender = trial_of(task, saying("", note="theirs"), Memory.REFLECTIONS, as_written)
    for rewrite in (drop_reflection, swap_reflections({task: lender.reflections})):
        (trial,) = play_all([(task, 0)], seats(ScriptedEngine(saying("", note="mine")), how)(rewrite))
        assert isinstance(trial, Trial)
        assert trial.overflows
        for index, episode in enumerate(trial.episodes):
            for turn in episode.turns[::2]:
                assert "mine" not in prompt_text(trial, turn.calls[0])
                assert turn.observation.episode == index
        last = prompt_text(trial, trial.episodes[7].turns[0].calls[0])
        assert ("theirs" in last) == (rewrite is not drop_reflection)
