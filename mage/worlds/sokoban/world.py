"""`sokoban(…)`: push every box onto a goal, in a room that is the same in all episodes of a trial.

Nothing in a room is hidden. That a box can no longer be brought to a goal is not told: an agent finds out by failing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mage.errors import ConfigError
from mage.protocols import Player
from mage.seeds import stream
from mage.spec import Spec, show, whole
from mage.types import Fact, Task
from mage.worlds.openspiel.words.base import lexicon, signed
from mage.worlds.sokoban.generate import RoomWish, generate
from mage.worlds.sokoban.players import Expert, LearnsFromFailure
from mage.worlds.sokoban.room import DIRECTIONS, SYMBOLS, Room, moved, parse_level, read_rooms, to_board
from mage.worlds.solo import SoloWorld

_THINGS = ("wall", "floor", "goal", "box")
_PLAIN_SYMBOLS = "#_.$*@+"
"""What agents are shown: XSB with an underscore for floor. Squares stand apart, so that each can be a token."""
_BACK = (1, 0, 3, 2)
"""By direction the opposite one."""
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
_RULES = (
    "You see a room from above. Each symbol is a square: {wall_symbol} {wall}, {floor_symbol} {floor}, {goal_symbol} "
    "{goal}, {box_symbol} {box}, {done_symbol} {box} on a {goal}, {you_symbol} you, {there_symbol} you on a {goal}. "
    "Bring every {box} onto a {goal}. A move takes you one square: {up} to the row above, {down} to the row below, "
    "{left} to the column before, {right} to the next column. If a {box} is there, you push it one square further; it "
    "does not move against a {wall} or another {box}, and you cannot pull. "
)


class Position(NamedTuple):
    """Where the player and the boxes are, and how many turns are over."""

    player: int
    boxes: int
    turn: int


class Settings(msgspec.Struct, frozen=True):
    """The parameters of the world."""

    rows: int = 6
    """Rows of a room, outer walls included."""
    columns: int = 6
    boxes: int = 2
    shortest: int = 5
    """The least moves of a shortest solution."""
    longest: int = 21
    """The most moves of a shortest solution."""
    moves: int = 3
    """Most moves in a turn."""
    turns: int = 7
    """Turns of an episode."""
    admissible: bool = True
    """Whether only moves that are possible are offered; else all are, and an impossible one does nothing."""
    partial: float = 0.0
    """What an unsolved room scores, times the share of its boxes that are on goals."""
    file: Any = ""
    """An .xsb or Boxoban file to draw rooms from; rows, columns, boxes and lengths are then those of the file."""
    reworded: int | None = None
    """The seed of neutral words and symbols."""

    def check(self) -> None:
        """Raise a ConfigError for values that cannot be played."""
        whole("rows", self.rows, 4, 16)
        whole("columns", self.columns, 4, 16)
        whole("boxes", self.boxes, 1, 4)
        whole("moves", self.moves, 1, 4)
        whole("turns", self.turns, 1, 1000)
        whole("shortest", self.shortest, 1)
        whole("longest", self.longest, self.shortest)
        if type(self.admissible) is not bool:
            raise ConfigError(f"admissible must be true or false, not {show(self.admissible)}")
        if type(self.partial) not in (int, float) or not 0 <= self.partial < 1:
            raise ConfigError(f"partial must be a number from 0 to below 1, not {show(self.partial)}")
        if not isinstance(self.file, str | Spec):
            raise ConfigError(f"file must be a path, not {show(self.file)}")
        if not self.file and self.longest > self.moves * self.turns:
            raise ConfigError(
                f"longest = {self.longest}: {self.turns} turns of {self.moves} moves are {self.moves * self.turns}; "
                "change longest, turns or moves"
            )


class Sokoban(SoloWorld[Room, Position]):
    """Push every box onto a goal; the same room in all episodes of a trial."""

    __signature__ = signature(Settings)

    def __init__(self, *values: Any, **named: Any) -> None:
        self._settings = Settings(*values, **named)
        self._settings.check()
        self._words = lexicon("sokoban", (*DIRECTIONS, *_THINGS), self._settings.reworded)
        seed = self._settings.reworded
        symbols = _PLAIN_SYMBOLS if seed is None else "".join(stream(seed, "symbols").sample(_LETTERS, len(SYMBOLS)))
        self._shown = dict(zip(SYMBOLS, symbols, strict=True))
        self._directions = [self._words[word] for word in DIRECTIONS]
        self.trial = "You play {episodes} episodes in the same room: each begins as the first did."
        self.reflect_request = (
            "Write a short note to yourself: which moves helped, after which could a "
            f"{self._words['box']} no longer be brought where it belongs, and what will you do next?"
        )
        self._rooms = read_rooms(Path(str(self._settings.file))) if self._settings.file else ()
        self._room_of_seed = lru_cache(maxsize=4096)(self._draw_room)
        self._room_of_level = lru_cache(maxsize=4096)(parse_level)
        self._possible_names = lru_cache(maxsize=4096)(self._possible)
        self._told = lru_cache(maxsize=1024)(self._describe)
        series = [moves for num in range(self._settings.moves) for moves in product(range(4), repeat=num + 1)]
        self._names = {moves: " ".join(self._directions[move] for move in moves) for moves in series}
        self._moves = {name: moves for moves, name in self._names.items()}
        self._room_of_seed(0)  # raises where no room is found

    def explain(self) -> str:
        own, shown = self._settings, self._shown
        names = ("wall", "floor", "goal", "box", "done", "you", "there")
        symbols = {f"{name}_symbol": shown[symbol] for name, symbol in zip(names, SYMBOLS, strict=True)}
        moves = "one move" if own.moves == 1 else f"1 to {own.moves} moves, one after the other"
        other = f"{signed(own.partial)} times the share on a {self._words['goal']}" if own.partial else "0"
        return (
            _RULES.format(**self._words, **symbols)
            + ("" if own.admissible else "A move that is not possible does nothing. ")
            + f"A turn is {moves}; an episode has {own.turns} turns. With every {self._words['box']} on a "
            f"{self._words['goal']} it ends and scores +1; otherwise {other}."
        )

    def hidden(self) -> Mapping[Room, float]:
        return {}

    def draw(self, task: Task) -> Room:
        return self._room_of_level(task.level) if task.level else self._room_of_seed(task.seed)

    def drawn_level(self, task: Task) -> str:
        """The level of a task, as text."""
        return str(self.draw(task))

    def check_level(self, level: str) -> None:
        parse_level(level)

    @property
    def players(self) -> Mapping[str, Callable[..., Player]]:
        return {"expert": self._expert, "learns-from-failure": self._learns_from_failure}

    def _expert(self, task: Task) -> Player:
        """Plays a shortest solution; where none is left, at random."""
        return Expert(self._directions, self._settings.moves, task.seed)

    def _learns_from_failure(self, task: Task) -> Player:
        """Goes where boxes look nearer to goals; remembers over episodes which positions are worse than they look."""
        return LearnsFromFailure(self._directions, task.seed)

    def start(self, hidden: Room) -> Position:
        return Position(hidden.player, hidden.boxes, 0)

    def actions(self, hidden: Room, position: Position) -> Sequence[str]:
        if self.is_over(hidden, position):
            return ()
        if self._settings.admissible:
            return self._possible_names(hidden, position.player, position.boxes)
        return tuple(self._moves)

    def after(self, hidden: Room, position: Position, action: str) -> Position:
        player, boxes = position.player, position.boxes
        for move in self._moves[action]:
            if boxes != hidden.goals:
                player, boxes = moved(hidden, player, boxes, hidden.deltas[move]) or (player, boxes)
        return Position(player, boxes, position.turn + 1)

    def is_over(self, hidden: Room, position: Position) -> bool:
        return position.boxes == hidden.goals or position.turn >= self._settings.turns

    def is_success(self, hidden: Room, position: Position) -> bool:
        return position.boxes == hidden.goals

    def score(self, hidden: Room, position: Position) -> float:
        if position.boxes == hidden.goals:
            return 1.0
        return self._settings.partial * (position.boxes & hidden.goals).bit_count() / hidden.boxes.bit_count()

    def tell(self, hidden: Room, position: Position) -> str:
        return self._told(hidden, position)

    def _describe(self, hidden: Room, position: Position) -> str:
        rows = to_board(hidden, position.player, position.boxes)
        board = "\n".join(" ".join(self._shown[symbol] for symbol in row) for row in rows)
        left = self._settings.turns - position.turn
        if position.boxes == hidden.goals:
            state = "Solved."
        elif left:
            state = f"Turns left: {left}."
        else:
            done, num = (position.boxes & hidden.goals).bit_count(), hidden.boxes.bit_count()
            state = f"Not solved: {done} of {num} on a {self._words['goal']}, and no turns are left."
        return f"{state}\n{board}"

    def facts(self, hidden: Room, position: Position) -> Mapping[str, Fact]:
        return {
            "board": to_board(hidden, position.player, position.boxes),
            "turns_left": self._settings.turns - position.turn,
        }

    def _draw_room(self, seed: int) -> Room:
        own = self._settings
        if self._rooms:
            return stream(seed, "hidden").choice(self._rooms)
        return generate(RoomWish(own.rows, own.columns, own.boxes, own.shortest, own.longest), seed)

    def _possible(self, room: Room, player: int, boxes: int) -> tuple[str, ...]:
        """Every series of possible moves without a step straight back, shorter ones first.

        A step back after a push is none: it leaves the box elsewhere. A series ends where the room is solved.
        """
        found: list[tuple[int, ...]] = []
        layer: list[tuple[tuple[int, ...], int, int, int]] = [((), player, boxes, -1)]
        """Moves, player, boxes, and the move that would be a step straight back."""
        for _ in range(self._settings.moves):
            longer = []
            for moves, at, standing, back in layer:
                for move, delta in enumerate(room.deltas):
                    after = moved(room, at, standing, delta)
                    if after is None or move == back:
                        continue
                    found.append((*moves, move))
                    if after[1] != room.goals:
                        longer.append((found[-1], *after, _BACK[move] if after[1] == standing else -1))
            layer = longer
        return tuple(self._names[moves] for moves in found)
