"""Trials of remote models over real HTTP: whole ones, trouble on the way, and hostile text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import pytest

from mage.types import Failure, Memory, ReplyMode, Trial
from tests.chat_server import TROUBLE, ChatServer, Said, always, engine_of, first_action
from tests.seated import HOSTILE, agent_calls, make_settings, make_task, play, play_all, seat_engine

TEXT = make_settings(reply=ReplyMode.TEXT, max_tokens=600, reflection_tokens=300)
EMPTY_ACTION = "<action></action>"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.mark.parametrize("memory", Memory)
def test_a_full_trial_is_played(server: ChatServer, memory: Memory) -> None:
    trial = play(make_task(), engine_of(server), make_settings(memory=memory, reply=ReplyMode.TEXT, max_tokens=600))
    assert [len(episode.turns) for episode in trial.episodes] == [4, 4, 4]
    assert {turn.action for e in trial.episodes for turn in e.turns if turn.observation.seat == 0} == {"rock"}
    notes = memory in (Memory.REFLECTIONS, Memory.BOTH)
    assert [r.action for r in trial.reflections] == ["They are still there."] * (2 if notes else 0)
    assert len(server.asked) == len(agent_calls(trial)) == 6 + 2 * notes


def test_trouble_in_the_middle_of_a_trial_leaves_no_trace(server: ChatServer) -> None:
    task, how = make_task(), TEXT
    calm = play(task, engine_of(server), how)
    troubles = cycle([TROUBLE["429"], TROUBLE["500"], TROUBLE["truncated JSON"], None, TROUBLE["hang-up"], None])
    server.answer = lambda asked: next(troubles) or first_action(asked)
    assert play(task, engine_of(server), how) == calm


@pytest.mark.parametrize(
    "text", [*HOSTILE, "\x1b[2J\x1b]0;owned\x07", "x" * 3_000_000, "\ud800\udc00 \udfff", EMPTY_ACTION]
)
def test_hostile_text_is_an_invalid_reply_and_nothing_else(server: ChatServer, text: str) -> None:
    server.answer = always(Said(text))
    trial = play(make_task(), engine_of(server), TEXT)
    assert [episode.result.forfeited_by for episode in trial.episodes] == [0, 0, 0]
    assert all(call.problem is not None for e in trial.episodes for turn in e.turns for call in turn.calls)
    for asked in server.asked:
        roles = [message["role"] for message in asked.body["messages"]]
        assert roles == ["system", *["user", "assistant"] * (len(roles) // 2 - 1), "user"], "no text opens a turn"


def test_a_call_that_fails_is_the_failure_of_its_trial_alone(server: ChatServer) -> None:
    server.answer = lambda asked: TROUBLE["500"] if asked.body["seed"] % 5 == 0 else first_action(asked)
    jobs = [(make_task(seed=seed), 0) for seed in range(6)]
    outcomes = play_all(jobs, seat_engine(engine_of(server), TEXT))
    failures = [o for o in outcomes if isinstance(o, Failure)]
    assert 0 < len(failures) < 6
    assert {f.error for f in failures} == {"EngineError"}
    assert all("answers 500: oh no; it was asked 4 times" in f.message for f in failures)
    assert all(isinstance(o, Trial) for o in outcomes if o not in failures)
