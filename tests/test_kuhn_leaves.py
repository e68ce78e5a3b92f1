"""Kuhn poker against a pay-off table written by hand, and what each seat is told at every leaf."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from mage.types import Episode
from tests.forced import play_forced

SEQUENCES = ("pass pass", "pass bet pass", "pass bet bet", "bet pass", "bet bet")

# What the first seat wins with (its card, the other's card), in the order of SEQUENCES.
FIRST_SEAT_WINS = {
    ("jack", "queen"): (-1, -1, -2, +1, -2),
    ("jack", "king"): (-1, -1, -2, +1, -2),
    ("queen", "jack"): (+1, -1, +2, +1, +2),
    ("queen", "king"): (-1, -1, -2, +1, -2),
    ("king", "jack"): (+1, -1, +2, +1, +2),
    ("king", "queen"): (+1, -1, +2, +1, +2),
}
CARDS = ("jack", "queen", "king")
FOLDED = {"pass bet pass", "bet pass"}

Leaf = tuple[tuple[str, str], str]


@pytest.fixture(scope="module")
def leaves() -> dict[Leaf, Episode]:
    """Every leaf, reached by seeds that deal the cards and forced moves."""
    found: dict[Leaf, Episode] = {}
    for seed in range(60):
        for sequence in SEQUENCES:
            moves = sequence.split()
            episode = play_forced("kuhn_poker", {0: moves[0::2], 1: moves[1::2]}, seed)
            cards: Any = episode.result.facts["cards"]
            found[(CARDS[cards[0]], CARDS[cards[1]]), sequence] = episode
    return found


def test_all_thirty_leaves_pay_what_the_table_says(leaves: dict[Leaf, Episode]) -> None:
    expected = {(deal, s): w for deal, row in FIRST_SEAT_WINS.items() for s, w in zip(SEQUENCES, row, strict=True)}
    assert len(expected) == 30
    assert {leaf: e.result.returns for leaf, e in leaves.items()} == {leaf: (w, -w) for leaf, w in expected.items()}


def test_rewards_add_up_to_returns(leaves: dict[Leaf, Episode]) -> None:
    for (_, sequence), episode in leaves.items():
        for seat in (0, 1):
            rewards = [turn.reward for turn in episode.turns if turn.observation.seat == seat]
            assert sum(rewards) == episode.result.returns[seat]
            assert rewards[:-1] == [0.0] * (len(rewards) - 1)
        assert [turn.action for turn in episode.turns] == sequence.split()


def test_a_seat_is_told_its_card_the_play_the_score_and_what_was_shown(leaves: dict[Leaf, Episode]) -> None:
    for (deal, sequence), episode in leaves.items():
        for seat, told in enumerate(episode.result.outcomes):
            names = ("you", "opponent") if seat == 0 else ("opponent", "you")
            acts = ", ".join(f"{names[i % 2]} {act}" for i, act in enumerate(sequence.split()))
            lines = [f"Your card: {deal[seat]}.", f"Play: {acts}."]
            if sequence not in FOLDED:
                lines.append(f"Shown: {names[0]} {deal[0]}, {names[1]} {deal[1]}.")
            lines.append(f"Your score: {episode.result.returns[seat]:+.0f}.")
            assert told == "\n".join(lines)


def test_a_folded_hand_stays_hidden(leaves: dict[Leaf, Episode]) -> None:
    """After a fold, what a seat is told does not depend on the other's card, in either direction."""
    told: defaultdict[tuple[int, str, str], set[str]] = defaultdict(set)
    for (deal, sequence), episode in leaves.items():
        for seat in (0, 1):
            told[seat, deal[seat], sequence].add(episode.result.outcomes[seat])
    assert all(len(texts) == 1 for (_, _, sequence), texts in told.items() if sequence in FOLDED)
    assert any(len(texts) == 2 for (_, _, sequence), texts in told.items() if sequence not in FOLDED)
