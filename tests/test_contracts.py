"""Engines, codecs and players without a model: the scripted ones, and that the checks find what is broken."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from mage.agents.byte_format import ByteFormat
from mage.agents.parsing import parse_action
from mage.checks.engines import check_chat_format, check_engine
from mage.checks.players import check_player, check_policy, observations_of
from mage.engines.scripted import COUNT_ROUNDS, MODELS, ScriptedEngine, first
from mage.errors import EngineError
from mage.opponents.policy import certainly, evenly
from mage.opponents.registry import make_player
from mage.protocols import Sampling
from mage.types import REFLECT_REQUEST, Completion
from mage.worlds.openspiel.game import load_game
from tests.seated import HOSTILE, FixedEngine, GluedCodec, RandomEngine

CODEC = ByteFormat()

ROUND = (
    "Here rock beats scissors, paper beats rock, scissors beats paper.\n<|user|>\nRound 1 of 1.\nActions: rock, paper"
)
LOST = "Episode 1 is over.\nLast round: you rock, opponent scissors."
OVER = f"{ROUND}\n<|assistant|>\nrock\n<|user|>\n{LOST}\n{REFLECT_REQUEST}"
NEXT = "\n<|assistant|>\nA note.\n<|user|>\nRound 1 of 1.\nActions: paper, rock"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("first", ("rock", "I take the first action.", "paper")),
        ("counter", ("rock", "They play round 1: scissors.", "rock")),
        ("latest", ("rock", "They play round 1: scissors.", "rock")),
    ],
)
def test_scripted_models_speak_both_ways(name: str, expected: tuple[str, str, str]) -> None:
    model = MODELS[name]
    assert (model(ROUND, ("rock", "paper")), model(OVER, ()), model(OVER + NEXT, ("paper", "rock"))) == expected
    spoken = [parse_action(model(prompt, ()), ("rock", "paper")).action for prompt in (ROUND, OVER + NEXT)]
    assert spoken == [expected[0], expected[2]]


@pytest.mark.parametrize("name", sorted(COUNT_ROUNDS))
def test_who_counts_rounds_says_which_games_it_plays(name: str) -> None:
    with pytest.raises(EngineError, match="plays repeated games only"):
        MODELS[name]("Your card: king.", ("pass", "bet"))


def test_a_scripted_answer_must_be_one_of_the_choices() -> None:
    def answer(prompt: str, choices: tuple[str, ...]) -> str:
        return "c"

    choices = [CODEC.choice("a"), CODEC.choice("b")]
    with pytest.raises(EngineError, match="the scripted answer 'c' is not one of a, b"):
        asyncio.run(ScriptedEngine(answer).complete(CODEC.opening("S"), Sampling(1.0, 9, 0), choices))


def test_engines_keep_their_contract() -> None:
    check_engine(ScriptedEngine(first), CODEC)
    check_engine(RandomEngine(HOSTILE), CODEC)


def test_codecs_keep_their_contract() -> None:
    check_chat_format(CODEC, control=(256, 257, 258))
    check_chat_format(GluedCodec(), control=(256, 257, 258))


class NaiveCodec(ByteFormat):
    """Takes control tokens from text."""

    def user(self, text: str) -> tuple[int, ...]:
        head, found, tail = text.partition("<|im_end|>")
        return (*super().user(head)[:-1], *((self.end,) if found else ()), *super().user(tail)[1:])


class ForgetfulCodec(ByteFormat):
    """Trims what it decodes."""

    def decode(self, tokens: Sequence[int]) -> str:
        return super().decode(tokens).strip()


@pytest.mark.parametrize(
    ("chat_format", "broken"), [(NaiveCodec(), "opens or ends a turn"), (ForgetfulCodec(), "reads back as")]
)
def test_the_check_finds_broken_codecs(chat_format: ByteFormat, broken: str) -> None:
    with pytest.raises(AssertionError, match=broken):
        check_chat_format(chat_format)


@pytest.mark.parametrize(
    ("tokens", "truncated"),
    [(CODEC.choice("bet"), True), (CODEC.choice("bet")[:-1], False), (CODEC.choice("b" * 99), False), ((), True)],
)
def test_the_check_finds_broken_replies(tokens: tuple[int, ...], truncated: bool) -> None:
    with pytest.raises(AssertionError):
        check_engine(FixedEngine(tokens, truncated), CODEC)


class MovingEngine(RandomEngine):
    """Draws from how often it was asked instead of from the call's seed."""

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        moved = Sampling(sampling.temperature, sampling.max_tokens, len(self.prompts))
        return await super().complete(prompt, moved, choices)


def test_the_check_finds_engines_that_depend_on_order() -> None:
    with pytest.raises(AssertionError, match="the same seed gives another reply"):
        check_engine(MovingEngine(), CODEC)


@pytest.mark.parametrize("game", ["kuhn_poker", "rps(rounds=2)", "tic_tac_toe", "leduc_poker"])
def test_players_keep_their_contract(game: str) -> None:
    loaded = load_game(game)
    for seat in (0, 1):
        seen = observations_of(game, seat, seeds=range(3))
        assert len(seen) >= 6
        check_player(partial(make_player, "uniform", loaded, seat, 5), seen)
        check_policy(evenly, seen)


def test_the_check_finds_broken_policies() -> None:
    seen = observations_of("kuhn_poker", 0, seeds=range(3))
    check_policy(lambda observation: certainly(observation, 1), seen)
    for policy, broken in ((lambda _: [1.0], "1 probabilities for 2"), (lambda _: [0.5, 0.6], "add up to 1")):
        with pytest.raises(AssertionError, match=broken):
            check_policy(policy, seen)
