"""Search, equilibria and best responses, checked by exhaustive play and by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from mage.errors import ConfigError
from mage.opponents.draws import enumerate_draws
from mage.opponents.policy import Policy, evenly
from mage.opponents.registry import make_policy
from mage.opponents.solvers import count_states
from mage.seeds import stream
from mage.spec import parse_spec
from mage.types import Observation
from mage.worlds.openspiel.game import Game, load_game
from mage.worlds.openspiel.words.base import State
from tests.exhaustive import expected_returns

SCRIPTS = ("conservative", "aggressive", "intermediate")
SEVEN = "mixture(always:rock,always:paper,always:scissors,cycle,cycle(step=2),copy,beat-last,each=trial)"


def policy_of(spec: str, game: Game, seat: int = 0, seed: int = 0) -> Policy:
    return make_policy(parse_spec(spec), game, seat, stream(seed, "member"))


def value(game: Game, seat: int, mine: Policy, theirs: str) -> float:
    """What `mine` scores from `seat` on average, over all that `theirs` may turn out to be."""
    spec = parse_spec(theirs)
    total = 0.0
    for weight, other in enumerate_draws(lambda rng: make_policy(spec, game, 1 - seat, rng)):
        policies = (mine, other) if seat == 0 else (other, mine)
        total += weight * expected_returns(game, policies)[seat]
    return total


def reply_value(game: Game, seat: int, theirs: str) -> float:
    return value(game, seat, policy_of(f"best-response:{theirs}", game, seat), theirs)


def test_exhaustive_play_agrees_with_kuhn_by_hand() -> None:
    game = load_game("kuhn_poker")

    def first_seat(first: str, second: str) -> float:
        policies = policy_of(first, game, 0), policy_of(second, game, 1)
        returns = expected_returns(game, policies)
        assert sum(returns) == pytest.approx(0)
        return returns[0]

    # the king wins the ante from either seat; without it the showdown is even
    assert first_seat("conservative", "conservative") == pytest.approx(0)
    # called by the king (2 of 6 deals) it loses 2, else it wins the ante
    assert first_seat("aggressive", "conservative") == pytest.approx(0)
    # the king wins 2 of the queen and 1 of the jack; the other four deals are folded
    assert first_seat("conservative", "aggressive") == pytest.approx(-1 / 6)


def test_exhaustive_play_takes_scores_of_repeated_games_by_round() -> None:
    game = load_game("pd(rounds=2)")
    policies = policy_of("always:defect", game, 0), policy_of("copy(first=cooperate)", game, 1)
    assert expected_returns(game, policies) == ((5 + 1) / 2, (0 + 1) / 2)
    assert expected_returns(game, [evenly, evenly]) == pytest.approx((9 / 4, 9 / 4))


def test_exhaustive_play_asks_by_episode_and_turn() -> None:
    game = load_game("rps(rounds=3)")
    asked: set[tuple[int, int, int]] = set()

    def noting(observation: Observation) -> Sequence[float]:
        asked.add((observation.seat, observation.episode, observation.turn))
        return evenly(observation)

    expected_returns(game, [noting, noting], episode=4)
    assert asked == {(seat, 4, turn) for seat in (0, 1) for turn in (0, 1, 2)}


def test_exhaustive_play_needs_a_policy_for_each_seat_and_a_tree() -> None:
    with pytest.raises(ConfigError, match="2 seats, but 1"):
        expected_returns(load_game("rps"), [evenly])


def test_the_equilibrium_of_kuhn_poker_cannot_be_exploited() -> None:
    game = load_game("kuhn_poker")
    both = policy_of("cfr", game, 0), policy_of("cfr", game, 1)
    assert expected_returns(game, both)[0] == pytest.approx(-1 / 18, abs=1e-3)
    nash_conv = reply_value(game, 0, "cfr") + reply_value(game, 1, "cfr")
    assert -1e-12 <= nash_conv < 1e-3


def test_the_equilibrium_player_mixes() -> None:
    """Second seat, facing a bet: the queen calls one time in three; the jack bluffs one time in three."""
    game = load_game("kuhn_poker")
    policy = policy_of("cfr", game, 1)
    for deal, act in (((2, 1), 1), ((2, 0), 0)):
        state = game.start(0)
        for action in (*deal, act):
            state.apply_action(action)
        assert policy(game.observe(state, 1, 0, 0))[1] == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("name", ["rps(rounds=2)", "pennies(rounds=3)", "matrix([[3,0],[0,1]],rounds=1)"])
def test_equilibria_of_repeated_games_cannot_be_exploited(name: str) -> None:
    game = load_game(name)
    spec = "cfr(iterations=300)"
    gap = sum(reply_value(game, seat, spec) for seat in (0, 1))
    assert -1e-9 <= gap < 0.01
    if name.startswith("matrix"):  # rows (1/4, 3/4), value 3/4
        both = policy_of(spec, game, 0), policy_of(spec, game, 1)
        assert expected_returns(game, both)[0] == pytest.approx(3 / 4, abs=0.01)


@pytest.mark.parametrize(
    ("script", "first", "second"),
    [("conservative", 1 / 6, 1 / 3), ("aggressive", 1 / 3, 1 / 3), ("intermediate", 1 / 3, 1 / 6)],
)
def test_best_responses_to_the_kuhn_scripts(script: str, first: float, second: float) -> None:
    game = load_game("kuhn_poker")
    assert reply_value(game, 0, script) == pytest.approx(first)
    assert reply_value(game, 1, script) == pytest.approx(second)


@pytest.mark.parametrize("seat", [0, 1])
def test_best_responses_to_the_kuhn_scripts_average_five_eighteenths(seat: int) -> None:
    game = load_game("kuhn_poker")
    assert sum(reply_value(game, seat, script) for script in SCRIPTS) / 3 == pytest.approx(5 / 18)


@pytest.mark.parametrize(("seat", "expected"), [(0, 1 / 18), (1, 1 / 6)])
def test_the_best_reply_to_an_unknown_script_is_the_best_memoryless_play(seat: int, expected: float) -> None:
    game = load_game("kuhn_poker")
    assert reply_value(game, seat, f"mixture({','.join(SCRIPTS)},each=trial)") == pytest.approx(expected)


def test_the_best_memoryless_play_follows_the_weights() -> None:
    game = load_game("kuhn_poker")
    weighted = f"mixture({','.join(SCRIPTS)},weights=[0.3,0.3,0.4],each=trial)"
    assert reply_value(game, 0, weighted) == pytest.approx(1 / 12)


@pytest.mark.parametrize("seat", [0, 1])
def test_the_best_reply_to_the_seven(seat: int) -> None:
    assert reply_value(load_game("rps(rounds=3)"), seat, SEVEN) == pytest.approx(22 / 63)


@pytest.mark.parametrize("opponent", [*SCRIPTS, "uniform", "behaviour(seed=1)", "behaviour(concentration=0.2,seed=2)"])
@pytest.mark.parametrize("seat", [0, 1])
def test_no_pure_strategy_of_kuhn_beats_the_best_response(opponent: str, seat: int) -> None:
    game = load_game("kuhn_poker")
    keys = [f"{card}{betting}" for card in "012" for betting in (("", "pb"), ("p", "b"))[seat]]

    def score(bets: Sequence[float]) -> float:
        odds = {key: (1 - bet, bet) for key, bet in zip(keys, bets, strict=True)}
        return value(game, seat, lambda observation: odds[observation.key], opponent)

    best = max(score(bets) for bets in product((0.0, 1.0), repeat=len(keys)))
    assert reply_value(game, seat, opponent) == pytest.approx(best)


def test_where_it_is_never_led_a_best_response_still_plays_well() -> None:
    """The conservative player never bets into a king, but if someone does, the king calls."""
    game = load_game("kuhn_poker")
    state = game.start(0)
    for action in (0, 2, 1):
        state.apply_action(action)
    assert policy_of("best-response:conservative", game, 1)(game.observe(state, 1, 0, 0)) == [0.0, 1.0]


def test_a_best_response_to_a_cycle_of_known_phase_wins_every_round() -> None:
    game = load_game("rps(rounds=3)")
    assert reply_value(game, 0, "cycle(phase=rock)") == pytest.approx(1)
    assert reply_value(game, 1, "memory-one(first=0,on=them,map=[1,1,0])") == pytest.approx(1)
    # a phase nobody knows costs the first round, which is even
    assert reply_value(game, 0, "cycle") == pytest.approx(2 / 3)


def test_a_best_response_in_a_game_that_is_not_zero_sum() -> None:
    """Against tit for tat in two rounds: cooperate, then betray; or betray at once and be paid back."""
    game = load_game("pd(rounds=2)")
    assert reply_value(game, 0, "copy(first=cooperate)") == pytest.approx((3 + 5) / 2)


def test_a_best_response_with_three_seats() -> None:
    game = load_game("kuhn_poker(players=3)")
    others = [policy_of("conservative", game, seat) for seat in (1, 2)]
    best = expected_returns(game, [policy_of("best-response:conservative", game, 0), *others])[0]
    for spec in ("always:bet", "always:pass", *SCRIPTS):
        assert expected_returns(game, [policy_of(spec, game, 0), *others])[0] <= best + 1e-12


def test_a_best_response_beats_a_fixed_order_at_tic_tac_toe() -> None:
    game = load_game("tic_tac_toe")
    for order in ("centre", "edges"):
        assert reply_value(game, 0, f"preferred:{order}") == 1.0


def position(game: Game, *actions: int) -> Observation:
    state = game.start(0)
    for action in actions:
        state.apply_action(action)
    seat = len(actions) % 2
    return game.observe(state, seat, 0, len(actions) // 2)


@pytest.mark.parametrize(
    ("moves", "optimal"),
    [
        ((), range(9)),  # every opening draws
        ((4,), (0, 2, 6, 8)),  # the centre is answered in a corner
        ((0,), (4,)),  # a corner is answered in the centre
        ((0, 4, 8), (1, 3, 5, 7)),  # opposite corners are answered at an edge
        ((0, 3, 1, 4), (2,)),  # win, do not merely block at 5
        ((0, 4, 1), (2,)),  # block
        ((0, 8, 2, 1, 6), (3, 4, 5, 7)),  # two threats: all is lost, so all are equal
    ],
)
def test_minimax_is_uniform_over_the_optimal_moves(moves: Sequence[int], optimal: Sequence[int]) -> None:
    game = load_game("tic_tac_toe")
    observation = position(game, *moves)
    odds = policy_of("minimax", game, observation.seat)(observation)
    expected = [1 / len(optimal) if cell in optimal else 0.0 for cell in observation.ids]
    assert list(odds) == pytest.approx(expected)


@pytest.mark.parametrize("seat", [0, 1])
def test_minimax_never_loses(seat: int) -> None:
    game = load_game("tic_tac_toe")
    policy = policy_of("minimax", game, seat)
    scores = {game.scores(leaf)[seat] for leaf in leaves(game, game.start(0), policy, seat)}
    assert scores == {0.0, 1.0}


def leaves(game: Game, state: State, policy: Policy, seat: int) -> Iterator[State]:
    """Every end that the policy allows, whatever the other does; positions are entered once."""
    waiting, seen = [state], {str(state)}
    while waiting:
        state = waiting.pop()
        if state.is_terminal():
            yield state
            continue
        actions = state.legal_actions()
        if state.current_player() == seat:
            odds = policy(game.observe(state, seat, 0, 0))
            actions = [a for a, p in zip(actions, odds, strict=True) if p > 0]
        for child in map(state.child, actions):
            if str(child) not in seen:
                seen.add(str(child))
                waiting.append(child)


def test_minimax_solves_nim() -> None:
    """From piles 1, 2, 4 the only winning move leaves 1, 2, 3, whose binary sum without carry is zero."""
    game = load_game("nim(pile_sizes=1;2;4,is_misere=false)")
    observation = position(game)
    odds = policy_of("minimax", game)(observation)
    assert [word for word, p in zip(observation.actions, odds, strict=True) if p > 0] == ["pile:3, take:1;"]


def test_mcts_is_fixed_by_seed_episode_and_turn() -> None:
    game = load_game("tic_tac_toe")
    policy = policy_of("mcts(5, seed=1)", game)
    replies = {}
    for episode, turn in product(range(6), range(3)):
        observation = game.observe(game.start(0), 0, episode, turn)
        odds = list(policy(observation))
        assert sorted(odds)[-2:] == [0.0, 1.0]
        assert odds == list(policy_of("mcts(5, seed=1)", game, seed=3)(observation))
        replies[episode, turn] = odds.index(1.0)
    assert len(set(replies.values())) > 2
    drawn = {tuple(policy_of("mcts:5", game, seed=seed)(position(game))) for seed in range(20)}
    assert len(drawn) > 2


@pytest.mark.parametrize(("moves", "best"), [((0, 3, 1, 4), 2), ((0, 4, 1), 2), ((0, 8, 1, 4), 2)])
def test_mcts_wins_and_blocks(moves: Sequence[int], best: int) -> None:
    game = load_game("tic_tac_toe")
    observation = position(game, *moves)
    for seed in range(10):
        odds = policy_of(f"mcts(300, seed={seed})", game, observation.seat)(observation)
        assert observation.ids[list(odds).index(1.0)] == best


def test_search_plays_games_with_chance_and_more_seats() -> None:
    for name in ("pig(players=3)", "backgammon"):
        game = load_game(name)
        state = game.start(0)
        while state.is_chance_node():
            state.apply_action(state.legal_actions()[0])
        seat = state.current_player()
        assert sum(policy_of("mcts:5", game, seat)(game.observe(state, seat, 0, 0))) == 1.0


def test_states_are_counted_up_to_a_limit() -> None:
    assert count_states(load_game("rps(rounds=1)"), 100) == 1 + 3 + 9
    assert count_states(load_game("chess"), 100) > 100
