"""Duels: who sits where, what counts, and exact values inside the intervals."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from mage.errors import ConfigError
from mage.evaluation.duel import Duel, DuelCounter, DuelRow, check, play, tasks
from mage.stats import mean
from mage.types import Ending, Trial
from tests.recorded import failure, guest_trial, make_task


def fought(duel: Duel, num_seats: int) -> list[DuelRow]:
    async def go() -> list[DuelRow]:
        tally = DuelCounter(num_seats, (-1.0, 1.0))
        async for outcome in play(duel):
            assert isinstance(outcome, Trial)
            tally.add(outcome)
        return tally.rows()

    return asyncio.run(go())


def make_duel(player: str, *opponents: str, world: str = "kuhn_poker", trials: int = 2, episodes: int = 1) -> Duel:
    return Duel(player, opponents, world, trials, episodes, seed=0, max_turns=1000)


def test_every_seat_in_turn_with_shared_deals() -> None:
    listed = list(tasks(make_duel("uniform", "mcts:10", world="tic_tac_toe", trials=3)))
    assert [t.seat for t in listed] == [0, 1] * 3
    assert [t.seed for t in listed[0::2]] == [t.seed for t in listed[1::2]]
    assert len({t.seed for t in listed}) == 3
    assert {t.opponents for t in listed} == {("mcts(10)",)}


def test_one_opponent_for_all_seats_or_one_for_each() -> None:
    game = "kuhn_poker(players=3)"
    assert next(tasks(make_duel("uniform", "uniform", world=game))).opponents == ("uniform", "uniform")
    assert next(tasks(make_duel("uniform", "uniform", "cfr:5", world=game))).opponents == ("uniform", "cfr(5)")
    with pytest.raises(ConfigError, match="1 opponent for all other seats or 2, one for each; not 3"):
        check(make_duel("uniform", *["uniform"] * 3, world=game))


def test_bad_players_fail_before_anything_is_played() -> None:
    with pytest.raises(ConfigError, match="unknown opponent 'nobody'"):
        check(make_duel("nobody", "uniform"))
    with pytest.raises(ConfigError, match="unknown opponent 'nobody'"):
        check(make_duel("uniform", "nobody"))
    with pytest.raises(ConfigError, match="at least 2 trials"):
        check(make_duel("uniform", "uniform", trials=1))
    check(make_duel("uniform", "uniform"))


def test_best_responses_score_what_theory_says() -> None:
    first, second, both = fought(make_duel("best-response:conservative", "conservative", trials=1500), 2)
    for row, exact in ((first, 1 / 6), (second, 1 / 3), (both, 1 / 4)):
        assert row.score is not None
        assert row.score.holds(exact)
    assert (first.num_trials, both.num_trials, both.num_episodes) == (1500, 3000, 3000)


def test_a_player_against_itself_is_even_for_certain() -> None:
    """Seats share deals and draws, so both seats of a trial number are one game seen from both sides."""
    *_, both = fought(make_duel("uniform", "uniform", trials=40, episodes=2), 2)
    assert both.score is not None
    assert both.rates is not None
    assert both.score == mean([0.0] * 40, (-1.0, 1.0))
    assert both.rates[0].value == both.rates[2].value == 0.5


def test_perfect_players_draw() -> None:
    rows = fought(make_duel("minimax", "minimax", world="tic_tac_toe", trials=5), 2)
    for row in rows:
        assert row.rates is not None
        assert [rate.value for rate in row.rates] == [0.0, 1.0, 0.0]


def test_what_was_not_played_out_is_counted_apart() -> None:
    tally = DuelCounter(2)
    played = guest_trial(make_task(episodes=4))
    endings = [(Ending.FINISHED, None), (Ending.FORFEITED, 0), (Ending.FORFEITED, 1), (Ending.TRUNCATED, None)]
    replace = msgspec.structs.replace
    episodes = tuple(
        replace(e, result=replace(e.result, returns=(float(5 + i), 0.0), ending=ending, forfeited_by=who))
        for i, (e, (ending, who)) in enumerate(zip(played.episodes, endings, strict=True))
    )
    for seed in (1, 2):
        tally.add(replace(played, task=make_task(seed=seed), episodes=episodes))
    tally.add(failure())
    first, second, both = tally.rows()
    assert first.score is not None
    assert (first.score.value, first.num_episodes) == (5.0, 2), "only the episode that was played out counts"
    apart = (first.forfeits, first.opponent_forfeits, first.truncations, first.failures, first.num_trials)
    assert apart == (2, 2, 2, 1, 2)
    assert (second.score, second.rates) == (None, None)
    assert both.score == first.score


def test_games_nobody_wrote_words_for() -> None:
    rows = fought(make_duel("uniform", "uniform", world="liars_dice", trials=2), 2)
    assert [row.num_episodes for row in rows] == [2, 2, 4]
