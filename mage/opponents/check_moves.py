"""Asks users' opponents for moves before they play: a value that is not allowed is often noticed only in play."""

from __future__ import annotations

from collections.abc import Iterator

from mage.opponents.policy import Policy
from mage.opponents.registry import COMBINERS, OPPONENTS, make_policy
from mage.seeds import stream
from mage.spec import Spec, parse_spec
from mage.types import Observation
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.positions import Position

_MAX_ASKED = 20
"""Most decisions of one episode that an opponent is asked about."""
_MAX_ACTIONS = 1000
"""Most actions of one episode: in some games a draw can be repeated for ever."""
_RESPONDER = "best-response"
"""The opponent that is made of one in the other seats."""
_FIRST, _LAST = 0, -1
"""Which of their legal actions the other seats take."""


def check_moves(spec: str, game: Game, seat: int) -> None:
    """Raise what a user's opponent would raise in play: it is asked for its moves in two episodes.

    It takes its likeliest actions; the other seats take their first ones in one episode, their last ones in the other,
    and chance draws evenly.
    Opponents that come with mage check their values when they are made, and are not asked: some search for long.
    """
    for own, place in _own_opponents(parse_spec(spec), game, seat):
        policy = make_policy(own, game, place, stream(0, "member"))
        for taken in (_FIRST, _LAST):
            _ask(policy, game, place, taken)


def _own_opponents(spec: Spec, game: Game, seat: int) -> Iterator[tuple[Spec, int]]:
    """The users' opponents that an opponent is, is made of or responds to, each with its seat."""
    if spec.name in OPPONENTS and not OPPONENTS.is_ours(spec.name):
        yield spec, seat
    if spec.name not in COMBINERS:
        return
    others = [other for other in range(game.num_seats) if other != seat]
    for value in (*spec.args, *spec.named.values()):
        for place in others if spec.name == _RESPONDER else [seat]:
            if isinstance(value, Spec):
                yield from _own_opponents(value, game, place)


def _ask(policy: Policy, game: Game, seat: int, taken: int) -> None:
    """Ask for the probabilities of the decisions along one episode."""
    position, num_asked, draws = Position(game, game.start(0)), 0, stream(0, "chance")
    for _ in range(_MAX_ACTIONS):
        if num_asked == _MAX_ASKED or position.state.is_terminal():
            return
        if position.mover == seat:
            view = position.view(seat)
            odds = policy(Observation(seat, 0, num_asked, *view))
            action = view.ids[odds.index(max(odds))]
            num_asked += 1
        else:
            drawn = [outcome for outcome, share in position.chance if share > 0]
            action = draws.choice(drawn) if drawn else position.state.legal_actions()[taken]
        position.state.apply_action(action)
        position = Position(game, position.state)
