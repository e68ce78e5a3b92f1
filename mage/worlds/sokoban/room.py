"""Rooms of Sokoban and the rules of moving in them, as pure functions of integers; the XSB format of rooms.

Squares are numbered row by row from 0. A set of squares is an integer whose bit n stands for square n.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from mage.errors import ConfigError

WALL, FLOOR, GOAL, BOX, BOX_ON_GOAL, PLAYER, PLAYER_ON_GOAL = SYMBOLS = "#-.$*@+"
"""The squares of a room in XSB. Floor is also written as a space or an underscore."""
DIRECTIONS = ("up", "down", "left", "right")
MOST_ROWS = 40
"""Most rows and columns of a room."""
_ROW = re.compile(r"[#\-_ .$*@+]*#[#\-_ .$*@+]*")
_RUN = re.compile(r"(\d*)([#\-_ .$*@+|])")


class Room(NamedTuple):
    """A room with its first position. All squares that cannot be walked to are walls, and walls are all around it."""

    rows: int
    columns: int
    walls: int
    goals: int
    boxes: int
    player: int

    @property
    def deltas(self) -> tuple[int, int, int, int]:
        """By direction, what a move adds to the number of the square."""
        return -self.columns, self.columns, -1, 1

    def __str__(self) -> str:
        """The room in one line of run-length encoded XSB: `6#|#@-2.#|…`."""
        lines = to_board(self, self.player, self.boxes)
        return "|".join("".join(_run(symbol, len(list(run))) for symbol, run in groupby(line)) for line in lines)


def _run(symbol: str, num: int) -> str:
    return symbol if num == 1 else f"{num}{symbol}"


def moved(room: Room, player: int, boxes: int, delta: int) -> tuple[int, int] | None:
    """Player and boxes after a move by `delta`; None where it is not possible."""
    to = player + delta
    if room.walls >> to & 1:
        return None
    if boxes >> to & 1:
        behind = to + delta
        if (room.walls | boxes) >> behind & 1:
            return None
        boxes ^= 1 << to | 1 << behind
    return to, boxes


def reached(walls: int, start: int, deltas: Sequence[int]) -> int:
    """The squares that can be walked to from `start` where there are no boxes."""
    found = frontier = 1 << start
    while frontier:
        spread = 0
        for delta in deltas:
            spread |= frontier << delta if delta > 0 else frontier >> -delta
        frontier = spread & ~walls & ~found
        found |= frontier
    return found


@lru_cache(maxsize=1024)
def to_board(room: Room, player: int, boxes: int) -> tuple[str, ...]:
    """A position as rows of XSB."""
    symbols = []
    for square in range(room.rows * room.columns):
        bit = 1 << square
        on_goal = bool(room.goals & bit)
        if room.walls & bit:
            symbols.append(WALL)
        elif boxes & bit:
            symbols.append(BOX_ON_GOAL if on_goal else BOX)
        elif square == player:
            symbols.append(PLAYER_ON_GOAL if on_goal else PLAYER)
        else:
            symbols.append(GOAL if on_goal else FLOOR)
    text = "".join(symbols)
    return tuple(text[start : start + room.columns] for start in range(0, len(text), room.columns))


def from_board(rows: Sequence[str]) -> Room:
    """The room whose first position these rows of XSB show; a ConfigError where they show none.

    >>> str(from_board(["#####", "#@$.#", "#####"]))
    '5#|#@$.#|5#'
    """
    columns = max(map(len, rows), default=0)
    if not 3 <= len(rows) <= MOST_ROWS or not 3 <= columns <= MOST_ROWS:
        raise _problem(rows, f"it has {len(rows)} rows and {columns} columns; both must be from 3 to {MOST_ROWS}")
    text = "".join(row.ljust(columns, FLOOR) for row in rows)
    players = [square for square, symbol in enumerate(text) if symbol in (PLAYER, PLAYER_ON_GOAL)]
    if len(players) != 1:
        raise _problem(rows, f"{len(players)} players stand in it, and must be 1")
    walls, goals, boxes = (_cells(text, kind) for kind in (WALL, ".*+", "$*"))
    if goals.bit_count() != boxes.bit_count() or not boxes:
        raise _problem(rows, f"it has {boxes.bit_count()} boxes and {goals.bit_count()} goals")
    if goals == boxes:
        raise _problem(rows, "all its boxes are on goals")
    inside = _inside(walls, players[0], len(rows), columns)
    if not inside:
        raise _problem(rows, "its walls have a gap")
    if (goals | boxes) & ~inside:
        raise _problem(rows, "a box or a goal lies where the player cannot walk to")
    room = Room(len(rows), columns, ((1 << len(text)) - 1) ^ inside, goals, boxes, players[0])
    if not any(moved(room, room.player, boxes, delta) for delta in room.deltas):
        raise _problem(rows, "the player cannot move")
    return room


def parse_level(text: str) -> Room:
    """The room of one line of run-length encoded XSB.

    >>> parse_level("5#|#@$.#|5#") == from_board(["#####", "#@$.#", "#####"])
    True
    """
    runs = _RUN.findall(text)
    if not runs or "".join(num + symbol for num, symbol in runs) != text or len(text) > MOST_ROWS**2:
        raise ConfigError(f"{text[:60]!r} is no room; write its rows as in 5#|#@$.#|5# or 5#|#@-$.#|5#")
    if any(num and int(num) > MOST_ROWS for num, _ in runs):
        raise ConfigError(f"{text[:60]!r} is no room: a row has at most {MOST_ROWS} squares")
    return from_board("".join(int(num or 1) * symbol for num, symbol in runs).split("|"))


def read_rooms(path: Path) -> tuple[Room, ...]:
    """The rooms of an .xsb or Boxoban file: rows of XSB, with other lines or empty ones between rooms."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"the rooms of {str(path)!r} cannot be read: {why}") from None
    rooms: list[Room] = []
    for is_room, rows in groupby((line.rstrip() for line in lines), lambda line: bool(_ROW.fullmatch(line))):
        if is_room:
            try:
                rooms.append(from_board(list(rows)))
            except ConfigError as error:
                raise ConfigError(f"room {len(rooms) + 1} of {str(path)!r}: {error}") from None
    if not rooms:
        raise ConfigError(f"{str(path)!r} has no room; one is rows of {' '.join(SYMBOLS)} and spaces")
    return tuple(rooms)


def _cells(text: str, symbols: str) -> int:
    return sum(1 << square for square, symbol in enumerate(text) if symbol in symbols)


def _inside(walls: int, player: int, rows: int, columns: int) -> int:
    """The squares that can be walked to; none where they reach an edge."""
    found, frontier = 0, [player]
    while frontier:
        square = frontier.pop()
        row, column = divmod(square, columns)
        if not (0 < row < rows - 1 and 0 < column < columns - 1):
            return 0
        found |= 1 << square
        frontier += [
            to for to in (square - columns, square + columns, square - 1, square + 1) if not (walls | found) >> to & 1
        ]
    return found


def _problem(rows: Sequence[str], why: str) -> ConfigError:
    return ConfigError(f"the room {'|'.join(rows)[:60]!r} cannot be played: {why}")
