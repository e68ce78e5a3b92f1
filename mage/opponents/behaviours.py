"""What an opponent does in every situation it can be in, so that opponents can be compared by what they do.

Two specs behave alike where they have the same probabilities in every situation that they themselves can reach: at the
length that is played, whatever their names and parameters say.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from inspect import Parameter, signature
from typing import Any

from mage.errors import InexactError
from mage.opponents.enumerate import enumerate_policies
from mage.opponents.parameters import action_words
from mage.opponents.policy import Policy
from mage.opponents.registry import COMBINERS, OPPONENTS
from mage.spec import Spec, parse_spec
from mage.types import Observation
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.positions import Position
from mage.worlds.openspiel.security import check_countable

PlayTable = frozenset[tuple[str, tuple[float, ...]]]
"""Probabilities of the actions by the key of the decision, in one episode."""
Behaviour = tuple[PlayTable, ...]
"""One table per episode; the last one holds for all later episodes."""

MAX_POSITIONS = 100_000
"""Most positions of an episode that are visited."""
_DIGITS = 9
_SEARCHES = frozenset({"mcts", "remote"})
"""Opponents whose every move takes long, so that not all of them are asked for."""


def behaviours(spec: str, game: Game, seat: int) -> frozenset[Behaviour]:
    """The behaviours that an opponent can draw for a trial; `InexactError` where they cannot be listed."""
    check_comparable(spec, game)
    drawn = enumerate_policies(spec, game, seat)
    num_episodes = _last_switch(parse_spec(spec)) + 1
    return frozenset(behaviour_of(policy, game, seat, num_episodes) for _, policy in drawn)


def drawn_behaviour(spec: str, policy: Policy, game: Game, seat: int) -> Behaviour:
    """The behaviour of a policy that `spec` has drawn for a trial."""
    check_comparable(spec, game)
    return behaviour_of(policy, game, seat, _last_switch(parse_spec(spec)) + 1)


def check_comparable(spec: str, game: Game) -> None:
    """Raise `InexactError` where an opponent cannot be asked for all its moves."""
    check_countable(game)
    slow = sorted(_names(parse_spec(spec)) & _SEARCHES)
    if slow:
        raise InexactError(f"all moves of {slow[0]!r} take too long")


def behaviour_of(policy: Policy, game: Game, seat: int, num_episodes: int) -> Behaviour:
    """The tables of a policy by episode, without the last ones that are equal to the one before."""
    tables = [_play_table(policy, game, seat, episode) for episode in range(num_episodes)]
    while len(tables) > 1 and tables[-1] == tables[-2]:
        tables.pop()
    return tuple(tables)


def _play_table(policy: Policy, game: Game, seat: int, episode: int) -> PlayTable:
    """The probabilities of a policy in all decisions that it can reach."""
    found: dict[str, tuple[float, ...]] = {}
    waiting = [(_root(game), 0)]
    num_visited = 0
    while waiting:
        position, turn = waiting.pop()
        num_visited += 1
        if num_visited > MAX_POSITIONS:
            raise InexactError(
                f"an episode of {game.spec} has more than {MAX_POSITIONS} positions against one opponent"
            )
        if position.mover == seat:
            view = position.view(seat)
            if view.key not in found:
                odds = policy(Observation(seat, episode, turn, *view))
                found[view.key] = tuple([round(share, _DIGITS) for share in odds])
            ids = [action for action, share in zip(view.ids, found[view.key], strict=True) if share > 0]
            waiting += [(_after(game, position, action), turn + 1) for action in ids]
        elif not position.state.is_terminal():
            ids = [outcome for outcome, _ in position.chance] or position.state.legal_actions()
            waiting += [(_after(game, position, action), turn) for action in ids]
    return frozenset(found.items())


@lru_cache(maxsize=16)
def _root(game: Game) -> Position:
    """The first position of a game, which keeps those that follow."""
    return Position(game, game.start(0))


def _after(game: Game, position: Position, action: int) -> Position:
    if action not in position.after:
        position.after[action] = Position(game, position.state.child(action))
    return position.after[action]


def _last_switch(spec: Spec) -> int:
    """The last episode at which an opponent, or one of those it is made of, is replaced; 0 for none.

    >>> _last_switch(parse_spec("mixture(switch(copy,cycle,at=2),uniform,each=trial)"))
    2
    """
    at = spec.named.get("at", 1) if spec.name == "switch" else 0
    own: list[int] = list(at) if isinstance(at, tuple) else [at]
    return max(own + [_last_switch(inner) for inner in _inner(spec)])


def _names(spec: Spec) -> set[str]:
    return {spec.name}.union(*map(_names, _inner(spec)))


def _inner(spec: Spec) -> Iterator[Spec]:
    return (value for value in (*spec.args, *spec.named.values()) if isinstance(value, Spec))


def canonical(spec: Spec, game: Game, seat: int) -> Spec:
    """The spec with every parameter by name, moves as numbers, weights that sum to 1, and without defaults.

    >>> from mage.worlds.openspiel.game import load_game
    >>> game = load_game("tic_tac_toe")
    >>> str(canonical(parse_spec("mcts(30,seed=900)"), game, 1)), str(canonical(parse_spec("always:A1"), game, 1))
    ('mcts(seed=900,simulations=30)', 'always(action=0)')
    >>> str(canonical(parse_spec("mixture(mcts:9,mcts(simulations=9))"), game, 1))
    'mcts(simulations=9)'
    """
    if spec.name not in OPPONENTS:
        return spec
    known = list(signature(OPPONENTS[spec.name].maker).parameters.values())[4 if spec.name in COMBINERS else 3 :]
    names = [parameter.name for parameter in known if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD]
    defaults = {parameter.name: _plain(parameter.default, game, seat) for parameter in known}
    given = {
        name: _plain(value, game, seat)
        for name, value in {**dict(zip(names, spec.args, strict=False)), **spec.named}.items()
    }
    rest = tuple(_plain(value, game, seat) for value in spec.args[len(names) :])
    if spec.name == "mixture" and len(set(rest)) == 1 and isinstance(rest[0], Spec):
        return rest[0]
    if isinstance(weights := given.get("weights"), tuple) and sum(weights) > 0:
        given["weights"] = tuple(round(weight / sum(weights), _DIGITS) for weight in weights)
    named = sorted((name, value) for name, value in given.items() if value != defaults.get(name))
    return Spec(spec.name, rest, tuple(named))


def _plain(value: Any, game: Game, seat: int) -> Any:
    """A value of a spec in canonical form: specs of opponents, words of moves, whole numbers written as fractions."""
    if isinstance(value, tuple):
        return tuple(_plain(item, game, seat) for item in value)
    if isinstance(value, Spec):
        word = value.name.casefold() if not (value.args or value.kwargs) else ""
        is_move = value.name not in OPPONENTS and word in action_words(game, seat)
        return action_words(game, seat)[word] if is_move else canonical(value, game, seat)
    return int(value) if isinstance(value, float) and value.is_integer() else value
