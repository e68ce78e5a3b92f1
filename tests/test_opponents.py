"""Scripts, combinations and the table of opponents."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from mage.opponents.registry import COMBINERS, MAKERS, MODEL_OPPONENTS, describe_opponents, family
from mage.opponents.tictactoe_scripts import ORDERS
from mage.spec import make_spec, parse_spec
from mage.types import Observation
from mage.worlds.openspiel.game import Game, load_game
from tests.opponents import PAPER, ROCK, SCISSORS, policy_of, seen_after

JACK, QUEEN, KING = 0, 1, 2
PASS, BET = 0, 1

SPECS = {
    "kuhn_poker": (
        "conservative",
        "aggressive",
        "intermediate",
        "cfr(iterations=50)",
        "best-response:aggressive",
        "behaviour(seed=4)",
        "always:bet",
        "mixture(conservative, aggressive, weights=[0.2, 0.8])",
        "switch(conservative, aggressive, at=1)",
    ),
    "rps(rounds=4)": (
        "uniform",
        "always:paper",
        "copy",
        "beat-last(first=rock)",
        "lose-to-last(first=2)",
        "win-stay-lose-shift",
        "cycle(step=2)",
        "memory-one(first=scissors, on=me, map=[paper, rock, 2])",
        "memory-one(map=[0, 0, 1])",
        "memory-one(map=[0, 1, 2, 1, 1, 0, 2, 0, 1], on=both)",
        "automaton(states=4, noise=0.1, seed=7)",
        "behaviour(concentration=0.3, seed=1)",
        "mixture(copy, uniform, each=episode)",
        "mixture(copy, cycle, always(rock), each=trial)",
        "best-response:copy",
    ),
    "pd(rounds=3)": (
        "copy(first=cooperate)",
        "beat-last",
        "win-stay-lose-shift(first=0)",
        "grim",
        "best-response:copy",
    ),
    "tic_tac_toe": (
        *(f"preferred:{order}" for order in ORDERS),
        "minimax",
        "mcts:20",
        "always:b2",
        "best-response:preferred:edges",
        "behaviour(seed=2)",
    ),
    "leduc_poker": ("uniform", "always:raise", "behaviour(concentration=2, seed=3)", "cfr(iterations=2)"),
    "kuhn_poker(players=3)": ("conservative", "aggressive", "intermediate", "best-response:intermediate"),
}
"""By game, opponents that can play it; every opponent is among them."""

CASES = [(game, spec) for game, specs in SPECS.items() for spec in specs]


def walks(game: Game, num_games: int) -> Iterator[list[tuple[int, Observation]]]:
    """Decisions along random games: the seat to move, and what it sees."""
    for seed in range(num_games):
        rng = random.Random(seed)
        state, turns, decisions = game.start(0), Counter[int](), []
        while not state.is_terminal():
            seat = state.current_player()
            if seat >= 0:
                decisions.append((seat, game.observe(state, seat, seed % 3, turns[seat])))
                turns[seat] += 1
            state.apply_action(rng.choice(state.legal_actions()))
        yield decisions


@pytest.mark.parametrize(("name", "spec"), CASES)
def test_every_opponent_gives_a_distribution_and_is_pure(name: str, spec: str) -> None:
    game = load_game(name)
    policies = [policy_of(spec, game, seat) for seat in range(game.num_seats)]
    for decisions in walks(game, 5):
        for seat, observation in decisions:
            odds = list(policies[seat](observation))
            assert len(odds) == len(observation.ids)
            assert min(odds) >= 0
            assert sum(odds) == pytest.approx(1)
            assert list(policies[seat](observation)) == odds


@pytest.mark.parametrize(("name", "spec"), [c for c in CASES if c[0] != "leduc_poker"])
def test_rewording_a_game_changes_nothing_for_opponents(name: str, spec: str) -> None:
    plain = load_game(name)
    spelled = parse_spec(name)
    reworded = load_game(str(make_spec(spelled.name, **spelled.named, reworded=5)))
    for seat in range(plain.num_seats):
        policies = policy_of(spec, plain, seat), policy_of(spec, reworded, seat)
        for usual, other in zip(walks(plain, 4), walks(reworded, 4), strict=True):
            for (mover, a), (_, b) in zip(usual, other, strict=True):
                if mover == seat:
                    assert a.actions != b.actions
                    assert list(policies[0](a)) == list(policies[1](b))


def test_every_opponent_is_tried_here() -> None:
    assert {parse_spec(spec).name for _, spec in CASES} == {*MAKERS, *COMBINERS}


def test_specs_print_and_read_back() -> None:
    for _, spec in CASES:
        assert parse_spec(str(parse_spec(spec))) == parse_spec(spec)


# Kuhn poker, by hand: (card, betting so far) -> bets?
HANDS = [(card, betting) for card in (JACK, QUEEN, KING) for betting in ((), (PASS,), (BET,), (PASS, BET))]
BETS = {
    "conservative": {(KING, b) for b in ((), (PASS,), (BET,), (PASS, BET))},
    "aggressive": {(c, b) for c, b in HANDS if c != JACK or b in ((), (PASS,))},
    "intermediate": {(c, b) for c, b in HANDS if c == KING or (c == QUEEN and b in ((), (PASS,)))},
}


@pytest.mark.parametrize("name", BETS)
def test_kuhn_scripts_play_as_described(name: str) -> None:
    game = load_game("kuhn_poker")
    for card, betting in HANDS:
        seat = len(betting) % 2
        other = (card + 1) % 3
        deal = (card, other) if seat == 0 else (other, card)
        odds = policy_of(name, game, seat)(seen_after(game, seat, *deal, *betting))
        assert odds == ((0.0, 1.0) if (card, betting) in BETS[name] else (1.0, 0.0))


def test_kuhn_scripts_know_the_best_card_of_a_larger_game() -> None:
    game = load_game("kuhn_poker(players=3)")
    ace, king = seen_after(game, 0, 3, 2, 1), seen_after(game, 1, 3, 2, 1, PASS)
    assert policy_of("conservative", game)(ace) == (0.0, 1.0)
    assert policy_of("conservative", game, 1)(king) == (1.0, 0.0)
    assert policy_of("intermediate", game, 1)(king) == (0.0, 1.0)


# The cells each preferred player takes while the other takes, of what is left, the last in reading order.
PREFERRED_GAMES = {
    "centre": [4, 0, 2],  # against 8, 7, 6, which wins
    "corners": [0, 2, 6, 4],
    "edges": [1, 3, 5],
    "main-diagonal": [0, 4, 2],
    "anti-diagonal": [2, 4, 6],
    "corners-reversed": [8, 6, 2, 0],
}


@pytest.mark.parametrize("order", PREFERRED_GAMES)
def test_preferred_players_take_cells_in_their_order(order: str) -> None:
    game = load_game("tic_tac_toe")
    policy = policy_of(f"preferred:{order}", game)
    played: list[int] = []
    for expected in PREFERRED_GAMES[order]:
        observation = seen_after(game, 0, *played)
        assert observation.ids[list(policy(observation)).index(1.0)] == expected
        taken = [*played, expected]
        played = [*taken, max(set(range(9)) - set(taken))]


def test_any_order_of_the_nine_cells_can_be_preferred() -> None:
    game = load_game("tic_tac_toe")
    policy = policy_of("preferred([8,1,0,2,3,4,5,6,7])", game)
    for played, expected in (((), 8), ((0, 8), 1), ((8, 1), 0), ((8, 1, 0, 2), 3)):
        observation = seen_after(game, 0, *played)
        assert observation.ids[list(policy(observation)).index(1.0)] == expected


def test_six_preferred_players_differ() -> None:
    assert len(set(ORDERS.values())) == 6
    assert all(sorted(order) == list(range(9)) for order in ORDERS.values())


@pytest.mark.parametrize("word", ["paper", "PAPER", "1"])
def test_always_takes_words_and_numbers(word: str) -> None:
    game = load_game("rps(rounds=2)")
    assert policy_of(f"always:{word}", game)(seen_after(game, 0)) == (0.0, 1.0, 0.0)


def test_always_takes_the_words_of_a_reworded_game_and_the_plain_ones() -> None:
    game = load_game("rps(2, reworded=3)")
    observation = seen_after(game, 1, ROCK)
    for word in ("paper", observation.actions[PAPER]):
        assert policy_of(f"always:{word}", game, 1)(observation) == (0.0, 1.0, 0.0)
    cell = load_game("tic_tac_toe(reworded=1)")
    assert policy_of("always:b2", cell)(seen_after(cell, 0))[4] == 1.0


def test_always_is_uniform_where_its_action_is_not_legal() -> None:
    game = load_game("tic_tac_toe")
    assert list(policy_of("always:a1", game)(seen_after(game, 0, 0, 1))) == [1 / 7] * 7


def test_a_mixture_by_move_averages() -> None:
    game = load_game("rps")
    policy = policy_of("mixture(always:rock, uniform, weights=[1, 3])", game)
    assert list(policy(seen_after(game, 0))) == pytest.approx([1 / 2, 1 / 4, 1 / 4])


def test_a_mixture_by_trial_keeps_its_member() -> None:
    game = load_game("rps")
    opening = Counter[tuple[float, ...]]()
    for seed in range(400):
        policy = policy_of("mixture(always:rock, always:paper, weights=[1, 3], each=trial)", game, seed=seed)
        odds = {tuple(policy(seen_after(game, 0, episode=episode))) for episode in range(5)}
        assert len(odds) == 1
        opening[odds.pop()] += 1
    assert set(opening) == {(1.0, 0.0, 0.0), (0.0, 1.0, 0.0)}
    assert 60 <= opening[1.0, 0.0, 0.0] <= 140


def test_a_mixture_by_episode_draws_again_for_each() -> None:
    game = load_game("rps")
    policy = policy_of("mixture(always:rock, always:paper, weights=[1, 3], each=episode)", game)
    rounds = (), (ROCK, ROCK)
    odds = [{tuple(policy(seen_after(game, 0, *moves, episode=e))) for moves in rounds} for e in range(400)]
    assert all(len(o) == 1 for o in odds)
    assert 60 <= odds.count({(1.0, 0.0, 0.0)}) <= 140


def test_a_member_of_weight_zero_never_plays() -> None:
    game = load_game("rps")
    for each in ("trial", "episode"):
        for seed in range(50):
            policy = policy_of(f"mixture(always:rock, copy, weights=[1, 0], each={each})", game, seed=seed)
            assert policy(seen_after(game, 0, SCISSORS, PAPER)) == (1.0, 0.0, 0.0)


def test_a_switch_changes_members_at_its_episodes() -> None:
    game = load_game("rps")
    policy = policy_of("switch(always:rock, always:paper, always:scissors, at=[1, 4])", game)
    played = [list(policy(seen_after(game, 0, episode=e))).index(1.0) for e in range(6)]
    assert played == [ROCK, PAPER, PAPER, PAPER, SCISSORS, SCISSORS]


def test_the_list_of_opponents_is_complete() -> None:
    listed = {line.name: line for line in describe_opponents()}
    assert list(listed) == sorted({*MAKERS, *COMBINERS, *MODEL_OPPONENTS})
    assert listed["mcts"].parameters == "simulations=100, c=2.0, seed"
    assert listed["mixture"].parameters == "members…, weights, each=move"
    assert listed["conservative"].games == "kuhn_poker"
    assert all(line.about.endswith(".") for line in listed.values())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("memory-one(first=0, map=[0, 1, 2])", "memory-one"),
        ("behaviour(concentration=0.5)", "behaviour"),
        ("mcts:100", "mcts(100)"),
        ("best-response:automaton(seed=2)", "best-response(automaton)"),
        ("mixture(copy, automaton(seed=2), weights=[1, 2])", "mixture(copy,automaton,weights=[1,2])"),
    ],
)
def test_families(spec: str, expected: str) -> None:
    assert family(spec) == expected
