"""Definitions of the shipped splits; running it writes their files, and a test checks that they agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from mage.evaluation.splits import Split, SplitKind, make_split, to_json
from mage.opponents.matrix_games import distinct_members
from mage.opponents.tictactoe_scripts import ORDERS
from mage.seeds import stream
from mage.spec import make_spec

_RPS, _KUHN, _TICTACTOE = "rps(rounds=3)", "kuhn_poker", "tic_tac_toe"
_WORDING = 2603
"""The seed of the rewording."""
_SWITCHING_EPISODES = 6


def definitions() -> list[Split]:
    """Every shipped split."""
    return [*_rps(), *_rps_unseen(), *_kuhn(), *_tictactoe()]


def _rps() -> list[Split]:
    members, trained = _memory_one()
    seven = ("always:rock", "always:paper", "always:scissors", "cycle(step=1)", "cycle(step=2)", "copy", "beat-last")
    held_out = tuple(m for m in members if m not in trained)
    everyone = "rps-memory-one"
    return [
        _seen("rps-constants", "the same move always", _RPS, seven[:3]),
        _seen(everyone, "all 105 distinct memory-one players", _RPS, members),
        _seen("rps-seven", "constants, cycles, copying and beating the last move", _RPS, seven),
        _seen("rps-trained", "80 of the 105 distinct memory-one players", _RPS, trained, pool=everyone),
        _new(SplitKind.PARAMETERS, "rps-held-out", "the other 25 memory-one players", _RPS, held_out, pool=everyone),
    ]


def _rps_unseen() -> list[Split]:
    """Held-out splits of opponents other than memory-one players."""
    _, trained = _memory_one()
    automata = tuple(f"automaton(states=3,noise=0.1,seed={seed})" for seed in range(900, 916))
    constants = ("always:rock", "always:paper", "always:scissors")
    families = (
        *(f"behaviour(concentration=0.3,seed={seed})" for seed in range(900, 908)),
        *(f"mixture({a},{b})" for a, b in zip(constants, (*constants[1:], constants[0]), strict=True)),
    )
    harder = (
        *(f"mixture({member},uniform,weights=[0.75,0.25])" for member in trained[3::10]),
        *(f"automaton(states=6,noise=0.2,seed={seed})" for seed in range(930, 938)),
    )
    other_words = make_spec("rps", rounds=3, reworded=_WORDING)
    about = "memory-one players trained with"
    return [
        _new(SplitKind.FAMILIES, "rps-automata-held-out", "machines of three states with noise", _RPS, automata),
        _new(SplitKind.FAMILIES, "rps-families", "random strategies, and mixtures of two moves", _RPS, families),
        _new(SplitKind.HARDER, "rps-harder", f"{about}, with noise, and noisy machines of six states", _RPS, harder),
        _new(SplitKind.REWORDED, "rps-reworded", f"{about}, in other words", str(other_words), trained[::4]),
        _switching("rps", f"{about} that become another one", _RPS, zip(trained[4::16], trained[11::16], strict=True)),
    ]


def _memory_one() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """All distinct memory-one players, and those that are not held out."""
    members = tuple(str(spec) for spec in distinct_members(3))
    held_out = set(stream(2603, "rps-memory-one", "held out").sample(members, 25))
    return members, tuple(m for m in members if m not in held_out)


def _kuhn() -> list[Split]:
    scripts = ("conservative", "aggressive", "intermediate")
    others = ("always:bet", "always:pass", "cfr", "mixture(always:bet,always:pass,weights=[0.25,0.75])")
    strategies = tuple(f"behaviour(concentration=0.3,seed={seed})" for seed in range(900, 912))
    harder = ("cfr", *(f"mixture(cfr,{script},weights=[0.8,0.2])" for script in scripts))
    other_words = make_spec(_KUHN, reworded=_WORDING)
    pairs = zip(scripts, (*scripts[1:], scripts[0]), strict=True)
    return [
        _seen("kuhn-scripts", "the three scripts of the papers", _KUHN, scripts),
        _new(SplitKind.FAMILIES, "kuhn-other-scripts", "scripts of other kinds, and equilibrium", _KUHN, others),
        _new(SplitKind.PARAMETERS, "kuhn-behaviour-held-out", "random strategies with fixed seeds", _KUHN, strategies),
        _new(SplitKind.HARDER, "kuhn-harder", "equilibrium, and scripts that mostly play it", _KUHN, harder),
        _new(SplitKind.REWORDED, "kuhn-reworded", "the three scripts, in other words", str(other_words), scripts),
        _switching("kuhn", "scripts that become another one", _KUHN, pairs),
    ]


def _tictactoe() -> list[Split]:
    weak = tuple(f"preferred:{order}" for order in ORDERS)
    numbers = stream(2603, "tictactoe-orders")
    orders = tuple(f"preferred({numbers.sample(range(9), 9)})" for _ in range(8))
    replies = tuple(f"best-response:{member}" for member in weak)
    harder = tuple(f"mcts(simulations={num},seed={seed})" for num in (30, 100) for seed in range(900, 903))
    other_words, opened = make_spec(_TICTACTOE, reworded=_WORDING), str(make_spec(_TICTACTOE, opening=1))
    return [
        _seen("tictactoe-weak", "the first free cell of a fixed order", _TICTACTOE, weak),
        _seen("tictactoe-minimax", "perfect play", _TICTACTOE, ("minimax",)),
        _seen("tictactoe-openings", "the weak players, the first move drawn", opened, weak),
        _seen("tictactoe-minimax-openings", "perfect play, the first move drawn", opened, ("minimax",)),
        _new(SplitKind.PARAMETERS, "tictactoe-orders", "the first free cell of other orders", _TICTACTOE, orders),
        _new(SplitKind.FAMILIES, "tictactoe-families", "best replies to the weak players", _TICTACTOE, replies),
        _new(SplitKind.HARDER, "tictactoe-harder", "tree search", _TICTACTOE, harder),
        _new(SplitKind.REWORDED, "tictactoe-reworded", "the weak players, in other words", str(other_words), weak),
        _switching("tictactoe", "orders that change", _TICTACTOE, zip(weak[::2], weak[1::2], strict=True)),
    ]


def _seen(name: str, description: str, game: str, members: Sequence[str], *, pool: str = "") -> Split:
    return make_split(name, description, game, tuple(members), held_out=False, pool=pool, kind=SplitKind.SEEN)


def _new(kind: SplitKind, name: str, description: str, game: str, members: Sequence[str], *, pool: str = "") -> Split:
    return make_split(name, description, game, tuple(members), held_out=True, pool=pool, kind=kind)


def _switching(name: str, description: str, game: str, pairs: Iterable[tuple[str, str]]) -> Split:
    """Each pair in both orders, so that the possible gain before and after a switch is the same on average.

    The switch comes after two or three episodes, and leaves at least three.
    """
    members = tuple(f"switch({a},{b},at={at})" for x, y in pairs for a, b in ((x, y), (y, x)) for at in (2, 3))
    return make_split(
        f"{name}-switching",
        description,
        game,
        members,
        held_out=True,
        kind=SplitKind.SWITCHING,
        episodes=_SWITCHING_EPISODES,
    )


def main() -> None:
    """Write all split files."""
    for split in definitions():
        (Path(__file__).parent / f"{split.name}.json").write_bytes(to_json(split))


if __name__ == "__main__":
    main()
