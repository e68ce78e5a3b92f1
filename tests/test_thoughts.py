"""Thoughts: which sampled tokens come before the action, and that their advantages alone have a factor of their own."""

from __future__ import annotations

import pytest

from mage.agents.byte_format import ByteFormat
from mage.agents.parsing import num_thought_tokens
from mage.credit.running_stats import EMPTY
from mage.credit.steps import agent_turns
from mage.errors import ConfigError
from mage.learners.samples import ThoughtCredit, to_samples
from mage.training.loop import to_batch
from mage.types import Call, Completion, Observation, Phase, Turn
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
