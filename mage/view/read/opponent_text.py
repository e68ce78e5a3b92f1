"""Descriptions of opponents by their specs, for the pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from mage.errors import ConfigError
from mage.opponents.parameters import move
from mage.opponents.registry import MODEL_OPPONENTS, OPPONENTS, describe_opponents
from mage.spec import Spec, parse_spec, whole
from mage.worlds.openspiel.game import WORDED, Game, load_game
from mage.worlds.openspiel.words.matrix import MatrixWords


def worded_game(spec: str) -> Game | None:
    """A game with its own words; None for others.

    OpenSpiel's other games have parameters that read files or crash, so a transcript may not load them.
    """
    try:
        return load_game(spec) if parse_spec(spec).name in WORDED else None
    except ConfigError:
        return None


@lru_cache(maxsize=4096)
def describe_opponent(name: str, game: str) -> str:
    """What an opponent does in a game, in a sentence; empty if the name is not a known opponent."""
    try:
        spec = parse_spec(name)
        if spec.name not in OPPONENTS or spec.name in MODEL_OPPONENTS:
            return ""
        spelled = _spelled_out(spec, game)
    except ConfigError:
        return ""
    about = next(entry.about for entry in describe_opponents() if entry.name == spec.name)
    return spelled or about.replace("`", "")


def name_and_words(name: str, game: str) -> str:
    """An opponent on one line: its spec and what it does, or one of them where the other would add nothing."""
    words = describe_opponent(name, game)
    if not words:
        return name
    return words if _spelled_out(parse_spec(name), game) else f"{name}. {words}"


def describe_opponents_of(report: Any) -> dict[str, str]:
    """What the known opponents in a report on splits or on cross-play do, by name."""
    words = {name: describe_opponent(name, world) for name, world in _opponents_of(report)}
    return {name: text for name, text in words.items() if text}


def _opponents_of(report: Any) -> Iterator[tuple[str, str]]:
    """The names and worlds in a report, which may be any JSON."""
    if not isinstance(report, dict):
        return
    reports = report.get("reports")
    for each in [*(reports if isinstance(reports, list) else ()), report.get("found")]:
        if not isinstance(each, dict) or not isinstance(each.get("world"), str):
            continue
        by_member, agents = each.get("by_member"), each.get("agents")
        met = [row[0] for row in by_member if isinstance(row, list) and row] if isinstance(by_member, list) else []
        for name in (*met, *(agents if isinstance(agents, list) else ())):
            if isinstance(name, str):
                yield name, each["world"]


def _spelled_out(spec: Spec, world: str) -> str:
    """An opponent of a repeated matrix game with its parameters in words; empty for other kinds and games."""
    describe = {"always": _describe_always, "cycle": _describe_cycle, "memory-one": _describe_memory_one}.get(spec.name)
    game = worded_game(world) if describe else None
    if describe is None or game is None or not isinstance(game.words, MatrixWords):
        return ""
    return describe(spec, game, game.words.moves)


def _describe_always(spec: Spec, game: Game, moves: Sequence[str]) -> str:
    given = [*spec.args, *spec.named.values()]
    return f"Always {moves[move('the action', given[0], game, 0)]}." if len(given) == 1 else ""


def _describe_cycle(spec: Spec, game: Game, moves: Sequence[str]) -> str:
    """The moves in their order; a phase that is not given is drawn."""
    given = {**dict(zip(("step", "phase"), spec.args, strict=False)), **spec.named}
    step, phase = whole("step", given.get("step", 1), 1, len(moves) - 1), given.get("phase")
    start = 0 if phase is None else move("phase", phase, game, 0)
    order = [moves[(start + step * turn) % len(moves)] for turn in range(len(moves))]
    where = "from a move that is drawn once per trial" if phase is None else f"from {order[0]}"
    return f"{', '.join([order[0].capitalize(), *order[1:]])} in turn, {where}."


def _describe_memory_one(spec: Spec, game: Game, moves: Sequence[str]) -> str:
    """A memory-one opponent move by move; a constant map is one move."""
    table = spec.named.get("map")
    if not isinstance(table, tuple):
        return ""
    replies = [moves[move("map", each, game, 0)] for each in table]
    first = spec.named.get("first")
    opening = "Begins at random" if first is None else f"Begins with {moves[move('first', first, game, 0)]}"
    if len(set(replies)) == 1:
        return f"{opening}; then always {replies[0]}."
    on = str(spec.named.get("on"))
    whose = {"me": "its own last move", "both": "both last moves, its own first"}.get(on, "the other's last move")
    seen = [f"{own} and {other}" for own in moves for other in moves] if on == "both" else moves
    rest = ", ".join(f"after {moved} {reply}" for moved, reply in zip(seen, replies, strict=True))
    return f"{opening}; then it follows {whose}: {rest}."
