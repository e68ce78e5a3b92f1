"""The definitions of the shipped splits. Run it to write the files again; a test holds both together."""

from __future__ import annotations

from pathlib import Path

from mage.evaluate.splits import Split, make_split, to_json
from mage.players.repeated import distinct_members
from mage.players.tictactoe import ORDERS
from mage.seeds import stream

_RPS, _KUHN, _TICTACTOE = "rps(rounds=3)", "kuhn_poker", "tic_tac_toe"


def definitions() -> list[Split]:
    """Every shipped split."""
    return [*_rps(), *_kuhn(), *_tictactoe()]


def _rps() -> list[Split]:
    members = [str(spec) for spec in distinct_members(3)]
    held_out = set(stream(2603, "rps-memory-one", "held out").sample(members, 25))
    seven = ("always:rock", "always:paper", "always:scissors", "cycle(step=1)", "cycle(step=2)", "copy", "beat-last")
    automata = tuple(f"automaton(states=3,noise=0.1,seed={seed})" for seed in range(900, 916))
    pairs = zip(members[5::21], members[16::21], strict=True)
    return [
        make_split("rps-constants", "the same move always", _RPS, seven[:3], held_out=False),
        make_split("rps-memory-one", "all 105 distinct memory-one players", _RPS, tuple(members), held_out=False),
        make_split("rps-seven", "constants, cycles, copying and beating the last move", _RPS, seven, held_out=False),
        make_split(
            "rps-trained",
            "80 of the 105 distinct memory-one players",
            _RPS,
            tuple(m for m in members if m not in held_out),
            held_out=False,
            pool="rps-memory-one",
        ),
        make_split(
            "rps-held-out",
            "the other 25 memory-one players",
            _RPS,
            tuple(m for m in members if m in held_out),
            held_out=True,
            pool="rps-memory-one",
        ),
        make_split("rps-automata-held-out", "machines of three states with noise", _RPS, automata, held_out=True),
        make_split(
            "rps-switching",
            "memory-one players that become another one after the first episode",
            _RPS,
            tuple(f"switch({a},{b},at=1)" for a, b in pairs),
            held_out=True,
        ),
    ]


def _kuhn() -> list[Split]:
    scripts = ("conservative", "aggressive", "intermediate")
    others = ("always:bet", "always:pass", "cfr", "mixture(always:bet,always:pass,weights=[0.25,0.75])")
    strategies = tuple(f"behaviour(concentration=0.3,seed={seed})" for seed in range(900, 912))
    return [
        make_split("kuhn-scripts", "the three scripts of the papers", _KUHN, scripts, held_out=False),
        make_split("kuhn-other-scripts", "scripts of other kinds, and equilibrium", _KUHN, others, held_out=True),
        make_split("kuhn-behaviour-held-out", "random strategies with fixed seeds", _KUHN, strategies, held_out=True),
    ]


def _tictactoe() -> list[Split]:
    weak = tuple(f"preferred:{order}" for order in ORDERS)
    return [
        make_split("tictactoe-weak", "the first free cell of a fixed order", _TICTACTOE, weak, held_out=False),
        make_split("tictactoe-minimax", "perfect play", _TICTACTOE, ("minimax",), held_out=False),
    ]


def main() -> None:
    """Write all files."""
    for split in definitions():
        (Path(__file__).parent / f"{split.name}.json").write_bytes(to_json(split))


if __name__ == "__main__":
    main()
