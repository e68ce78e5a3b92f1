"""Opponents by name: makes the player of a spec for one seat of one trial."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple, cast

from mage.errors import ConfigError, InexactError, pick
from mage.opponents.draws import draw, enumerate_draws
from mage.opponents.kuhn_scripts import aggressive, conservative, intermediate
from mage.opponents.matrix_games import (
    automaton,
    beat_last,
    copy,
    cycle,
    grim,
    lose_to_last,
    memory_one,
    win_stay_lose_shift,
)
from mage.opponents.policy import CheckedPolicy, Policy, PolicyPlayer
from mage.opponents.random_strategies import behaviour
from mage.opponents.remote import NAME, RemotePolicy, remote
from mage.opponents.scripts import always, mixture, switch, uniform
from mage.opponents.search import mcts, minimax
from mage.opponents.solvers import best_response, cfr
from mage.opponents.tictactoe_scripts import preferred
from mage.plugin_errors import plugin_errors, shown_value
from mage.registry import Registry
from mage.seeds import derive, pick_index, stream
from mage.seeds import uniform as uniform_number
from mage.spec import Spec, call_with, check_call, parse_spec, show_parameters
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.words.kuhn import KuhnWords
from mage.worlds.openspiel.words.matrix import MatrixWords
from mage.worlds.openspiel.words.tictactoe import TicTacToeWords

Maker = Callable[..., Policy]
"""`maker(game, seat, rng, …parameters)`; random properties of the member are drawn from `rng`, once per trial.

Policies are pure, so if the draws have few outcomes, their policies are made once and shared by all trials.
"""

_MAX_SHARED = 100
"""Most outcomes whose policies are cached."""

_parsed = lru_cache(maxsize=4096)(parse_spec)


class Supports(NamedTuple):
    """The games an opponent can play."""

    games: str
    check: Callable[[Game], bool]


def _open_to_search(game: Game) -> bool:
    return game.has_perfect_information and not game.samples_chance_itself and not game.has_intermediate_rewards


def _without_chance(game: Game) -> bool:
    kind = game.rules.get_type()
    return bool(kind.chance_mode == kind.ChanceMode.DETERMINISTIC)


def _hidden(game: Game) -> bool:
    return game.keyed_by_information_state and not game.has_perfect_information and not game.samples_chance_itself


ANY = Supports("any game", lambda _: True)
_KUHN = Supports("kuhn_poker", lambda game: isinstance(game.words, KuhnWords))
_TICTACTOE = Supports("tic_tac_toe", lambda game: isinstance(game.words, TicTacToeWords))
REPEATED = Supports(
    "repeated matrix games (rps, pd, pennies, matrix)", lambda game: isinstance(game.words, MatrixWords)
)
_OPEN = Supports(
    "games with nothing hidden, moves in turn and pay at the end",
    _open_to_search,
)
_SOLVABLE = Supports(
    "small two-player zero-sum games with nothing hidden and no chance",
    lambda game: _open_to_search(game) and game.zero_sum and game.num_seats == 2 and _without_chance(game),
)
_ZERO_SUM = Supports(
    "small two-player zero-sum games with hidden information or simultaneous moves",
    lambda game: _hidden(game) and game.zero_sum and game.num_seats == 2,
)
_SMALL = Supports(
    "small games with two or more players whose information states OpenSpiel knows",
    lambda game: (_open_to_search(game) or _hidden(game)) and game.num_seats > 1,
)

MAKERS: Mapping[str, tuple[Maker, Supports]] = {
    "aggressive": (aggressive, _KUHN),
    "always": (always, ANY),
    "automaton": (automaton, REPEATED),
    "beat-last": (beat_last, REPEATED),
    "behaviour": (behaviour, ANY),
    "cfr": (cfr, _ZERO_SUM),
    "conservative": (conservative, _KUHN),
    "copy": (copy, REPEATED),
    "cycle": (cycle, REPEATED),
    "grim": (grim, REPEATED),
    "intermediate": (intermediate, _KUHN),
    "lose-to-last": (lose_to_last, REPEATED),
    "mcts": (mcts, _OPEN),
    "memory-one": (memory_one, REPEATED),
    "minimax": (minimax, _SOLVABLE),
    "preferred": (preferred, _TICTACTOE),
    "uniform": (uniform, ANY),
    "win-stay-lose-shift": (win_stay_lose_shift, REPEATED),
}

COMBINERS: Mapping[str, tuple[Maker, Supports]] = {
    "best-response": (best_response, _SMALL),
    "mixture": (mixture, ANY),
    "switch": (switch, ANY),
}
"""Opponents made of other opponents: `maker(make_policy, game, seat, rng, …parameters)`."""

MODEL_OPPONENTS: Mapping[str, tuple[Maker, Supports]] = {NAME: (remote, ANY)}
"""Opponents that are models and not policies: only the world can make them."""

FAMILIES = frozenset({"automaton", "behaviour", "memory-one"})
"""Procedural families: too many members for statistics about each."""


class Opponent(NamedTuple):
    """An entry of the registry."""

    maker: Maker
    fits: Supports = ANY
    is_family: bool = False
    """Too many members for statistics about each."""


def _opponent(given: object) -> Opponent:
    found = given if isinstance(given, Opponent) else Opponent(cast(Maker, given))
    if not callable(found.maker):
        raise TypeError(f"an opponent is a function maker(game, seat, rng, …) or an Opponent, not {found.maker!r}")
    if not callable(found.fits.check):
        raise TypeError(f"fits is a function from a game to whether it can be played, not {found.fits.check!r}")
    return found


OPPONENTS: Registry[Opponent] = Registry(
    "opponent",
    {name: Opponent(*entry, name in FAMILIES) for name, entry in {**MAKERS, **COMBINERS, **MODEL_OPPONENTS}.items()},
    _opponent,
    lambda _: False,
)
"""All opponents, plugins included."""


class OpponentEntry(NamedTuple):
    """One line of the list of opponents."""

    name: str
    parameters: str
    about: str
    games: str


def make_policy(spec: Spec, game: Game, seat: int, rng: random.Random) -> Policy:
    """The policy of a spec."""
    cached = _all_policies(str(spec), game, seat)
    if cached is None:
        return _build(spec, game, seat, rng)
    odds, policies = cached
    return policies[0] if len(policies) == 1 else policies[draw(rng, odds)]


def make_player(spec: str, game: Game, seat: int, seed: int) -> PolicyPlayer:
    """A player for one trial. `seed` fixes all of its randomness."""
    cached = _all_policies(spec, game, seat)
    if cached is None:
        policy = _build(_parsed(spec), game, seat, stream(seed, "member"))
    else:  # one uniform number costs a tenth of a generator
        odds, policies = cached
        policy = policies[0] if len(policies) == 1 else policies[pick_index(odds, uniform_number(seed, "member"))]
    return PolicyPlayer(policy, derive(seed, "moves"))


def check_opponent(spec: str, game: Game, seat: int) -> None:
    """Make the opponent once, so that errors are raised before play."""
    if not 0 <= seat < game.num_seats:
        raise ConfigError(f"seat {seat} does not exist; {game.spec} has seats 0 to {game.num_seats - 1}")
    policy = make_policy(_parsed(spec), game, seat, stream(0, "member"))
    if isinstance(policy, RemotePolicy):
        policy.check()


def describe_opponents() -> list[OpponentEntry]:
    """Every opponent: its name, its parameters, what it does and which games it plays."""
    return sorted(_entry(name) for name in OPPONENTS)


def _entry(name: str) -> OpponentEntry:
    trouble = OPPONENTS.trouble(name)
    if trouble is not None:
        return OpponentEntry(name, "", trouble, "no game")
    maker, fits, _ = OPPONENTS[name]
    num_context = 4 if name in COMBINERS else 3
    return OpponentEntry(name, show_parameters(maker, num_context), (maker.__doc__ or "").split("\n")[0], fits.games)


def family(spec: str) -> str:
    """The key of statistics about an opponent: the family of a procedural member, else the spec itself.

    >>> family("automaton(states=3, seed=7)"), family("always: rock")
    ('automaton', 'always(rock)')
    >>> family("switch(behaviour(seed=1), copy, at=2)")
    'switch(behaviour,copy,at=2)'
    """
    return str(_by_family(_parsed(spec)))


def _by_family(spec: Spec) -> Spec:
    known = OPPONENTS.loaded(spec.name)
    if known is not None and known.is_family:
        return Spec(spec.name)
    args = tuple(_by_family(a) if isinstance(a, Spec) else a for a in spec.args)
    return Spec(spec.name, args, spec.kwargs)


@lru_cache(maxsize=4096)
def _all_policies(spec: str, game: Game, seat: int) -> tuple[tuple[float, ...], tuple[Policy, ...]] | None:
    """All policies of a spec with their probabilities, cached; None if there are too many."""
    parsed = _parsed(spec)
    try:
        found = enumerate_draws(lambda rng: _build(parsed, game, seat, rng), _MAX_SHARED)
    except InexactError:
        return None
    return tuple(odds for odds, _ in found), tuple(policy for _, policy in found)


def check_opponent_spec(spec: str, game: Game) -> None:
    """Check an opponent's name, game and parameters without making it, which takes a solver long."""
    parsed = _parsed(spec)
    check_call("opponent", parsed, _fitting(parsed, game).maker, 4 if parsed.name in COMBINERS else 3)


def _fitting(spec: Spec, game: Game) -> Opponent:
    found = pick("opponent", OPPONENTS, spec.name)
    with plugin_errors(f"fits of opponent {spec.name!r}", ConfigError):
        fits = found.fits.check(game)
    if not fits:
        raise ConfigError(f"opponent {spec.name!r} cannot play {game.spec}; it plays {found.fits.games}")
    return found


def _build(spec: Spec, game: Game, seat: int, rng: random.Random) -> Policy:
    maker = _fitting(spec, game).maker
    if OPPONENTS.is_ours(spec.name):
        context = (make_policy, game, seat, rng) if spec.name in COMBINERS else (game, seat, rng)
        policy: Policy = call_with("opponent", spec, maker, *context)
        return policy
    with plugin_errors(f"the maker of opponent {str(spec)!r}", ConfigError):
        made = call_with("opponent", spec, maker, game, seat, rng)
    if not callable(made):
        raise ConfigError(
            f"the maker of opponent {str(spec)!r} returned {shown_value(made)}; "
            "allowed is a policy, a function from an observation to probabilities"
        )
    return CheckedPolicy(str(spec), made)
