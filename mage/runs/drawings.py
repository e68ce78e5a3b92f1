"""Terminal drawings of observations and results, made from structured facts; text is never parsed.

Games without an entry in `DRAWINGS` show their text and their facts as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.runs.shop_drawing import ShopDrawing
from mage.runs.wording import revealed_facts
from mage.spec import Spec, call_with, parse_spec
from mage.types import Episode, Observation
from mage.worlds.minesweeper.board import read_board
from mage.worlds.minesweeper.board_words import HIDDEN, MINE
from mage.worlds.openspiel.openings import without_opening
from mage.worlds.openspiel.words.kuhn import KuhnWords
from mage.worlds.openspiel.words.tictactoe import TicTacToeWords

_SUCH = "lluu"
"""Initials of moves, as an example."""
_NUMBER_STYLES = ("white", "blue", "green", "red", "magenta", "yellow", "cyan")
SEAT_STYLES = ("cyan", "magenta", "yellow", "green", "blue", "red")


class Drawing(Protocol):
    """How a game is drawn."""

    def private(self, observation: Observation) -> str:
        """The seat's private information as text; empty where nothing is hidden."""

    def position(self, observation: Observation) -> RenderableType | None:
        """The board as the seat sees it, or None where the text is enough."""

    def revealed(self, episode: Episode) -> RenderableType:
        """The full result of a finished episode, hidden information included."""

    def menu(self, observation: Observation) -> str:
        """What a person is told instead of the list of actions, where the board shows them; else empty."""


def drawing_of(game: str) -> Drawing:
    """The drawing of a game spec."""
    spec = without_opening(parse_spec(game))
    return DRAWINGS[spec.name](spec) if spec.name in DRAWINGS else FactsDrawing()


def shown(text: str, style: str = "") -> Text:
    """Untrusted text, safe to print: no markup, and control characters escaped.

    >>> shown("[red]\\x1b[2J").plain
    '[red]\\\\x1b[2J'
    """
    result = Text(style=style)
    for char in text.expandtabs(4):
        if char == "\n" or char.isprintable():
            result.append(char)
        else:
            result.append(char.encode("unicode_escape").decode(), "reverse")
    return result


def seat_style(seat: int) -> str:
    """The colour of a seat."""
    return SEAT_STYLES[seat % len(SEAT_STYLES)]


class _WithList:
    """A drawing beside which the actions are listed."""

    def menu(self, observation: Observation) -> str:
        return ""


class FactsDrawing(_WithList):
    """For any game: facts as `name: value`; what is hidden is told in the words of the trial."""

    def private(self, observation: Observation) -> str:
        return ""

    def position(self, observation: Observation) -> RenderableType | None:
        return None

    def revealed(self, episode: Episode) -> RenderableType:
        return Group(*(self._fact(name, value) for name, value in revealed_facts(episode.result.facts).items()))

    def _fact(self, name: str, value: object) -> Text:
        text = str(value)
        return shown(f"{name}:\n{text}" if "\n" in text else f"{name}: {text}")


class TicTacToeDrawing(_WithList):
    """The board; free cells show their actions."""

    def __init__(self, words: TicTacToeWords) -> None:
        self._words = words
        self._width = max(map(len, words.cells))

    def private(self, observation: Observation) -> str:
        return ""

    def position(self, observation: Observation) -> RenderableType | None:
        return self._board(observation.facts["board"])

    def revealed(self, episode: Episode) -> RenderableType:
        return self._board(episode.result.facts["board"])

    def _board(self, rows: Any) -> Text:
        board = Text(no_wrap=True)
        for row, cells in enumerate(rows):
            if row:
                board.append("\n" + "┼".join(["─" * (self._width + 2)] * 3) + "\n", "dim")
            for column, mark in enumerate(cells):
                if column:
                    board.append("│", "dim")
                board.append(f" {self._cell(mark, 3 * row + column):{self._width}} ", self._style(mark))
        return board

    def _cell(self, mark: str | None, cell: int) -> str:
        return self._words.cells[cell] if mark is None else self._words.marks[mark == "o"]

    def _style(self, mark: str | None) -> str:
        return "dim" if mark is None else f"bold {seat_style(int(mark == 'o'))}"


class KuhnDrawing(_WithList):
    """Cards by name, in the game's own words."""

    def __init__(self, words: KuhnWords) -> None:
        self._words = words

    def private(self, observation: Observation) -> str:
        card = observation.facts["card"]
        return f"{self._words.card} {self._words.cards[card]}" if isinstance(card, int) else ""

    def position(self, observation: Observation) -> RenderableType | None:
        return None

    def revealed(self, episode: Episode) -> RenderableType:
        facts: Mapping[str, Any] = episode.result.facts
        words, num_seats = self._words, self._words.num_seats
        held = Text(", ").join(_seat_says(s, words.cards[c]) for s, c in enumerate(facts["cards"]))
        acts = [_seat_says(i % num_seats, words.moves[a]) for i, a in enumerate(facts["betting"])]
        return Group(
            Text.assemble(f"{words.card}s: ", held),
            Text.assemble("play: ", Text(", ").join(acts)) if acts else Text("play: no moves"),
        )


class SokobanDrawing:
    """The room in colour. In other words than usual its text is shown: a picture would give the world away."""

    _LOOKS: ClassVar[Mapping[str, tuple[str, str]]] = {
        "#": ("██", "bright_black"),
        "-": ("  ", ""),
        ".": ("()", "yellow"),
        "$": ("[]", "bold red"),
        "*": ("■■", "bold green"),
        "@": ("@@", "bold cyan"),
        "+": ("@)", "bold cyan"),
    }
    """By symbol the text of a square and its style."""

    def __init__(self, is_reworded: bool) -> None:
        self._is_reworded = is_reworded

    def private(self, observation: Observation) -> str:
        return ""

    def position(self, observation: Observation) -> RenderableType | None:
        if self._is_reworded:
            return None
        shown_here = ("@@ you  ", self._LOOKS["@"][1]), ("[] box  ", self._LOOKS["$"][1]), ("() goal  ", "yellow")
        legend = Text.assemble(*shown_here, ("■■ box on a goal", self._LOOKS["*"][1]))
        left = f"Turns left: {observation.facts['turns_left']}"
        return Group(self._board(observation.facts["board"]), legend, Text(left, "bold"))

    def revealed(self, episode: Episode) -> RenderableType:
        return self._board(episode.result.facts["board"])

    def menu(self, observation: Observation) -> str:
        if self._is_reworded:
            return ""
        most = max(len(action.split()) for action in observation.actions)
        moves = "moves that are possible (up, down, left, right)"
        return f"Type up to {most} {moves}, or their initials, such as {_SUCH[:most]}."

    def _board(self, rows: Any) -> Text:
        lines = (Text.assemble(*(self._LOOKS[symbol] for symbol in row)) for row in rows)
        return Text("\n", no_wrap=True).join(lines)


class RoundsDrawing(_WithList):
    """The rounds of a repeated matrix game, in the words of the observations."""

    def private(self, observation: Observation) -> str:
        return ""

    def position(self, observation: Observation) -> RenderableType | None:
        return None

    def revealed(self, episode: Episode) -> RenderableType:
        names = {(t.observation.seat, i): a for t in episode.turns for i, a in _worded(t.observation)}
        rounds: Any = episode.result.facts["rounds"]
        table = Table.grid(padding=(0, 2))
        for number, moves in enumerate(rounds):
            cells = [_seat_says(s, names.get((s, m), str(m))) for s, m in enumerate(moves)]
            table.add_row(Text(f"round {number + 1}", "dim"), *cells)
        return table if rounds else Text("no round was finished", "dim")


class MineSweeperDrawing:
    """The board with a letter for each column and a number for each row; at the end with all mines."""

    def private(self, observation: Observation) -> str:
        return ""

    def position(self, observation: Observation) -> RenderableType | None:
        left = observation.facts["turns_left"]
        return Group(self._board(observation.facts["board"]), Text(f"turns left: {left}", "dim"))

    def revealed(self, episode: Episode) -> RenderableType:
        facts = episode.result.facts
        return self._board(facts["board"], read_board(str(facts["hidden"])).mines)

    def menu(self, observation: Observation) -> str:
        first, *_, last = observation.actions
        is_cell = last[-1].isdigit()
        return f"Open a cell: type its name, such as {first}." + ("" if is_cell else f" Or {last}.")

    def _board(self, rows: Any, mines: int = 0) -> Text:
        edge = len(str(len(rows)))
        board = Text(" " * edge, no_wrap=True)
        board.append("".join(f" {chr(ord('a') + column)}" for column in range(len(rows[0]))), "dim")
        for row, cells in enumerate(rows):
            board.append(f"\n{row + 1:>{edge}}", "dim")
            for column, cell in enumerate(cells):
                is_mine = mines >> (row * len(cells) + column) & 1
                board.append(" ").append(*self._cell(cell, bool(is_mine)))
        return board

    def _cell(self, cell: int | str | None, is_mine: bool) -> tuple[str, str]:
        """A sign and its style."""
        if cell is None:
            return (MINE, "red") if is_mine else (HIDDEN, "dim")
        if cell == MINE:
            return MINE, "bold red"
        return (" ", "") if cell == 0 else (str(cell), f"bold {_NUMBER_STYLES[int(cell) % len(_NUMBER_STYLES)]}")


class HouseDrawing(_WithList):
    """What was told, and below it the task, what is carried, and what is known to lie where."""

    def private(self, observation: Observation) -> str:
        return ""

    def position(self, observation: Observation) -> RenderableType | None:
        facts: Mapping[str, Any] = observation.facts
        if "places" not in facts:
            return None  # played by the package, which has no facts
        where = f"At {facts['at']}" if facts["at"] else "In the middle of the room"
        states = [state for name, state in facts["states"] if name == facts["holding"]]
        carried = " ".join([*states, facts["holding"]]) or "nothing"
        state = shown(f"{where}, carrying {carried}. Turns left: {facts['turns_left']}.", "cyan")
        told = [shown(observation.text), Text()]
        if observation.turn:
            told.append(shown(f"Task: {facts['task']}", "bold"))
        return Group(*told, state, *self._known(facts["places"]))

    def revealed(self, episode: Episode) -> RenderableType:
        facts: Mapping[str, Any] = episode.result.facts
        return Group(shown(f"Task: {facts['task']}", "bold"), *self._known(facts["places"]))

    def _known(self, places: Any) -> Sequence[RenderableType]:
        """The receptacles whose contents were seen."""
        seen = [shown(f"{name}: {inside or 'nothing'}", "dim") for name, _, inside in places if inside is not None]
        return [Text("Seen in this episode:", "dim"), Columns(seen, padding=(0, 3))] if seen else []


def _worded(observation: Observation) -> Sequence[tuple[int, str]]:
    return list(zip(observation.ids, observation.actions, strict=True))


def _seat_says(seat: int, what: str) -> Text:
    return shown(f"seat {seat} {what}", seat_style(seat))


def _kuhn(spec: Spec) -> Drawing:
    def drawing(players: int = 2, reworded: int | None = None) -> Drawing:
        return KuhnDrawing(KuhnWords(players, reworded))

    result: Drawing = call_with("world", spec, drawing)
    return result


def _tic_tac_toe(spec: Spec) -> Drawing:
    def drawing(reworded: int | None = None) -> Drawing:
        return TicTacToeDrawing(TicTacToeWords(reworded))

    result: Drawing = call_with("world", spec, drawing)
    return result


def _sokoban(spec: Spec) -> Drawing:
    return SokobanDrawing("reworded" in spec.named)


def _webshop(spec: Spec) -> Drawing:
    return ShopDrawing("reworded" in spec.named)


def _rounds(spec: Spec) -> Drawing:
    return RoundsDrawing()


def _alfworld(spec: Spec) -> Drawing:
    return HouseDrawing()


def _minesweeper(spec: Spec) -> Drawing:
    return MineSweeperDrawing()


DRAWINGS: Mapping[str, Callable[[Spec], Drawing]] = {
    "alfworld": _alfworld,
    "kuhn_poker": _kuhn,
    "matrix": _rounds,
    "minesweeper": _minesweeper,
    "pd": _rounds,
    "pennies": _rounds,
    "rps": _rounds,
    "sokoban": _sokoban,
    "tic_tac_toe": _tic_tac_toe,
    "webshop": _webshop,
}
