"""Thoughts: which sampled tokens come before the action, and that their advantages alone have a factor of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from mage.agents.briefing import Briefing
from mage.agents.byte_format import ByteFormat
from mage.agents.language import LanguageAgent, Rewrite, as_written
from mage.agents.parsing import num_thought_tokens
from mage.credit.running_stats import EMPTY
from mage.credit.steps import agent_turns
from mage.errors import ConfigError
from mage.evaluation.suite.reflections import shorten_reflection
from mage.learners.samples import ThoughtCredit, to_samples
from mage.training.loop import to_batch
from mage.types import Call, Completion, Memory, Observation, Phase, ReplyMode, Thoughts, Turn
from tests.seated import RandomEngine, make_settings, make_task
from tests.speaking import SPEAKING, played
from tests.test_samples import trial
from tests.tiny import tiny_config, tiny_parts

BYTES = ByteFormat()


@pytest.mark.parametrize(
    ("prefill", "thought", "rest"),
    [
        ("", "", "<action>rock</action>"),
        ("", "They play rock. ", "<action>paper</action>"),
        ("", "<think><action>rock</action></think>no: ", "< action >paper</ action > there"),
        ("", "once</think>now <action>rock</action> or ", "<ACTION>paper</ACTION>"),
        ("", "a<think>b</think>c<think>d</think>", "<action>rock</action>"),
        ("", "schön 🪨🪨", "<action>rock</action>"),
        ("<action>", "", "rock</action> because"),
        ("<action>", "rock</action> no, ", "<action>paper</action>"),
        ("I say ", "this: ", "<action>paper</action>"),
        ("", "no tag at all", ""),
        ("", "<action>left open", ""),
    ],
)
def test_a_thought_ends_where_the_tag_of_the_action_begins(prefill: str, thought: str, rest: str) -> None:
    ids = BYTES.answer(thought + rest)
    expected = len(thought.encode()) if rest else len(ids)
    assert num_thought_tokens(ids, BYTES.decode, prefill) == expected


@pytest.mark.parametrize("thought", ["🪨 ", "hm 🪨🪨", "🪨🪨🪨 so ", "日本 "])
def test_letters_of_several_tokens_count_whole(thought: str) -> None:
    def decode(ids: Sequence[int]) -> str:
        """As SentencePiece's tokenizers do: bytes that break off within a letter are unknown letters, all of them."""
        text = bytes(token for token in ids if token < 256)
        try:
            return text.decode()
        except UnicodeDecodeError:
            return text.decode("ascii", errors="replace")

    ids = BYTES.answer(f"{thought}<action>rock</action>")
    assert num_thought_tokens(ids, decode) == len(thought.encode())


def said(text: str, *, phase: Phase = Phase.PLAY, problem: str | None = None, is_choice: bool = False) -> Turn:
    """A turn that said something, at the start of the first stream."""
    ids = BYTES.answer(text)
    allowed = tuple((token, 0) for token in ids) if is_choice else None
    call = Call(0, 0, Completion(ids, (0.0,) * len(ids), allowed, 0, False), problem)
    return Turn(phase, Observation(0, 0, 0, "", (), (), "", {}), None, text, (call,), 0.0)


def advantages_of(turn: Turn, factor: float) -> tuple[float, ...]:
    stream = turn.calls[0].completion.tokens
    (sample,) = to_samples(trial(stream), [turn], [2.0], [0.0], ThoughtCredit(factor, BYTES.decode, ""))
    return sample.advantages


def test_the_advantages_of_a_thought_alone_are_scaled() -> None:
    text = "hm <action>rock</action>"
    assert advantages_of(said(text), 0.25) == (0.5,) * 3 + (2.0,) * (len(text) - 3 + 1), "the end token is form"
    assert advantages_of(said(text), 0.0)[:3] == (0.0, 0.0, 0.0), "which is trained on, without an advantage"


@pytest.mark.parametrize(
    "turn",
    [
        said("hm <action>rok</action>", problem="'rok' is not one of the actions"),
        said("hm", problem="it has no <action>NAME</action>"),
        said("a note about <action>rock</action>", phase=Phase.REFLECT),
        said("rock", is_choice=True),
    ],
    ids=["another word", "no tag", "reflection", "choice"],
)
def test_unusable_replies_reflections_and_choices_have_no_thought(turn: Turn) -> None:
    assert set(advantages_of(turn, 0.25)) == {2.0}


def test_the_setting_reaches_the_batch_and_one_changes_nothing() -> None:
    parts = tiny_parts(*SPEAKING, "credit.thought_weight=0.25")
    groups = played(parts, 0)
    credited = parts.credit(groups)
    advantages, _ = parts.estimator.estimate(credited, EMPTY)
    batch = (groups, credited, advantages, range(len(groups)), ())
    plain, scaled = to_batch(*batch), to_batch(*batch, parts.thought_credit)
    assert tiny_parts(*SPEAKING).thought_credit is None
    trials = [trial for group in groups for trial in group.trials]
    num_thoughts = 0
    for own, before, after in zip(trials, plain, scaled, strict=True):
        factors = dict.fromkeys(before.positions, 1.0)
        for turn in agent_turns(own):
            num = len(turn.text.partition("<action>")[0].split())  # a word is a token
            num_thoughts += num
            factors |= dict.fromkeys(range(turn.calls[0].start, turn.calls[0].start + num), 0.25)
        expected = tuple(a * factors[p] for a, p in zip(before.advantages, before.positions, strict=True))
        assert after.advantages == expected
        assert (after.tokens, after.positions, after.logprobs) == (before.tokens, before.positions, before.logprobs)
    assert num_thoughts > 50


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"credit\.thought_weight"):
        tiny_config("credit.thought_weight=-1")


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
