"""Opponents in words: what a name does, in the words of the game that is played."""

from __future__ import annotations

import pytest

from mage.opponents.registry import describe_opponents
from mage.view.read.opponent_text import describe_opponent, name_and_words, worded_game


@pytest.mark.parametrize(
    ("name", "game", "words"),
    [
        (
            "memory-one(first=2,map=[2,0,1],on=me)",
            "rps(rounds=3)",
            "Begins with scissors; then it follows its own last move: after rock scissors, after paper rock, "
            "after scissors paper.",
        ),
        ("memory-one(first=rock,map=[1,1,1])", "rps", "Begins with rock; then always paper."),
        (
            "memory-one(map=[0,1])",
            "pennies",
            "Begins at random; then it follows the other's last move: after heads heads, after tails tails.",
        ),
        (
            "memory-one(first=0,map=[0,1,1,0],on=both)",
            "pd",
            "Begins with cooperate; then it follows both last moves, its own first: after cooperate and cooperate "
            "cooperate, after cooperate and defect defect, after defect and cooperate defect, after defect and defect "
            "cooperate.",
        ),
        ("always(scissors)", "rps(rounds=3)", "Always scissors."),
        ("always(action=1)", "pd", "Always defect."),
        (
            "always(bet)",
            "kuhn_poker",
            "One action wherever it is legal; every legal action with the same probability elsewhere.",
        ),
        (
            "cycle(step=2)",
            "rps",
            "Rock, scissors, paper in turn, from a move that is drawn once per trial.",
        ),
        ("cycle(1,paper)", "rps", "Paper, scissors, rock in turn, from paper."),
        ("cycle(step=3)", "rps", ""),
        (
            "minimax",
            "tic_tac_toe",
            "Perfect play: every move that keeps the value of the game, with the same probability.",
        ),
        ("smollm2", "rps", ""),
        ("memory-one(map=[9,9,9])", "rps", ""),
        ("<b>(((", "rps", ""),
        (
            "memory-one(first=0,map=[0,1])",
            "leduc_poker",
            "A first move, then map from the last move of the other (on=them), its own (on=me) or both to the next "
            "move.",
        ),
    ],
)
def test_a_name_is_told_in_words(name: str, game: str, words: str) -> None:
    assert describe_opponent(name, game) == words


@pytest.mark.parametrize(
    ("name", "game", "line"),
    [
        ("always(scissors)", "rps", "Always scissors."),
        ("memory-one(first=rock,map=[1,1,1])", "rps", "Begins with rock; then always paper."),
        (
            "always(bet)",
            "kuhn_poker",
            "always(bet). One action wherever it is legal; every legal action with the same probability elsewhere.",
        ),
        ("smollm2", "rps", "smollm2"),
    ],
)
def test_a_line_has_the_parameters_of_an_opponent_once(name: str, game: str, line: str) -> None:
    assert name_and_words(name, game) == line


def test_everybody_who_is_listed_has_words() -> None:
    listed = [entry.name for entry in describe_opponents() if entry.name != "remote"]
    assert [name for name in listed if not describe_opponent(name, "rps")] == []
    assert describe_opponent("remote", "rps") == ""


def test_only_games_with_words_of_their_own_are_loaded() -> None:
    assert worded_game("rps(rounds=2)") is not None
    assert worded_game("connect_four") is None
    assert worded_game("rps(rounds=none)") is None
