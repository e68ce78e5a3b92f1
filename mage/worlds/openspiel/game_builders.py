"""The games with their own words: functions that build the OpenSpiel game, its words and the scale of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyspiel

from mage.errors import ConfigError
from mage.spec import show, whole
from mage.worlds.openspiel.words.base import Words
from mage.worlds.openspiel.words.kuhn import MAX_SEATS, KuhnWords
from mage.worlds.openspiel.words.matrix import Matrix, MatrixWords
from mage.worlds.openspiel.words.tictactoe import TicTacToeWords

MAX_ROUNDS = 1000
"""Most rounds in an episode; an agent must be able to remember them."""

Built = tuple[Any, Words, float]
"""An OpenSpiel game, its words, and the divisor from returns to scores."""


def rps(rounds: int = 3, reworded: int | None = None) -> Built:
    """Rock-paper-scissors, repeated; the score is the mean over the rounds."""
    wins = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
    return _repeated("rock-paper-scissors", ["rock", "paper", "scissors"], wins, None, rounds, reworded)


def pd(rounds: int = 5, reworded: int | None = None) -> Built:
    """The prisoner's dilemma, repeated: 3 each for cooperating, 5 and 0 for betrayal, 1 each for both.

    An episode is a success for a seat that scores what cooperation of both pays, or more.
    """
    points = [[3, 0], [5, 1]]
    columns = [[3, 5], [0, 1]]
    return _repeated("the prisoner's dilemma", ["cooperate", "defect"], points, columns, rounds, reworded, 3.0)


def pennies(rounds: int = 3, reworded: int | None = None) -> Built:
    """Matching pennies, repeated: the first seat wants the coins to match, the second to differ."""
    return _repeated("matching pennies", ["heads", "tails"], [[1, -1], [-1, 1]], None, rounds, reworded)


def matrix(
    payoffs: Any,
    moves: Any = None,
    columns: Any = None,
    name: Any = "a matrix game",
    rounds: int = 3,
    reworded: int | None = None,
) -> Built:
    """Any square matrix: what the first seat gets; what the second gets is `columns`, or the negative."""
    rows = _square("payoffs", payoffs, None)
    size = len(rows)
    names = tuple(f"move{i + 1}" for i in range(size)) if moves is None else moves
    if not isinstance(names, tuple) or len(names) != size:
        raise ConfigError(f"moves of a matrix game of size {size} must be a list of {size}, not {show(names)}")
    words = [_word("a move", move) for move in names]
    if len({word.casefold() for word in words}) < size:
        raise ConfigError(f"moves of a matrix game must be different, not {show(names)}")
    return _repeated(
        _word("name", name),
        words,
        rows,
        None if columns is None else _square("columns", columns, size),
        rounds,
        reworded,
    )


def kuhn_poker(players: int = 2, reworded: int | None = None) -> Built:
    """Kuhn poker; the score is chips."""
    whole("players", players, 2, MAX_SEATS)
    return pyspiel.load_game("kuhn_poker", {"players": players}), KuhnWords(players, reworded), 1.0


def tic_tac_toe(reworded: int | None = None) -> Built:
    """Tic-tac-toe; a win is 1, a loss -1."""
    return pyspiel.load_game("tic_tac_toe"), TicTacToeWords(reworded), 1.0


GAMES: Mapping[str, Callable[..., Built]] = {
    "kuhn_poker": kuhn_poker,
    "matrix": matrix,
    "pd": pd,
    "pennies": pennies,
    "rps": rps,
    "tic_tac_toe": tic_tac_toe,
}


def _repeated(
    name: str,
    moves: Sequence[str],
    payoffs: Matrix,
    columns: Matrix | None,
    rounds: int,
    reworded: int | None,
    success_score: float | None = None,
) -> Built:
    whole("rounds", rounds, 1, MAX_ROUNDS)
    rows = [[float(value) for value in row] for row in payoffs]
    cols = [[-value for value in row] for row in rows]
    if columns is not None:
        cols = [[float(value) for value in row] for row in columns]
    numbers = [str(i) for i in range(len(rows))]  # OpenSpiel's names of the moves, so keys do not depend on ours
    stage = pyspiel.create_matrix_game("matrix", name, numbers, numbers, rows, cols)
    game = pyspiel.create_repeated_game(stage, {"num_repetitions": rounds, "enable_infostate": True})
    transposed = [list(column) for column in zip(*cols, strict=True)]
    words = MatrixWords(name, moves, (rows, transposed), rounds, reworded, success_score)
    return game, words, float(rounds)


def _square(label: str, table: Any, size: int | None) -> Matrix:
    """A square table of numbers, of the given size or of any from 2."""
    rows = table if isinstance(table, tuple) else ()
    wanted = len(rows) if size is None else size
    is_square = len(rows) == wanted > 1 and all(isinstance(row, tuple) and len(row) == wanted for row in rows)
    if not is_square or any(type(value) not in (int, float) for row in rows for value in row):
        sides = "2 or more" if size is None else f"{size}"
        raise ConfigError(f"{label} of a matrix game must be a square of numbers, {sides} a side, not {show(table)}")
    return rows


def _word(label: str, value: Any) -> str:
    """A non-empty text on one line."""
    text = " ".join(str(value).split())
    if isinstance(value, bool | float | tuple) or not text:
        raise ConfigError(f"{label} of a matrix game must be a word, not {show(value)}")
    return text
