"""What the engine keeps between calls: prefixes are read once, given up where slots are few, and change no token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mage.agents.briefing import briefing_of
from mage.agents.language import AgentSettings, LanguageAgent
from mage.engines.local.engine import LocalEngine
from mage.models.load import LoadedModel
from mage.rollout.group import play_groups
from mage.types import Group, Memory, ReplyMode, Task
from tests.engine_made import ask_all, assert_exact, choices, family, nano, prompts, run
from tests.worlds import AnyWorld


def test_a_model_that_cannot_use_the_cache_says_so_once_and_reads_everything() -> None:
    loaded = family("mistral with a window")
    with pytest.warns(UserWarning, match="attention window of 24 is shorter"):
        engine = LocalEngine(loaded, slots=4)
    asked = prompts(loaded, 3)
    run(ask_all(engine, asked, choices(loaded, "rock", "paper")))
    assert engine.counters()["read"] == sum(map(len, asked))


def test_a_trials_next_call_pays_only_for_its_new_tokens() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=8)
    (prompt,) = prompts(loaded, 1)
    options = choices(loaded, "rock", "paper")
    (completion,) = run(ask_all(engine, [prompt], options))
    assert engine.counters() | {"hits": 0, "reused": 0} == engine.counters()
    assert engine.counters()["read"] == len(prompt)
    engine.reset_counters()
    more = loaded.chat_format.user("Round 2 of 3.")
    run(ask_all(engine, [prompt + completion.tokens + more], options))
    assert engine.counters() == {
        "calls": 1,
        "hits": 1,
        "read": len(completion.tokens) + len(more),
        "reused": len(prompt),
        "sampled": 1,
        "forced": 1,
        "passes": 1,
    }


def test_a_shared_opening_is_read_once() -> None:
    loaded = nano()
    engine = LocalEngine(loaded, slots=16)
    opening = loaded.chat_format.opening("The game is rock-paper-scissors. " * 8)
    asked = [opening + loaded.chat_format.user(f"Round {n % 9} of 9.") for n in range(16)]
    assert len(opening) > 32
    completion = run(ask_all(engine, asked, choices(loaded, "rock", "paper")))
    for ids, one in zip(asked, completion, strict=True):
        assert_exact(loaded.model, ids, one)
    assert engine.counters()["read"] < len(opening) + 16 * len(asked[0][len(opening) :]) + 1


def play(
    engine: LocalEngine, loaded: LoadedModel, memory: Memory, num: int = 8, reply: ReplyMode = ReplyMode.CHOICE
) -> list[Group]:
    world = AnyWorld()
    how = AgentSettings("nano", memory, reply, 1.0, 12, 8, 0, engine.length)
    tasks = [Task("rps(rounds=2)", ("uniform",), 0, seed, 3, False, False, 1000) for seed in range(num)]
    found: list[Group] = run(
        play_groups(
            world,
            tasks,
            8,
            lambda task, n: LanguageAgent(engine, loaded.chat_format, how, briefing_of(world, task), task, n),
        )
    )
    assert not any(group.failures for group in found)
    return found


def tokens_of(groups: Sequence[Group]) -> list[Any]:
    return [trial.streams for group in groups for trial in group.trials]


@pytest.mark.parametrize("memory", [Memory.HISTORY, Memory.BOTH])
def test_few_slots_and_many_trials_give_the_tokens_of_many_slots(memory: Memory) -> None:
    few, many = LocalEngine(nano(), slots=4), LocalEngine(nano(), slots=64)
    assert tokens_of(play(few, nano(), memory)) == tokens_of(play(many, nano(), memory))
    assert few.counters()["read"] < 1.2 * many.counters()["read"], "trials that go on should keep what they have read"


def test_a_slot_that_was_given_up_is_read_again() -> None:
    loaded = nano()
    few, many = LocalEngine(loaded, slots=2), LocalEngine(loaded, slots=16)
    options = choices(loaded, "rock", "paper")
    streams = {engine: prompts(loaded, 5) for engine in (few, many)}
    for _ in range(3):
        for at in range(5):  # one after the other: nobody knows who will go on
            for engine, asked in streams.items():
                (completion,) = run(ask_all(engine, [asked[at]], options))
                asked[at] += completion.tokens + loaded.chat_format.user("Round 5 of 9.")
    assert streams[few] == streams[many]
    assert few.counters()["read"] > 1.5 * many.counters()["read"]


def test_whole_trials_are_the_same_twice_and_exact() -> None:
    engine = LocalEngine(nano(), slots=64)
    first = play(engine, nano(), Memory.BOTH, num=2, reply=ReplyMode.TEXT)
    engine.reset_cache()
    assert play(engine, nano(), Memory.BOTH, num=2, reply=ReplyMode.TEXT) == first, "to the last bit"
    for trial in (trial for group in first for trial in group.trials[:2]):
        for turn in (*(t for e in trial.episodes for t in e.turns), *trial.reflections):
            for call in turn.calls:
                assert_exact(nano().model, trial.streams[call.stream][: call.start], call.completion)
