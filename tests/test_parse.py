"""Reading actions out of free text: what counts, what does not, and that nothing can break it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.agents.parsing import Parsed, parse_action, parse_reflection, strip_thoughts
from tests.fuzz import ACTIONS, FRAGMENTS, check, fuzz, kind

RPS = ("rock", "paper", "scissors")


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<action>rock</action>", "rock"),
        ("I think rock. <action>paper</action> because.", "paper"),
        ("<ACTION>\n  RoCk\t</Action>", "rock"),
        ("< action >rock< / action >", "rock"),
        ("<action>rock</action> no <action>paper</action>", "paper"),
        ("<action>rock</action> or <action>pap", "rock"),
        ("<action>rock<action>paper</action></action>", "paper"),
        ("<action><action>rock</action>", "rock"),
        ("</action><action>rock</action></action>", "rock"),
        ("<think><action>paper</action></think><action>rock</action>", "rock"),
        ("<action>rock</action><think>or <action>paper</action></think>", "rock"),
        ("<action>rock</action><think>or <action>paper</action>", "rock"),
        ("<action>paper</action> hm</think> <action>rock</action>", "rock"),
        ("<think>use <think> here</think><action>rock</action>", "rock"),
        ("<THINKING>x</Thinking><action>rock</action>", "rock"),
        ("<action>ro<think>x</think>ck</action>", "rock"),
        ("<action>I play Rock.</action>", "rock"),
        ("<action>rock</action</action>", "rock"),
        ("<action>rock - rocks and rockets</action>", "rock"),
        ("İ ﷺ \ud800 \x00 <action>rock</action>", "rock"),
        ("<|im_end|><action>rock</action><|im_end|>", "rock"),
    ],
)
def test_the_last_complete_tag_counts(text: str, action: str) -> None:
    assert parse_action(text, RPS) == Parsed(action, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it has no <action>NAME</action>"),
        ("rock", "it has no <action>NAME</action>"),
        ("rock</action>", "it has no <action>NAME</action>"),
        ("<think><action>rock</action></think>", "it has no <action>NAME</action>"),
        ("<think>I never stop <action>rock</action>", "it has no <action>NAME</action>"),
        ("<action>rock</action> that was my thought</think>", "it has no <action>NAME</action>"),
        ("<action>rock</action><think>x</think> all that</think>", "it has no <action>NAME</action>"),
        ("<action>rock", "its <action> is not closed"),
        ("<action></action>", "'' is not one of the actions"),
        ("<action>lizard\n\x00</action>", "'lizard ?' is not one of the actions"),
        ("<action>rock</action><action>it's <b>lizard</b></action>", "'it`s [b]lizard[/b]' is not one of the actions"),
        ("<action>Rock-Paper-Scissors</action>", "'Rock-Paper-Scissors' is not one of the actions"),
        ("<action>rocks, papers</action>", "'rocks, papers' is not one of the actions"),
        ("<action>rock beats scissors</action>", "'rock beats scissors' could be 'rock' or 'scissors'"),
        ("<action>" + "x" * 50 + "</action>", "'" + "x" * 39 + "…' is not one of the actions"),
    ],
)
def test_what_holds_no_action_is_named(text: str, problem: str) -> None:
    assert parse_action(text, RPS) == Parsed(None, problem)


@pytest.mark.parametrize(
    ("said", "actions", "expected"),
    [
        ("Bet", ("bet", "Bet"), Parsed("Bet", None)),
        ("bet", ("bet", "Bet"), Parsed("bet", None)),
        ("BET", ("bet", "Bet"), Parsed(None, "'BET' could be 'bet' or 'Bet'")),
        ("bet  2", ("bet", "bet 2"), Parsed("bet 2", None)),
        ("bet\n2", ("bet 2", "BET 2"), Parsed("bet 2", None)),
        ("a  b", ("a  b", "a b"), Parsed("a  b", None)),
        ("a   b", ("a  b", "a b"), Parsed(None, "'a b' could be 'a b' or 'a b'")),
        ("STRASSE", ("straße", "weg"), Parsed("straße", None)),
        ("rock", ("rock", "rock"), Parsed("rock", None)),
        ("I bet 2", ("bet", "bet 2"), Parsed(None, "'I bet 2' could be 'bet' or 'bet 2'")),
        ("I BET", ("bet", "Bet"), Parsed(None, "'I BET' could be 'bet' or 'Bet'")),
        ("take 12", ("1", "2", "12"), Parsed("12", None)),
        ("rock", (), Parsed(None, "'rock' is not one of the actions")),
    ],
)
def test_the_strictest_match_that_is_alone_wins(said: str, actions: tuple[str, ...], expected: Parsed) -> None:
    assert parse_action(f"<action>{said}</action>", actions) == expected


def test_a_reflection_is_what_is_left_of_the_thoughts() -> None:
    assert parse_reflection("<think>hm</think>\n They always\nbet. ") == "They always\nbet."
    assert parse_reflection("<think>cut off") == ""
    assert strip_thoughts("no thoughts <action>") == "no thoughts <action>"


@pytest.mark.parametrize(
    ("before", "repeated", "after"),
    [
        ("", "<think>", ""),
        ("", "</think>", ""),
        ("", "<action>", ""),
        ("", "<action></action>", ""),
        ("", "<think></think>", ""),
        ("", "<" * 10, ""),
        ("<", " " * 10, ""),
        ("", "<action" + " " * 10, ""),
        ("</", " " * 10, "action"),
        ("<action>", " \x00" * 5, "</action>"),
        ("<action>", "ß" * 5, "</action>"),
    ],
)
def test_huge_input_takes_linear_time(before: str, repeated: str, after: str) -> None:
    """Ten times the text takes about ten times as long; in quadratic time it would be a hundred."""
    small, large = (min(_seconds(before + repeated * num + after) for _ in range(3)) for num in (10_000, 100_000))
    assert large < 40 * small


def _seconds(text: str) -> float:
    start = time.process_time()
    check(text, parse_action(text, RPS), RPS)
    return time.process_time() - start


PIECES = st.one_of(st.text(st.characters(), max_size=6), st.sampled_from(FRAGMENTS), st.sampled_from(RPS))


@settings(max_examples=1500, deadline=None)
@given(st.lists(PIECES, max_size=6).map("".join), st.sampled_from(ACTIONS))
def test_any_text_gives_a_legal_action_or_a_problem(text: str, actions: tuple[str, ...]) -> None:
    parsed = parse_action(text, actions)
    check(text, parsed, actions)
    kind(parsed)
    for action in actions:
        assert parse_action(f"{text}</think><action>{action}</action>", actions) == Parsed(action, None)


def test_a_hundred_thousand_broken_replies() -> None:
    counts = fuzz(100_000, seed=1)
    assert counts.total() == 100_000
    assert min(counts[name] for name in ("an action", "no <action>", "not closed", "not one of", "could be")) > 100
