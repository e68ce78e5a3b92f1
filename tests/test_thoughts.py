"""Thoughts that a chat template opens before each answer: what stands in them is no action and no note."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from mage.agents.briefing import Briefing
from mage.agents.byte_format import ByteFormat
from mage.agents.language import LanguageAgent, Rewrite, as_written
from mage.evaluation.suite.reflections import shorten_reflection
from mage.types import Memory, Observation, ReplyMode, Thoughts
from tests.seated import RandomEngine, make_settings, make_task


class Opening(ByteFormat):
    """Like the chat templates that open a thought before each answer."""

    def user(self, text: str) -> tuple[int, ...]:
        return (*super().user(text), *b"<think>\n")


SEEN = Observation(0, 0, 0, "Round 1.", ("rock", "paper"), (0, 1), "key", {})
OVER = msgspec.structs.replace(SEEN, actions=(), ids=())
NEXT = msgspec.structs.replace(SEEN, episode=1)


def opened(answer: str, thoughts: Thoughts, rewrite: Rewrite = as_written) -> tuple[LanguageAgent, RandomEngine]:
    engine = RandomEngine((answer,))
    how = make_settings(reply=ReplyMode.TEXT, memory=Memory.BOTH, thoughts=thoughts, retries=0, reflection_tokens=99)
    return LanguageAgent(engine, Opening(), how, Briefing("RULES"), make_task(episodes=2), 0, rewrite), engine


@pytest.mark.parametrize("thoughts", list(Thoughts))
@pytest.mark.parametrize(
    ("answer", "action", "note"),
    [
        ("maybe <action>rock</action>, or", None, ""),
        ("not <action>rock</action></think><action>paper</action>", "paper", "<action>paper</action>"),
    ],
)
def test_a_thought_that_the_template_opens_holds_no_action_and_no_note(
    thoughts: Thoughts, answer: str, action: str | None, note: str
) -> None:
    agent, _ = opened(answer, thoughts)
    reply, written = asyncio.run(agent.act(SEEN)), asyncio.run(agent.reflect(OVER))
    assert written is not None
    assert (reply.action, written.action) == (action, note)


@pytest.mark.parametrize("thoughts", list(Thoughts))
def test_what_was_not_sampled_is_no_part_of_a_thought_that_the_template_opens(thoughts: Thoughts) -> None:
    agent, engine = opened("hm</think>one two three", thoughts, shorten_reflection(2))
    agent.force_action(SEEN, "paper")
    asyncio.run(agent.reflect(OVER))
    asyncio.run(agent.act(NEXT))
    _, move, note, _ = Opening().transcript(engine.prompts[-1]).split("<|assistant|>\n")
    assert move.startswith("<think>\n\n</think>\n\n<action>paper</action>\n")
    assert note.startswith("<think>\n\n</think>\n\none two\n")
