"""Two situations that a seat cannot tell apart give it the same observation, in every game that hides something.

What a seat may know is worked out here from the bare history of moves, or taken from OpenSpiel's information
state, never from our words.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.worlds.openspiel.game import Game, load_game
from mage.worlds.openspiel.words.base import State
from mage.worlds.openspiel.words.kuhn import KuhnWords

Known = Callable[[list[int], int], Hashable]
"""What a seat may know after a history of moves."""

_FOOTBALL = "matrix([[2,0],[0,1]],columns=[[1,0],[0,2]],moves=[opera,football],rounds=2)"
_CYCLE4 = "matrix([[0,1,0,-1],[-1,0,1,0],[0,-1,0,1],[1,0,-1,0]],rounds=2)"


def every_state(game: Game) -> Iterator[State]:
    """All states in which somebody decides or the game is over."""
    waiting = [game.start(0)]
    while waiting:
        state = waiting.pop()
        if not state.is_chance_node():
            yield state
        waiting += [state.child(action) for action in state.legal_actions()]


def own_card_and_betting(num_seats: int) -> Known:
    """Private cards are dealt first, one to each seat; all that follows is public."""
    return lambda history, seat: (history[seat], *history[num_seats:])


def finished_rounds_and_own_move(history: list[int], seat: int) -> Hashable:
    """Rounds of two moves; of an unfinished one a seat knows its own move only."""
    whole = len(history) // 2 * 2
    return tuple(history[:whole]), tuple(history[whole:]) if seat == 0 else ()


def own_value_and_bid(history: list[int], seat: int) -> Hashable:
    """An auction with sealed bids: two values, then two bids."""
    return history[seat], tuple(history[2 + seat : 3 + seat])


SMALL: dict[str, Known] = {
    "kuhn_poker": own_card_and_betting(2),
    "kuhn_poker(reworded=3)": own_card_and_betting(2),
    "kuhn_poker(players=3)": own_card_and_betting(3),
    "kuhn_poker(players=4)": own_card_and_betting(4),
    "rps(rounds=2)": finished_rounds_and_own_move,
    "rps(rounds=2,reworded=1)": finished_rounds_and_own_move,
    "rps(rounds=1)": finished_rounds_and_own_move,
    "pd(rounds=3)": finished_rounds_and_own_move,
    "pennies(rounds=3)": finished_rounds_and_own_move,
    _FOOTBALL: finished_rounds_and_own_move,
    _CYCLE4: finished_rounds_and_own_move,
    "leduc_poker": own_card_and_betting(2),
    "liars_dice(dice_sides=3)": own_card_and_betting(2),
    "tiny_hanabi": own_card_and_betting(2),
    "first_sealed_auction(max_value=4)": own_value_and_bid,
    "blotto(coins=4)": finished_rounds_and_own_move,
    "matrix_pd": finished_rounds_and_own_move,
}


@pytest.mark.parametrize("spec", SMALL)
def test_equal_knowledge_gives_one_observation(spec: str) -> None:
    game, known = load_game(spec), SMALL[spec]
    seen: defaultdict[Hashable, set[str]] = defaultdict(set)
    states = 0
    for state in every_state(game):
        for seat in range(game.num_seats):
            if not state.is_terminal():
                states += 1
                knowledge = (seat, state.current_player() == seat, known(state.history(), seat))
                seen[knowledge].add(repr(game.view(state, seat)))
    assert all(len(views) == 1 for views in seen.values())
    assert len(seen) < states  # else nothing was hidden and nothing tested


@pytest.mark.parametrize("spec", SMALL)
def test_what_is_told_at_the_end_follows_from_what_was_seen(spec: str) -> None:
    """The outcome is a function of what the seat saw, its score, and the cards the rules turn up."""
    game, known = load_game(spec), SMALL[spec]
    told: defaultdict[Hashable, set[str]] = defaultdict(set)
    for state in every_state(game):
        if state.is_terminal():
            shown = turned_up(state.history(), game.num_seats) if spec.startswith("kuhn_poker") else ()
            for seat in range(game.num_seats):
                knowledge = (seat, known(state.history(), seat), state.returns()[seat], shown)
                told[knowledge].add(game.words.outcome(state, seat))
    assert told
    assert all(len(texts) == 1 for texts in told.values())


def turned_up(history: list[int], num_seats: int) -> Hashable:
    """The cards of those still in when a game of Kuhn poker is over, if there are several."""
    betting = history[num_seats:]
    folded = {i % num_seats for i, act in enumerate(betting) if act == 0 and 1 in betting[:i]}
    if 1 in betting:
        first_bet = betting.index(1)
        answered = {(first_bet + k) % num_seats for k in range(1, len(betting) - first_bet)}
        folded |= set(range(num_seats)) - answered - {first_bet % num_seats}
    inside = [seat for seat in range(num_seats) if seat not in folded]
    return tuple((seat, history[seat]) for seat in inside) if len(inside) > 1 else ()


LARGE = [
    "kuhn_poker(players=5)",
    "leduc_poker(players=3)",
    "liars_dice",
    "phantom_ttt",
    "dark_hex(board_size=3)",
    "goofspiel(imp_info=true,num_cards=4)",
    "goofspiel(imp_info=true,num_cards=3,players=3)",
    "goofspiel(num_cards=4)",
    "battleship(board_width=2,board_height=2,ship_sizes=[1],ship_values=[1],num_shots=2)",
    "first_sealed_auction(players=3)",
    "oshi_zumo(coins=6)",
    "blotto(players=3,coins=4)",
    "matching_pennies_3p",
    "universal_poker",
    "sheriff",
    "oh_hell",
    "go_fish",
    "rps(rounds=5)",
]


@pytest.mark.parametrize("spec", LARGE)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_twins_look_alike(spec: str, seed: int) -> None:
    """Change something a seat has not seen, replay, and compare wherever OpenSpiel says the seat cannot know."""
    game = load_game(spec)
    rng = random.Random(seed)
    num_twins = 0
    for _ in range(300):
        history = _random_history(game, rng)
        seat = rng.randrange(game.num_seats)
        twin = _changed(game, history, seat, rng)
        if twin is None:
            continue
        for length in range(1, len(history) + 1):
            one, other = _replayed(game, history[:length]), _replayed(game, twin[:length])
            if one is not None and other is not None and history[:length] != twin[:length]:
                num_twins += _compared(game, one, other, seat)
        if num_twins >= 3:
            break
    assert num_twins, "no two situations were alike; nothing was tested"


def _random_history(game: Game, rng: random.Random) -> list[int]:
    state = game.start(0)
    while not state.is_terminal() and len(state.history()) < 60:
        state.apply_action(rng.choice(state.legal_actions()))
    return list(state.history())


def _changed(game: Game, history: list[int], seat: int, rng: random.Random) -> list[int] | None:
    """The history with one move of chance or of another seat replaced."""
    place = rng.randrange(len(history))
    state = _replayed(game, history[:place])
    if state is None or state.current_player() == seat:
        return None
    others = [action for action in state.legal_actions() if action != history[place]]
    return [*history[:place], rng.choice(others), *history[place + 1 :]] if others else None


def _replayed(game: Game, history: list[int]) -> State | None:
    """The state after a history, or None where one of its moves is not legal."""
    state = game.start(0)
    for action in history:
        if action not in state.legal_actions():
            return None
        state.apply_action(action)
    return state


def _compared(game: Game, one: State, other: State, seat: int) -> int:
    """1 if the seat cannot tell the two states apart, and then they must look alike to it; else 0."""
    kinds = [(s.is_terminal(), s.is_chance_node(), s.current_player()) for s in (one, other)]
    if kinds[0] != kinds[1] or one.is_chance_node():
        return 0
    if one.information_state_string(seat) != other.information_state_string(seat):
        return 0
    if not one.is_terminal():
        assert game.view(one, seat) == game.view(other, seat)
    elif one.returns()[seat] == other.returns()[seat] and not isinstance(game.words, KuhnWords):
        # At a showdown of Kuhn poker more is told than OpenSpiel's information state holds: see the leaves above.
        assert game.words.outcome(one, seat) == game.words.outcome(other, seat)
    return 1


SIMULTANEOUS = [
    "capture_the_flag",
    "coop_box_pushing",
    "goofspiel(num_cards=4)",
    "goofspiel(num_cards=4,imp_info=true)",
    "laser_tag",
    "markov_soccer",
    "matching_pennies_3p",
    "matrix_rps",
    "oshi_zumo",
    "snake",
    "rps(rounds=3)",
    "pd(rounds=3)",
    "repeated_game(stage_game=matrix_rps,num_repetitions=3)",
]


@pytest.mark.parametrize("spec", SIMULTANEOUS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_move_made_at_the_same_time_is_hidden(spec: str, seed: int) -> None:
    game = load_game(spec)
    rng = random.Random(seed)
    state = game.start(0)
    while not state.is_terminal() and len(state.history()) < 30:
        if state.current_player() == 0 and len(state.legal_actions()) > 1:
            others = range(1, game.num_seats)
            views = {repr([game.view(state.child(a), s) for s in others]) for a in state.legal_actions()}
            assert len(views) == 1
        assert all("history" not in game.view(state, seat).facts for seat in range(game.num_seats))
        state.apply_action(rng.choice(state.legal_actions()))


@pytest.mark.parametrize("spec", ["leduc_poker", "liars_dice", "goofspiel(imp_info=true,num_cards=4)", "gin_rummy"])
def test_generic_words_say_no_more_than_the_seats_own_string(spec: str) -> None:
    game = load_game(spec)
    kind: Any = game.rules.get_type()
    state = _replayed(game, _random_history(game, random.Random(1)))
    for _ in range(20):
        assert state is not None
        for seat in range(game.num_seats):
            own = state.information_state_string(seat) if kind.provides_information_state_string else ""
            own += state.observation_string(seat) if kind.provides_observation_string else ""
            for line in game.words.observe(state, seat).splitlines():
                assert line.rstrip() in own
        state = _replayed(game, state.history()[:-1]) if state.history() else state


@pytest.mark.parametrize("spec", ["hearts", "spades", "euchre", "oh_hell"])
def test_games_that_turn_up_every_card_at_the_end_tell_the_score_only(spec: str) -> None:
    game = load_game(spec)
    rng = random.Random(2)
    state = game.start(0)
    while not state.is_terminal():
        state.apply_action(rng.choice(state.legal_actions()))
    for seat in range(game.num_seats):
        assert game.words.outcome(state, seat).startswith("Your score: ")


def test_only_open_games_show_their_history() -> None:
    assert "history" in load_game("tic_tac_toe").view(load_game("tic_tac_toe").start(0), 0).facts
    assert not load_game("turn_based_simultaneous_game(game=goofspiel(num_cards=3))").has_perfect_information
    assert not any(load_game(spec).has_perfect_information for spec in SIMULTANEOUS)
