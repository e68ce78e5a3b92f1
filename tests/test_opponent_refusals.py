"""Opponents that cannot be used: one line says why, before anything is played."""

from __future__ import annotations

import pytest

from mage.errors import ConfigError
from mage.opponents.registry import check_opponent
from mage.worlds.openspiel.game import load_game


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
        ("preferred([0,1,2])", "tic_tac_toe", "the order must be a list of 9"),
        ("preferred([0,1,2,3,4,5,6,7,7])", "tic_tac_toe", "must have each cell from 0 to 8 once"),
        ("preferred([0,1,2,3,4,5,6,7,9])", "tic_tac_toe", "a cell must be a whole number from 0 to 8, not 9"),
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
        ("memory-one(map=[0, 1, 2], on=us)", "rps", "on must be one of both, me, them, not 'us'"),
        ("memory-one(map=[0, 1, 2], on=both)", "rps", r"map must be a list of 9, not \[0, 1, 2\]"),
        ("grim", "kuhn_poker", "it plays repeated matrix games"),
        ("mcts:0", "tic_tac_toe", "simulations must be a whole number from 1 to 100000000, not 0"),
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
