"""What open cells say about closed ones: the exact probability of a mine, and all boards that are possible.

Closed cells that the same numbers speak of are one group; groups that share a number are solved together, by trying
how many mines each has. Counts are whole numbers, so that a cell is certain exactly where its probability is 0 or 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

from mage.errors import PlayError
from mage.worlds.masks import cells_in
from mage.worlds.minesweeper.board import Grid


class Known(NamedTuple):
    """What is known about a board."""

    numbers: Mapping[int, int]
    """By open cell, how many of its neighbours are mines."""
    mines: int = 0
    """Cells that are mines."""


class _Clue(NamedTuple):
    """A number of mines among some closed cells."""

    cells: int
    num: int


class _Part(NamedTuple):
    """Groups of cells that share clues, with every way in which mines can be among them."""

    groups: tuple[int, ...]
    ways: tuple[tuple[int, ...], ...]
    """By way, how many mines each group has."""


class _Counts(NamedTuple):
    """How many boards there are by their number of mines in some groups, and in how many a group has mines."""

    boards: Mapping[int, int]
    mines: Mapping[int, Mapping[int, int]]
    """By group and number of mines, the mines of the group summed over the boards."""


def mine_odds(grid: Grid, num_mines: int, known: Known) -> list[float]:
    """By cell the probability that it is a mine; open cells have 0."""
    parts, rest, left = _parts(grid, num_mines, known)
    total = _Counts({0: 1}, {})
    for part in parts:
        total = _joined(total, _counts(part))
    rest_size = rest.bit_count()
    boards = {num: many * comb(rest_size, left - num) for num, many in total.boards.items() if num <= left}
    num_boards = sum(boards.values())
    if not num_boards:
        raise PlayError("no board fits what is known")
    odds = [0.0] * grid.num_cells
    for cell in cells_in(known.mines):
        odds[cell] = 1.0
    for group, by_num in total.mines.items():
        share = sum(mines * comb(rest_size, left - num) for num, mines in by_num.items() if num <= left)
        for cell in cells_in(group):
            odds[cell] = share / (num_boards * group.bit_count())
    if rest_size:
        share = sum(many * (left - num) for num, many in boards.items())
        for cell in cells_in(rest):
            odds[cell] = share / (num_boards * rest_size)
    return odds


def possible_mines(grid: Grid, num_mines: int, known: Known, most: int) -> list[int] | None:
    """The masks of mines of all boards that fit what is known; None where there are more than `most`."""
    parts, rest, left = _parts(grid, num_mines, known)
    found: list[int] = []
    for mines in _placed(parts, known.mines):
        free = left + known.mines.bit_count() - mines.bit_count()
        if free < 0 or free > rest.bit_count():
            continue
        if len(found) + comb(rest.bit_count(), free) > most:
            return None
        found += [mines | sum(1 << cell for cell in chosen) for chosen in combinations(list(cells_in(rest)), free)]
    return found


def _parts(grid: Grid, num_mines: int, known: Known) -> tuple[list[_Part], int, int]:
    """The parts, the closed cells that no number speaks of, and how many mines are not known."""
    open_cells = sum(1 << cell for cell in known.numbers)
    closed = ((1 << grid.num_cells) - 1) & ~open_cells & ~known.mines
    clues = [
        _Clue(grid.around[cell] & closed, number - (grid.around[cell] & known.mines).bit_count())
        for cell, number in known.numbers.items()
    ]
    clues = list(dict.fromkeys(clue for clue in clues if clue.cells))
    spoken_of = 0
    for clue in clues:
        spoken_of |= clue.cells
    return (
        [_solved(part) for part in _connected(clues)],
        closed & ~spoken_of,
        num_mines - known.mines.bit_count(),
    )


def _connected(clues: Sequence[_Clue]) -> list[list[_Clue]]:
    """The clues in parts that share no cell."""
    parts: list[tuple[int, list[_Clue]]] = []
    for clue in clues:
        near = [part for part in parts if part[0] & clue.cells]
        cells, together = clue.cells, [clue]
        for part in near:
            cells |= part[0]
            together += part[1]
        parts = [part for part in parts if part not in near] + [(cells, together)]
    return [together for _, together in parts]


def _solved(clues: Sequence[_Clue]) -> _Part:
    by_clues: dict[tuple[int, ...], int] = {}
    for cell in cells_in(_union(clues)):
        of = tuple(number for number, clue in enumerate(clues) if clue.cells >> cell & 1)
        by_clues[of] = by_clues.get(of, 0) | 1 << cell
    groups = tuple(by_clues.values())
    left = [clue.num for clue in clues]
    room = [clue.cells.bit_count() for clue in clues]
    return _Part(groups, tuple(_ways(groups, list(by_clues), left, room, ())))


def _ways(
    groups: Sequence[int], of: Sequence[tuple[int, ...]], left: list[int], room: list[int], chosen: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """All numbers of mines for the groups that are not chosen yet: no clue has too few or too many."""
    place = len(chosen)
    if place == len(groups):
        yield chosen
        return
    size, clues = groups[place].bit_count(), of[place]
    most = min([size, *(left[clue] for clue in clues)])
    least = max([0, *(left[clue] - (room[clue] - size) for clue in clues)])
    for num in range(least, most + 1):
        for clue in clues:
            left[clue] -= num
            room[clue] -= size
        yield from _ways(groups, of, left, room, (*chosen, num))
        for clue in clues:
            left[clue] += num
            room[clue] += size


def _counts(part: _Part) -> _Counts:
    boards: dict[int, int] = {}
    mines: dict[int, dict[int, int]] = {group: {} for group in part.groups}
    for way in part.ways:
        num, many = sum(way), 1
        for group, in_group in zip(part.groups, way, strict=True):
            many *= comb(group.bit_count(), in_group)
        boards[num] = boards.get(num, 0) + many
        for group, in_group in zip(part.groups, way, strict=True):
            mines[group][num] = mines[group].get(num, 0) + many * in_group
    return _Counts(boards, mines)


def _joined(one: _Counts, other: _Counts) -> _Counts:
    """The counts of two parts together."""
    return _Counts(
        _product(one.boards, other.boards),
        {
            **{group: _product(mines, other.boards) for group, mines in one.mines.items()},
            **{group: _product(mines, one.boards) for group, mines in other.mines.items()},
        },
    )


def _product(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for a, x in one.items():
        for b, y in other.items():
            found[a + b] = found.get(a + b, 0) + x * y
    return found


def _placed(parts: Sequence[_Part], mines: int) -> Iterator[int]:
    """Every set of mines in the groups of these parts, beside those that are known."""
    if not parts:
        yield mines
        return
    for way in parts[0].ways:
        for placed in _in_groups(parts[0].groups, way, mines):
            yield from _placed(parts[1:], placed)


def _in_groups(groups: Sequence[int], way: Sequence[int], mines: int) -> Iterator[int]:
    if not groups:
        yield mines
        return
    for chosen in combinations(list(cells_in(groups[0])), way[0]):
        yield from _in_groups(groups[1:], way[1:], mines | sum(1 << cell for cell in chosen))


def _union(clues: Sequence[_Clue]) -> int:
    cells = 0
    for clue in clues:
        cells |= clue.cells
    return cells
