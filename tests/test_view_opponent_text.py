"""Opponents in words: what a name does, in the words of the game that is played."""

from __future__ import annotations

import pytest

from mage.opponents.registry import describe_opponents
from mage.view.read.opponent_text import describe_opponent, worded_game


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


def test_everybody_who_is_listed_has_words() -> None:
    listed = [entry.name for entry in describe_opponents() if entry.name != "remote"]
    assert [name for name in listed if not describe_opponent(name, "rps")] == []
    assert describe_opponent("remote", "rps") == ""


def test_only_games_with_words_of_their_own_are_loaded() -> None:
    assert worded_game("rps(rounds=2)") is not None
    assert worded_game("connect_four") is None
    assert worded_game("rps(rounds=none)") is None
