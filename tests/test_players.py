"""Scripts, combinations and the table of opponents."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from mage.errors import ConfigError
from mage.games.openspiel import Game, load_game
from mage.players.draws import InexactError, draw, draw_seed, every_way
from mage.players.policy import Policy
from mage.players.table import (
    COMBINERS,
    MAKERS,
    check_opponent,
    describe_opponents,
    family,
    make_player,
    make_policy,
)
from mage.players.tictactoe import ORDERS
from mage.seeds import stream
from mage.spec import make_spec, parse_spec
from mage.types import Observation

JACK, QUEEN, KING = 0, 1, 2
PASS, BET = 0, 1
ROCK, PAPER, SCISSORS = 0, 1, 2

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
        "automaton(states=4, noise=0.1, seed=7)",
        "behaviour(concentration=0.3, seed=1)",
        "mixture(copy, uniform, each=episode)",
        "mixture(copy, cycle, always(rock), each=trial)",
        "best-response:copy",
    ),
    "pd(rounds=3)": ("copy(first=cooperate)", "beat-last", "win-stay-lose-shift(first=0)", "best-response:copy"),
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


def policy_of(spec: str, game: Game, seat: int = 0, seed: int = 0) -> Policy:
    return make_policy(parse_spec(spec), game, seat, stream(seed, "member"))


def seen_after(game: Game, seat: int, *actions: int, episode: int = 0) -> Observation:
    """What `seat` sees once these actions, chance included, were taken."""
    state = game.start(0)
    for action in actions:
        state.apply_action(action)
    return game.observe(state, seat, episode, 0)


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


def test_what_a_player_draws_is_fixed_by_the_seed_and_for_the_trial() -> None:
    game = load_game("rps")
    firsts = Counter[str | None]()
    for seed in range(300):
        player = make_player("copy", game, 0, seed)
        again = make_player("copy", game, 0, seed)
        moves = [asyncio.run(p.act(seen_after(game, 0, episode=e))).action for p in (player, again) for e in range(3)]
        assert len(set(moves)) == 1
        firsts[moves[0]] += 1
    assert set(firsts) == {"rock", "paper", "scissors"}
    assert min(firsts.values()) > 70


def test_every_way_lists_what_can_be_drawn() -> None:
    game = load_game("rps")
    mixed = parse_spec("mixture(copy, always:rock, weights=[3, 1], each=trial)")
    ways = every_way(lambda rng: make_policy(mixed, game, 0, rng))
    assert [(p, list(policy(seen_after(game, 0))).index(1.0)) for p, policy in ways] == [
        (0.25, ROCK),
        (0.25, PAPER),
        (0.25, SCISSORS),
        (0.25, ROCK),
    ]


def test_nested_draws_are_listed_with_their_products() -> None:
    def build(rng: random.Random) -> tuple[int, int]:
        first = draw(rng, [1, 1])
        return first, draw(rng, [1, 0, 3]) if first else 7

    assert every_way(build) == [(0.5, (0, 7)), (0.125, (1, 0)), (0.375, (1, 2))]


def test_draws_without_number_are_not_listed() -> None:
    with pytest.raises(InexactError, match="too many"):
        every_way(draw_seed)
    with pytest.raises(InexactError, match="more than 5"):
        every_way(lambda rng: draw(rng, [1] * 6), limit=5)


@pytest.mark.parametrize(
    ("spec", "name", "message"),
    [
        ("nobody", "rps", "unknown opponent 'nobody'; known: aggressive, always"),
        ("mixture(uniform, nobody, each=trial)", "rps", "unknown opponent 'nobody'"),
        ("mixture(uniform, nobody, weights=[1, 0], each=trial)", "rps", "unknown opponent 'nobody'"),
        ("copy(last=1)", "rps", "unknown parameter 'last'.*takes first"),
        ("mcts(1, 2, 3, 4)", "tic_tac_toe", "too many values"),
        ("preferred", "tic_tac_toe", "missing 'order'"),
        ("preferred:middle", "tic_tac_toe", "must be one of anti-diagonal, centre.*not 'middle'"),
        ("conservative", "rps", "'conservative' cannot play rps; it plays kuhn_poker"),
        ("copy", "kuhn_poker", "it plays repeated matrix games"),
        ("copy", "matrix_rps", "it plays repeated matrix games"),
        ("preferred:centre", "connect_four", "it plays tic_tac_toe"),
        ("always:lizard", "rps", "must be one of paper, rock, scissors, or a number from 0 to 2, not 'lizard'"),
        ("always:3", "rps", "from 0 to 2, not 3"),
        ("always:true", "rps", "not True"),
        ("mixture(uniform)", "rps", "two or more opponents"),
        ("mixture(uniform, 3)", "rps", "two or more opponents"),
        ("mixture(uniform, copy, weights=[1])", "rps", r"weights must be a list of 2, not \[1\]"),
        ("mixture(uniform, copy, weights=[0, 0])", "rps", "not all be 0"),
        ("mixture(uniform, copy, weights=[1, -1])", "rps", "a weight must be a number from 0, not -1"),
        ("mixture(uniform, copy, each=round)", "rps", "each must be one of episode, move, trial, not 'round'"),
        ("switch(uniform, copy, at=0)", "rps", "at must be a whole number from 1, not 0"),
        ("switch(uniform, copy, uniform, at=[2, 2])", "rps", "at must be a whole number from 3, not 2"),
        ("switch(uniform, copy, uniform)", "rps", "changes 2 times"),
        ("automaton(noise=1.5)", "rps", "noise must be a number from 0 to 1, not 1.5"),
        ("automaton(states=0)", "rps", "states must be a whole number from 1"),
        ("automaton(seed=x)", "rps", "seed must be a whole number from 0, not x"),
        ("behaviour(concentration=0)", "rps", "concentration must be a number above 0"),
        ("cycle(step=3)", "rps", "step must be a whole number from 1 to 2, not 3"),
        ("cycle(phase=lizard)", "rps", "phase of rps must be one of"),
        ("memory-one(map=[0, 1])", "rps", r"map must be a list of 3, not \[0, 1\]"),
        ("memory-one(map=[0, 1, 3])", "rps", "map must be a whole number from 0 to 2, not 3"),
        ("memory-one(map=[0, 1, 2], on=us)", "rps", "on must be one of me, them, not 'us'"),
        ("mcts:0", "tic_tac_toe", "simulations must be a whole number from 1, not 0"),
        ("mcts(c=-1)", "tic_tac_toe", "c must be a number from 0, not -1"),
        ("mcts", "kuhn_poker", "games with nothing hidden"),
        ("minimax", "kuhn_poker", "cannot play kuhn_poker"),
        ("minimax", "pig", "no chance"),
        ("minimax", "chess", "too long to be solved"),
        ("cfr", "tic_tac_toe", "hidden information"),
        ("cfr", "pd", "zero-sum"),
        ("cfr", "kuhn_poker(players=3)", "two-player"),
        ("cfr(iterations=0)", "kuhn_poker", "iterations must be a whole number from 1, not 0"),
        ("cfr", "liars_dice", "too large for cfr"),
        ("best-response:uniform", "oshi_zumo", "too long to be solved"),
        ("best-response:3", "kuhn_poker", "best-response needs an opponent"),
        ("best-response:nobody", "kuhn_poker", "unknown opponent 'nobody'"),
        ("best-response:behaviour", "kuhn_poker", "no best response to 'behaviour'.*a seed in the spec fixes it"),
        ("best-response:mixture(preferred:centre, minimax, each=trial)", "tic_tac_toe", "nothing to draw"),
    ],
)
def test_what_cannot_be_used_is_refused_before_play(spec: str, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        check_opponent(spec, load_game(name), 0)
    assert "\n" not in str(caught.value)


def test_good_values_do_not_let_bad_ones_slip_through() -> None:
    game = load_game("rps")
    check_opponent("always:1", game, 0)
    with pytest.raises(ConfigError, match="not True"):
        check_opponent("always:true", game, 0)
    check_opponent("automaton(states=3,seed=1)", game, 0)
    with pytest.raises(ConfigError, match="whole number"):
        check_opponent("automaton(states=3.0,seed=1)", game, 0)


def test_a_seat_must_exist() -> None:
    with pytest.raises(ConfigError, match="seat 2 does not exist; rps has seats 0 to 1"):
        check_opponent("uniform", load_game("rps"), 2)


def test_the_list_of_opponents_is_complete() -> None:
    listed = {line.name: line for line in describe_opponents()}
    assert list(listed) == sorted({*MAKERS, *COMBINERS})
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
