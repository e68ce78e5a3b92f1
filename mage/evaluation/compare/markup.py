"""Tables with marked values as terminal output, Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mage.evaluation.compare.significance import Mark
from mage.evaluation.suite.report_tables import interval
from mage.runs.drawings import shown
from mage.stats import Estimate

_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~#])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "–": "--",
}
_SIGNS = {Mark.NONE: "", Mark.BEST: "*", Mark.TIED: "="}
_GAP = 2


class Cell(msgspec.Struct, frozen=True):
    """The text of a cell, and its mark in its column."""

    text: str = ""
    mark: Mark = Mark.NONE


class MarkedTable(msgspec.Struct, frozen=True):
    """A table with a title, column names, and rows that begin with a name."""

    name: str
    """For labels in LaTeX."""
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    num_references: int = 0
    """Number of rows at the end that are references, not methods."""


def terminal_tables(table: MarkedTable, width: int) -> RenderableType:
    """Tables of as many columns as fit the width, each with the row names."""
    parts: list[RenderableType] = [shown(table.title, "bold")]
    widths = [_GAP + max(len(_signed(row[k])) for row in (_head(table), *table.rows)) for k in range(len(table.head))]
    start = 1
    while start < len(table.head):
        stop, used = start, widths[0]
        while stop < len(table.head) and (stop == start or used + widths[stop] <= width):
            used += widths[stop]
            stop += 1
        parts.append(_part(table, (0, *range(start, stop))))
        start = stop
    return Group(*parts)


def markdown(table: MarkedTable) -> str:
    """A heading and a table; the best value of a column is bold, tied ones have an equals sign."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    wrap = {Mark.NONE: "{}", Mark.BEST: "**{}**", Mark.TIED: "{} ="}
    lines = [f"## {escape_markdown(table.title)}", "", line([escape_markdown(name) for name in table.head])]
    lines.append(line(["---", *("---:" for _ in table.head[1:])]))
    lines += [line([wrap[cell.mark].format(escape_markdown(cell.text)) for cell in row]) for row in table.rows]
    return "\n".join(lines) + "\n"


def latex(table: MarkedTable) -> str:
    """A table for the package booktabs; the best value of a column is bold, tied ones have an equals sign."""

    def line(cells: Sequence[str]) -> str:
        return f"{' & '.join(cells)} \\\\"

    wrap = {Mark.NONE: "%s", Mark.BEST: r"\textbf{%s}", Mark.TIED: r"%s$^{=}$"}
    rows = [line([wrap[cell.mark] % escape_latex(cell.text) for cell in row]) for row in table.rows]
    if table.num_references:
        rows.insert(len(rows) - table.num_references, r"\midrule")
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(table.title)}}}",
            rf"\label{{tab:{re.sub(r'[^A-Za-z0-9-]+', '-', table.name)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
            r"\toprule",
            line([escape_latex(name) for name in table.head]),
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def escape_latex(text: str) -> str:
    """Text escaped for LaTeX; a hyphen before a number becomes a minus.

    >>> escape_latex("50_% of {a&b} ±1, -0.5")
    '50\\\\_\\\\% of \\\\{a\\\\&b\\\\} $\\\\pm$1, $-$0.5'
    """
    plain = "".join(_LATEX.get(char, char) for char in " ".join(text.split()))
    return re.sub(r"(?<![\w)])-(?=\d)", "$-$", plain)


def metric_cell(estimate: Estimate | None, mark: Mark = Mark.NONE) -> Cell:
    """A cell with a value and its interval, or a dash."""
    return Cell(interval(estimate), mark)


def amount(value: float) -> str:
    """A large number with three digits.

    >>> amount(950), amount(12_345), amount(1_234_567), amount(2.5), amount(0.0421)
    ('950', '12.3k', '1.23M', '2.50', '0.0421')
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{_three(value / size)}{unit}"
    return _three(value)


def _three(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}" if value else "0"


def _part(table: MarkedTable, columns: Sequence[int]) -> Table:
    part = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for place in columns:
        part.add_column(shown(table.head[place]), justify="right" if place else "left", no_wrap=True)
    first_reference = len(table.rows) - table.num_references
    for number, row in enumerate(table.rows):
        cells = [shown(_signed(row[k]), "bold" if row[k].mark is Mark.BEST else "") for k in columns]
        part.add_row(*cells, style="dim" if number >= first_reference else "")
    return part


def _signed(cell: Cell) -> str:
    """The text with the sign of its mark; values with intervals are padded so that they align."""
    return cell.text + (_SIGNS[cell.mark] or (" " if "±" in cell.text else ""))


def _head(table: MarkedTable) -> tuple[Cell, ...]:
    return tuple(Cell(name) for name in table.head)


def escape_markdown(text: str) -> str:
    """Text escaped for Markdown.

    >>> escape_markdown("a|b *c*")
    'a\\\\|b \\\\*c\\\\*'
    """
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def note(text: str) -> Text:
    """Text below tables."""
    return shown(text, "italic dim")
