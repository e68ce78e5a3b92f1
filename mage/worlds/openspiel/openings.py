"""Random openings: the first moves of every episode are sampled uniformly, so that episodes start in many positions.

`opening` is a parameter of any turn-based game with perfect information, such as `tic_tac_toe(opening=1)`. The moves
are part of the deal: siblings share them, episodes differ. With hidden information a move reveals what its player
knows, and a random one would not, so such games are refused.
"""

from __future__ import annotations

from typing import Any

from mage.errors import ConfigError
from mage.spec import Spec, whole
from mage.worlds.openspiel.words.base import State

OPENING = "opening"
MAX_LINES = 20_000
"""Most states visited to check that every seat has a decision left."""


def without_opening(spec: Spec) -> Spec:
    """The spec without its opening.

    >>> from mage.spec import parse_spec
    >>> str(without_opening(parse_spec("tic_tac_toe(opening=1,reworded=7)")))
    'tic_tac_toe(reworded=7)'
    """
    return Spec(spec.name, spec.args, tuple((name, value) for name, value in spec.kwargs if name != OPENING))


def opening_of(spec: Spec) -> int:
    """The number of random first moves in a spec; 0 by default.

    >>> from mage.spec import parse_spec
    >>> opening_of(parse_spec("tic_tac_toe(opening=2)")), opening_of(parse_spec("tic_tac_toe"))
    (2, 0)
    """
    return whole(OPENING, spec.named[OPENING], 1) if OPENING in spec.named else 0


def check_opening(spec: str, rules: Any, opening: int) -> None:
    """Refuse random openings for games with simultaneous moves or hidden information, and openings that are too long.

    After the opening every seat must have a decision before an episode can end.
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
    """The rule that tells players about random first moves.

    >>> opening_rule(1), opening_rule(2)
    ('The first move of each episode is drawn at random.', 'The first 2 moves of each episode are drawn at random.')
    """
    which = "first move of each episode is" if opening == 1 else f"first {opening} moves of each episode are"
    return f"The {which} drawn at random."
