"""Which games have words of their own, and how a spec becomes an OpenSpiel game with words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyspiel

from mage.errors import ConfigError
from mage.games.words.base import Words
from mage.games.words.kuhn import KuhnWords
from mage.games.words.matrix import MatrixWords
from mage.games.words.tictactoe import TicTacToeWords

Built = tuple[Any, Words, float]
"""An OpenSpiel game, its words, and what its returns are divided by to give scores."""


def rps(rounds: int = 3, reworded: int | None = None) -> Built:
    """Rock-paper-scissors, repeated; the score is the mean over the rounds."""
    wins = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
    return _repeated("rock-paper-scissors", ["rock", "paper", "scissors"], wins, None, rounds, reworded)


def pd(rounds: int = 5, reworded: int | None = None) -> Built:
    """The prisoner's dilemma, repeated: 3 each for cooperating, 5 and 0 for betrayal, 1 each for both."""
    points = [[3, 0], [5, 1]]
    columns = [[3, 5], [0, 1]]
    return _repeated("the prisoner's dilemma", ["cooperate", "defect"], points, columns, rounds, reworded)


def pennies(rounds: int = 3, reworded: int | None = None) -> Built:
    """Matching pennies, repeated: the first seat wants the coins to match, the second to differ."""
    return _repeated("matching pennies", ["heads", "tails"], [[1, -1], [-1, 1]], None, rounds, reworded)


def matrix(
    payoffs: Sequence[Sequence[float]],
    moves: Sequence[object] | None = None,
    columns: Sequence[Sequence[float]] | None = None,
    name: object = "a matrix game",
    rounds: int = 3,
    reworded: int | None = None,
) -> Built:
    """Any square matrix: what the first seat gets; what the second gets is `columns`, or the negative."""
    size = len(payoffs) if isinstance(payoffs, tuple) else 0
    names = [str(m) for m in moves] if isinstance(moves, tuple) else [f"move{i + 1}" for i in range(size)]
    for label, table in (("payoffs", payoffs), ("columns", columns)):
        square = isinstance(table, tuple) and len(table) == size > 1
        if table is not None and not (square and all(isinstance(r, tuple) and len(r) == size for r in table)):
            raise ConfigError(f"{label} of a matrix game must be a square of numbers, 2x2 or larger, not {table}")
    if len(set(names)) != size:
        raise ConfigError(f"a matrix game of size {size} needs {size} different moves, not {names}")
    return _repeated(str(name), names, payoffs, columns, rounds, reworded)


def kuhn_poker(players: int = 2, reworded: int | None = None) -> Built:
    """Kuhn poker; the score is chips."""
    if not isinstance(players, int) or not 2 <= players <= 10:
        raise ConfigError(f"kuhn_poker takes 2 to 10 players, not {players}")
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
    payoffs: Sequence[Sequence[float]],
    columns: Sequence[Sequence[float]] | None,
    rounds: int,
    reworded: int | None,
) -> Built:
    if not isinstance(rounds, int) or rounds < 1:
        raise ConfigError(f"rounds must be a whole number from 1, not {rounds}")
    rows = [[float(v) for v in row] for row in payoffs]
    cols = [[-v for v in row] for row in rows] if columns is None else [[float(v) for v in row] for row in columns]
    stage = pyspiel.create_matrix_game("matrix", name, list(moves), list(moves), rows, cols)
    game = pyspiel.create_repeated_game(stage, {"num_repetitions": rounds, "enable_infostate": True})
    transposed = [[cols[i][j] for i in range(len(rows))] for j in range(len(rows))]
    words = MatrixWords(name, (moves, moves), (rows, transposed), rounds, reworded)
    return game, words, float(rounds)
