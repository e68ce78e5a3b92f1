"""Definitions of the shipped splits; running it writes their files, and a test checks that they agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path

from mage.evaluation.splits import Split, SplitKind, make_split, to_json, weighted_split
from mage.opponents.behaviours import Behaviour, behaviours
from mage.opponents.matrix_games import memory_one_members
from mage.opponents.tictactoe_scripts import ORDERS
from mage.seeds import derive, stream
from mage.spec import Spec, make_spec, parse_spec, with_parameters
from mage.types import Task
from mage.worlds.alfworld.world import AlfWorld
from mage.worlds.minesweeper.world import MineSweeper
from mage.worlds.openspiel.game import load_game
from mage.worlds.registry import load_world
from mage.worlds.sokoban.generate import RoomWish, generate
from mage.worlds.sokoban.room import Room, to_board
from mage.worlds.webshop.generate import BASE, NUM_GOALS

_RPS, _DILEMMA, _KUHN, _TICTACTOE = "rps(rounds=3)", "pd(rounds=4)", "kuhn_poker", "tic_tac_toe"
_SOKOBAN, _NUM_ROOMS = "sokoban", 100
_WORDING = 2603
"""The seed of the rewording."""
_DRAWS = 2603
"""The seed of members that are drawn."""
_SWITCHING_EPISODES = 6
_SEVEN = ("always:rock", "always:paper", "always:scissors", "cycle(step=1)", "cycle(step=2)", "copy", "beat-last")


def definitions() -> list[Split]:
    """Every shipped split."""
    puzzles = [*_sokoban(), *_minesweeper(), *_webshop(), *_alfworld()]
    return [*_rps(), *_rps_unseen(), *_dilemma(), *_kuhn(), *_tictactoe(), *puzzles]


def _rps() -> list[Split]:
    trained, held_out, test = _memory_one()
    others = "memory-one players that behave like none trained with"
    return [
        _seen("rps-constants", "the same move always", _RPS, _SEVEN[:3]),
        _seen("rps-seven", "constants, cycles, copying and beating the last move", _RPS, _SEVEN),
        _seen("rps-trained", "63 of the 93 memory-one players, all scripts with a name among them", _RPS, trained),
        _new(SplitKind.PARAMETERS, "rps-held-out", f"15 {others}", _RPS, held_out),
        _new(SplitKind.PARAMETERS, "rps-test", f"15 more {others}, for published figures", _RPS, test, is_test=True),
    ]


def _rps_unseen() -> list[Split]:
    """Held-out splits of opponents other than memory-one players."""
    trained, _, _ = _memory_one()
    automata = _distinct(f"automaton(states=3,noise=0.1,seed={seed})" for seed in range(900, 930))[:16]
    constants = ("always:rock", "always:paper", "always:scissors")
    families = (
        *(f"behaviour(concentration=0.3,seed={seed})" for seed in range(900, 908)),
        *(f"mixture({a},{b})" for a, b in zip(constants, (*constants[1:], constants[0]), strict=True)),
    )
    harder = (
        *(f"mixture({member},uniform,weights=[0.75,0.25])" for member in trained[3::10]),
        *_distinct(f"automaton(states=6,noise=0.2,seed={seed})" for seed in range(930, 950))[:8],
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


@cache
def _memory_one() -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Memory-one players that differ over three rounds: those to train with, those held out, and those for figures.

    All that the scripts with a name may play is in the first; in the others every first move is as frequent.
    """
    members = _distinct(map(str, memory_one_members(3)))
    named = frozenset[Behaviour]().union(*map(_behaviours, (*_SEVEN, "lose-to-last")))
    unknown = [member for member in members if not _behaviours(member) & named]
    by_first = [[member for member in unknown if parse_spec(member).named["first"] == first] for first in range(3)]
    drawn = [stream(_DRAWS, "rps-memory-one", first).sample(part, 10) for first, part in enumerate(by_first)]
    held_out = tuple(member for part in drawn for member in sorted(part[:5]))
    test = tuple(member for part in drawn for member in sorted(part[5:]))
    return tuple(member for member in members if member not in (*held_out, *test)), held_out, test


def _distinct(members: Iterable[str]) -> tuple[str, ...]:
    """The members of rock-paper-scissors without those that behave like an earlier one."""
    found: dict[frozenset[Behaviour], str] = {}
    for member in members:
        found.setdefault(_behaviours(member), member)
    return tuple(found.values())


@cache
def _behaviours(member: str) -> frozenset[Behaviour]:
    return behaviours(member, load_game(_RPS), seat=1)


def _dilemma() -> list[Split]:
    """A pool in which only defection tells apart the opponents that answer it and the one that does not."""
    four, weights = ("always:cooperate", "always:defect", "copy(first=cooperate)", "grim"), (3, 1, 1, 5)
    about = "always cooperate (.3), always defect (.1), tit-for-tat (.1) and grim (.5)"
    other_words = str(make_spec("pd", rounds=4, reworded=_WORDING))
    return [
        weighted_split(_seen("dilemma-four", about, _DILEMMA, four), weights),
        weighted_split(
            _new(SplitKind.REWORDED, "dilemma-reworded", f"{about}, in other words", other_words, four), weights
        ),
    ]


def _kuhn() -> list[Split]:
    scripts = ("conservative", "aggressive", "intermediate")
    # No always:bet: as the first player it does what aggressive does.
    mixtures = tuple(f"mixture(always:bet,always:pass,weights={odds})" for odds in ("[0.25,0.75]", "[0.75,0.25]"))
    others = ("always:pass", "cfr", *mixtures)
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
    numbers = stream(_DRAWS, "tictactoe-orders")
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


def _sokoban() -> list[Split]:
    """Rooms as levels. No two are the same room turned or mirrored."""
    two, three = (_rooms(boxes, num) for boxes, num in ((2, 2 * _NUM_ROOMS), (3, _NUM_ROOMS)))
    seen, unseen = two[:_NUM_ROOMS], two[_NUM_ROOMS:]
    other_words, harder = str(make_spec(_SOKOBAN, reworded=_WORDING)), str(make_spec(_SOKOBAN, boxes=3))
    about = f"{_NUM_ROOMS} rooms of 6x6 squares with"
    return [
        _seen("sokoban-seen", f"{about} two boxes", _SOKOBAN, seen),
        _new(SplitKind.PARAMETERS, "sokoban-unseen", f"{about} two boxes, other ones", _SOKOBAN, unseen),
        _new(SplitKind.HARDER, "sokoban-harder", f"{about} three boxes", harder, three),
        _new(SplitKind.REWORDED, "sokoban-reworded", "rooms trained with, in other words", other_words, seen[::4]),
    ]


def _rooms(boxes: int, num: int) -> tuple[str, ...]:
    """Generated rooms that differ also when they are turned or mirrored."""
    found: dict[tuple[str, ...], Room] = {}
    for number in count():
        room = generate(RoomWish(6, 6, boxes, 5, 21), derive(_DRAWS, "sokoban", number))
        found.setdefault(min(_turned(to_board(room, room.player, room.boxes))), room)
        if len(found) == num:
            return tuple(map(str, found.values()))
    raise AssertionError


def _turned(rows: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """A board in its eight orientations."""
    for _ in range(4):
        rows = tuple("".join(column) for column in zip(*rows[::-1], strict=True))
        yield from (rows, rows[::-1])


def _minesweeper() -> list[Split]:
    """Boards of the papers' size and number of mines, to train on and held out, and others with more mines."""
    boards = _boards("minesweeper", 512 + 128)
    harder = [(num, f"minesweeper(mines={num})") for num in (4, 5)]
    return [
        _seen("minesweeper-seen", "512 boards of 6 by 6 cells with 3 mines", "minesweeper", boards[:512]),
        _new(SplitKind.PARAMETERS, "minesweeper-unseen", "128 other boards like them", "minesweeper", boards[512:]),
        *(
            _new(
                SplitKind.HARDER, f"minesweeper-{num}-mines", f"128 boards with {num} mines", world, _boards(world, 128)
            )
            for num, world in harder
        ),
    ]


def _webshop() -> list[Split]:
    """Goals by number: as in the papers the first 500 are held out."""
    goals = tuple(map(str, range(NUM_GOALS)))
    unseen, seen = goals[:500], goals[500:]
    other_words, larger = str(make_spec("webshop", reworded=_WORDING)), str(make_spec("webshop", size=4 * BASE))
    about = f"in a catalogue of {4 * BASE:,} products"
    return [
        _seen("webshop-seen", "goals 500 to 999", "webshop", seen),
        _new(SplitKind.PARAMETERS, "webshop-unseen", "goals 0 to 499", "webshop", unseen),
        _new(SplitKind.HARDER, "webshop-harder", f"goals 0 to 127 {about}", larger, unseen[:128]),
        _new(SplitKind.REWORDED, "webshop-reworded", "goals trained with, in other words", other_words, seen[::10]),
    ]


def _boards(world: str, num: int) -> tuple[str, ...]:
    """Different boards, drawn as the seeds of tasks draw them."""
    loaded = load_world(world)
    assert isinstance(loaded, MineSweeper)
    drawn = (loaded.draw(Task(world, (), 0, derive(_DRAWS, "boards", n), 1, False, False, 1)) for n in count())
    found: dict[str, None] = {}
    while len(found) < num:
        found[str(next(drawn))] = None
    return tuple(found)


def _alfworld() -> list[Split]:
    """Games in rooms of both sizes: trained goals in rooms to train in and in others, and other goals."""
    small = make_spec("alfworld", size="small", turns=10, list_actions=False)
    return [
        split
        for number, (name, spec) in enumerate((("alfworld", make_spec("alfworld")), ("alfworld-small", small)))
        for split in _house_splits(name, spec, _WORDING + number)
    ]


def _house_splits(name: str, spec: Spec, wording: int) -> list[Split]:
    trained, new = ("pick", "look", "clean", "heat"), ("cool", "two")
    world, seen = str(spec), _house_levels(spec, trained, "seen", 40)
    other_rooms, other_goals = _house_levels(spec, trained, "unseen", 20), _house_levels(spec, new, "seen", 40)
    reworded = with_parameters(world, {"reworded": wording})
    goals = "the goals pick, look, clean and heat"
    return [
        _seen(f"{name}-seen", f"{len(seen)} games with {goals}", world, seen),
        _new(SplitKind.PARAMETERS, f"{name}-unseen-rooms", f"{goals} in other rooms", world, other_rooms),
        _new(
            SplitKind.FAMILIES,
            f"{name}-unseen-goals",
            "the goals cool and two, in rooms trained in",
            world,
            other_goals,
        ),
        _new(SplitKind.REWORDED, f"{name}-reworded", "games trained with, in other words", reworded, seen[::4]),
    ]


def _house_levels(spec: Spec, goals: Sequence[str], rooms: str, num: int) -> tuple[str, ...]:
    """So many different games of each goal, drawn as the seeds of tasks draw them."""
    found: dict[str, None] = {}
    for number, goal in enumerate(goals):
        world = with_parameters(str(spec), {"goals": goal, "rooms": rooms})
        loaded = load_world(world)
        assert isinstance(loaded, AlfWorld)
        seeds = (derive(_DRAWS, "alfworld", goal, rooms, n) for n in count())
        while len(found) < num * (number + 1):
            found[loaded.drawn_level(Task(world, (), 0, next(seeds), 1, False, False, 1))] = None
    return tuple(found)


def _seen(name: str, description: str, game: str, members: Sequence[str]) -> Split:
    return make_split(name, description, game, tuple(members), held_out=False, kind=SplitKind.SEEN)


def _new(
    kind: SplitKind, name: str, description: str, game: str, members: Sequence[str], *, is_test: bool = False
) -> Split:
    return make_split(name, description, game, tuple(members), held_out=True, kind=kind, is_test=is_test)


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
