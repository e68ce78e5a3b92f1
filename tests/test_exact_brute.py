"""Exact references against brute force over all pure strategies, with Kuhn's rules written down once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path

import pytest

from mage.evaluation.exact import PlanObjective, bayes_optimal, best_memoryless, best_response

Strategy = Callable[[int, tuple[int, ...]], Fraction | int]
"""A strategy for Kuhn poker: the probability of a bet by card and betting so far."""

SCRIPTS: dict[str, Strategy] = {
    "conservative": lambda card, _: int(card == 2),
    "aggressive": lambda card, bets: int(card > 0 or 1 not in bets),
    "intermediate": lambda card, bets: int(card == 2 or (card == 1 and 1 not in bets)),
}

DEALS = list(permutations(range(3), 2))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what another run of the tests has stored."""
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "cache"))


def near(value: str) -> object:
    return pytest.approx(float(Fraction(value)), abs=1e-12)


def test_brute_force_over_pure_strategies_agrees_on_best_responses_and_memoryless_play() -> None:
    for seat in (0, 1):
        table = [[_value(mine, script, seat) for script in SCRIPTS.values()] for mine in _strategies(seat)]
        assert len(table) == 64
        for column, name in enumerate(SCRIPTS):
            assert best_response("kuhn_poker", name, seat, 1) == near(str(max(row[column] for row in table)))
        for weights in ([1, 1, 1], [3, 3, 4], [1, 5, 1], [7, 1, 2]):
            pool = list(zip(SCRIPTS, map(float, weights), strict=True))
            best = max(sum(w * v for w, v in zip(weights, row, strict=True)) for row in table) / sum(weights)
            assert best_memoryless("kuhn_poker", pool, seat, 1) == near(str(best))


@pytest.mark.parametrize("pool", [list(SCRIPTS), ["conservative", "uniform"]])
def test_brute_force_over_pure_strategies_agrees_on_two_episodes(pool: list[str]) -> None:
    """With `uniform` a folded card would tell something, and the values would be others if it were seen."""
    members: list[Strategy] = [SCRIPTS.get(name, lambda *_: Fraction(1, 2)) for name in pool]
    opponents = [(name, 1.0) for name in pool]
    for seat in (0, 1):
        strategies = list(_strategies(seat))
        table = [[_value(mine, member, seat) for member in members] for mine in strategies]
        last, total = Fraction(-9), Fraction(-9)
        for row, mine in zip(table, strategies, strict=True):
            later = sum((_best_row(table, odds) for odds in _posteriors(mine, members, seat)), Fraction(0))
            last, total = max(last, later), max(total, sum(row, later))
        assert bayes_optimal("kuhn_poker", opponents, seat, 2, PlanObjective.LAST)[-1] == near(str(last / len(pool)))
        assert sum(bayes_optimal("kuhn_poker", opponents, seat, 2, PlanObjective.SUM)) == near(str(total / len(pool)))


def _strategies(seat: int) -> Iterator[Strategy]:
    """All 64 pure strategies of a seat: an action for each card at each of its two decisions."""
    spots = [(card, bets) for card in range(3) for bets in ([(), (0, 1)] if seat == 0 else [(0,), (1,)])]
    for actions in product((0, 1), repeat=len(spots)):
        table = dict(zip(spots, actions, strict=True))
        yield lambda card, bets, table=table: table[card, bets]  # type: ignore[misc]


Line = tuple[Fraction, tuple[int, ...], int]
"""A probability, the betting, and what the first seat wins."""


def _lines(players: Sequence[Strategy], cards: Sequence[int], bets: tuple[int, ...] = ()) -> Iterator[Line]:
    """All ways a deal can be played: Kuhn's rules written down once more."""
    if bets in [(0, 1, 0), (1, 0)]:
        yield Fraction(1), bets, -1 if bets == (0, 1, 0) else 1
    elif bets in [(0, 0), (0, 1, 1), (1, 1)]:
        stake = 2 if 1 in bets else 1
        yield Fraction(1), bets, stake if cards[0] > cards[1] else -stake
    else:
        mover = len(bets) % 2
        bet = Fraction(players[mover](cards[mover], bets))
        for action, probability in ((0, 1 - bet), (1, bet)):
            if probability:
                for below, betting, win in _lines(players, cards, (*bets, action)):
                    yield probability * below, betting, win


def _value(mine: Strategy, member: Strategy, seat: int) -> Fraction:
    players = [mine, member] if seat == 0 else [member, mine]
    wins = sum((p * win for deal in DEALS for p, _, win in _lines(players, deal)), Fraction(0))
    return (wins if seat == 0 else -wins) / len(DEALS)


def _posteriors(mine: Strategy, members: Sequence[Strategy], seat: int) -> list[list[Fraction]]:
    """By what the seat may see of an episode, how likely each member is to show it."""
    seen: dict[object, list[Fraction]] = {}
    for index, member in enumerate(members):
        for deal in DEALS:
            for probability, bets, _ in _lines([mine, member] if seat == 0 else [member, mine], deal):
                card_shown = None if bets in [(0, 1, 0), (1, 0)] else deal[1 - seat]
                odds = seen.setdefault((deal[seat], bets, card_shown), [Fraction(0)] * len(members))
                odds[index] += probability / len(DEALS)
    return list(seen.values())


def _best_row(table: Sequence[Sequence[Fraction]], odds: Sequence[Fraction]) -> Fraction:
    return max(sum((o * v for o, v in zip(odds, row, strict=True)), Fraction(0)) for row in table)
