"""Openings: the first moves of every episode drawn at random, whoever would move, so that play begins everywhere.

`opening` is a parameter of any game in which nothing is hidden and moves are made in turn, such as
`tic_tac_toe(opening=1)`. The draws are part of the deal: siblings share them, episodes differ. Where something is
hidden a move tells what its player knows; a drawn one would tell nothing, which is another game, so it is refused.
"""

from __future__ import annotations

from typing import Any

from mage.errors import ConfigError
from mage.spec import Spec, whole
from mage.worlds.openspiel.words.base import State

OPENING = "opening"
MAX_LINES = 20_000
"""Most states that are looked at to see that nobody is left without a decision."""


def without_opening(spec: Spec) -> Spec:
    """The game as it is played from its usual start.

    >>> from mage.spec import parse_spec
    >>> str(without_opening(parse_spec("tic_tac_toe(opening=1,reworded=7)")))
    'tic_tac_toe(reworded=7)'
    """
    return Spec(spec.name, spec.args, tuple((name, value) for name, value in spec.kwargs if name != OPENING))


def opening_of(spec: Spec) -> int:
    """How many moves a spec wants drawn; 0 where it says nothing of it.

    >>> from mage.spec import parse_spec
    >>> opening_of(parse_spec("tic_tac_toe(opening=2)")), opening_of(parse_spec("tic_tac_toe"))
    (2, 0)
    """
    return whole(OPENING, spec.named[OPENING], 1) if OPENING in spec.named else 0


def check_opening(spec: str, rules: Any, opening: int) -> None:
    """Refuse to draw moves of a game that has them at the same time or hides something, or to leave nothing to decide.

    After the drawn moves every seat must have a decision before anybody can have won.
    """
    kind = rules.get_type()
    if kind.dynamics != kind.Dynamics.SEQUENTIAL or kind.information != kind.Information.PERFECT_INFORMATION:
        raise ConfigError(
            f"{spec}: first moves are drawn only where moves are made in turn and nothing is hidden, as in tic_tac_toe"
        )
    waiting: list[tuple[State, frozenset[int], int]] = [(rules.new_initial_state(), frozenset(), 0)]
    num_states = 0
    while waiting:
        state, decided, num_moves = waiting.pop()
        num_states += 1
        if num_states > MAX_LINES:
            raise ConfigError(f"{spec}: more than {MAX_LINES} openings would have to be looked at; draw fewer moves")
        if state.is_terminal():
            raise ConfigError(f"{spec}: an episode could be over before every player has decided something")
        mover = state.current_player()
        if mover >= 0:
            decided = decided if num_moves < opening else decided | {mover}
            num_moves += 1
        if len(decided) < rules.num_players():
            waiting += [(state.child(action), decided, num_moves) for action in state.legal_actions()]


def opening_rule(opening: int) -> str:
    """What players are told about drawn moves.

    >>> opening_rule(1), opening_rule(2)
    ('The first move of each episode is drawn at random.', 'The first 2 moves of each episode are drawn at random.')
    """
    which = "first move of each episode is" if opening == 1 else f"first {opening} moves of each episode are"
    return f"The {which} drawn at random."
