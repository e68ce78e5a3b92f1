"""Plots of a comparison: scores by episode, learning curves, exploitation by opponent, pay-off matrices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, NamedTuple

from mage.evaluation.compare.comparison import Comparison, MethodRow, SplitTable
from mage.evaluation.compare.cost import TRAINING, WINDOW, Point
from mage.plot_style import (
    BOUND,
    COLOURS,
    GREY,
    LIMIT,
    MYOPIC,
    Line,
    check_matplotlib,
    line_figure,
    new_figure,
    style_context,
)
from mage.stats import ROUNDING, Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mage.evaluation.crossplay import CrossPlayReport

DPI = 200
MOST_ROWS = 30
"""Most opponents in a heat map; more, or longer names, are shown as a distribution."""
MOST_LETTERS = 26
"""Longest opponent name in a heat map."""
WIDEST = 0.25
"""How far intervals may extend the y-range, as a share: those over three seeds can be huge."""
MOST_NUMBERS = 90
"""Most cells of a heat map with printed values."""


class Axis(NamedTuple):
    """The x-axis of learning curves."""

    name: str
    label: str
    of: Callable[[Point], float]


AXES = (
    Axis("steps", "steps", lambda point: float(point.step)),
    Axis("tokens", "tokens played in training", lambda point: point.tokens),
    Axis("seconds", "seconds of training", lambda point: point.seconds),
)


def write_figures(
    comparison: Comparison, crossplays: Sequence[CrossPlayReport], folder: Path, command: str
) -> list[Path]:
    """Write all figures as PNG and SVG, with the command and without a date in their metadata."""
    check_matplotlib()
    written: list[Path] = []
    with style_context():
        for name, figure in comparison_figures(comparison, crossplays):
            for ending, extra in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": "mage"})):
                path = folder / f"{name}.{ending}"
                figure.savefig(path, dpi=DPI, metadata={"Description": command, **extra})
                written.append(path)
    return written


def comparison_figures(
    comparison: Comparison, crossplays: Sequence[CrossPlayReport] = ()
) -> Iterator[tuple[str, Figure]]:
    """All figures, each with a name for its file."""
    for table in comparison.tables:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", table.name)
        yield f"episodes-{name}", episodes_figure(table)
        for axis in AXES:
            if lines := evaluated_lines(comparison, table, axis):
                title = f"{table.name}: last episode while training"
                yield f"learning-{name}-{axis.name}", learning_figure(lines, title, axis, _bounds(table))
        if _exploitable(table):
            yield f"exploitation-{name}", exploitation_figure(table)
    for number, (pool, episodes) in enumerate(_training_pools(comparison), start=1):
        for axis in AXES:
            if lines := training_lines(comparison, pool, episodes, axis):
                title = f"{shorten(pool, 60, placeholder=' …')}\nlast episode in training, mean of {WINDOW} steps"
                yield f"training-{number}-{axis.name}", learning_figure(lines, title, axis, {})
    for number, report in enumerate(crossplays, start=1):
        yield f"payoffs-{number}", payoff_figure(report)


def episodes_figure(table: SplitTable) -> Figure:
    """Score by episode with intervals, memory off dashed, references as horizontal lines.

    Two seeds show their range, because their interval would be too wide to be useful.
    """
    from matplotlib.ticker import MaxNLocator

    lines = [_by_episode(row) for row in table.rows]
    of_two = ", of two seeds their range" if any(len(row.seeds) == 2 for row in table.rows) else ""
    labels = (f"episode\n(bands: 95 % intervals{of_two})", "score")
    figure = line_figure(lines, table.name, labels, _bounds(table), dashed="memory off", widest=WIDEST)
    for panel in figure.axes:
        panel.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    return figure


def learning_figure(lines: Sequence[Line], title: str, axis: Axis, bounds: Mapping[str, float]) -> Figure:
    """Score of the last episode against training cost."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    has_bands = any(line.low != line.high for line in lines)
    label = f"{axis.label}\n(bands: lowest to highest seed)" if has_bands else axis.label
    figure = line_figure(lines, title, (label, "score"), bounds)
    for panel in figure.axes:
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        panel.xaxis.set_major_locator(MaxNLocator(nbins=5 if len(figure.axes) == 1 else 3))
    return figure


def evaluated_lines(comparison: Comparison, table: SplitTable, axis: Axis) -> list[Line]:
    """Each method's scores on a split during training; bands are the range over seeds."""
    found: dict[str, list[Sequence[Point]]] = {}
    for entry in comparison.entries:
        if entry.history is not None and (curve := entry.history.curve(table.split, table.episodes)):
            found.setdefault(entry.method, []).append(curve)
    return _mean_lines(found, axis)


def training_lines(comparison: Comparison, pool: str, episodes: int, axis: Axis) -> list[Line]:
    """Each method's scores against its training opponents."""
    found: dict[str, list[Sequence[Point]]] = {}
    for entry in comparison.entries:
        history = entry.history
        if history is not None and history.pool == pool and (TRAINING, episodes) in history.curves:
            found.setdefault(entry.method, []).append(history.curves[TRAINING, episodes])
    return _mean_lines(found, axis)


def exploitation_figure(table: SplitTable) -> Figure:
    """Share of the possible gain, by opponent and method."""
    opponents = _exploitable(table)
    if len(opponents) > MOST_ROWS or max(map(len, opponents)) > MOST_LETTERS:
        return _spread_figure(table, opponents)
    values = [[row.exploitation[name] or 0.0 for row in table.rows] for name in opponents]
    figure = new_figure(height=0.9 + 0.17 * len(opponents) + 0.1 * max(len(row.method) for row in table.rows))
    panel = figure.subplots()
    low = min(0.0, *(value for row in values for value in row))
    heat_map(panel, values, opponents, [row.method for row in table.rows], ("cividis", low, 1.0))
    figure.suptitle(f"{table.name}: share of the possible gain", fontsize=8)
    return figure


def payoff_figure(report: CrossPlayReport) -> Figure:
    """Heat map of the row's score against the column."""
    known = {(cell.row, cell.column): cell.score for cell in report.cells}
    scores = [[known.get((row, column)) for column in report.agents] for row in report.agents]
    values = [[0.0 if score is None else score.value for score in row] for row in scores]
    most = max(abs(value) for row in values for value in row) or 1.0
    figure = new_figure(height=1.0 + 0.3 * len(report.agents) + 0.06 * max(map(len, report.agents)))
    panel = figure.subplots()
    heat_map(panel, values, report.agents, report.agents, ("PuOr", -most, most), scores)
    figure.suptitle(f"{report.world}: score of the row against the column", fontsize=8)
    return figure


def _spread_figure(table: SplitTable, opponents: Sequence[str]) -> Figure:
    """One dot per opponent, and their median."""
    from statistics import median

    figure = new_figure(height=0.8 + 0.3 * len(table.rows))
    panel = figure.subplots()
    for number, row in enumerate(table.rows):
        values = sorted(row.exploitation[name] or 0.0 for name in opponents)
        heights = [number + 0.5 * ((k * 0.618) % 1 - 0.5) for k in range(len(values))]
        panel.plot(values, heights, ".", color=COLOURS[number % len(COLOURS)], alpha=0.6, markersize=3)
        panel.plot([median(values)] * 2, [number - 0.35, number + 0.35], color="black", linewidth=1.2)
    for value in (0.0, 1.0):
        panel.axvline(value, color=GREY, linewidth=0.6, zorder=0)
    panel.set_yticks(range(len(table.rows)), [row.method for row in table.rows])
    panel.invert_yaxis()
    panel.set_xlabel(f"share of the possible gain, {len(opponents)} opponents (bar: median)")
    figure.suptitle(table.name, fontsize=8)
    return figure


def heat_map(
    panel: Axes,
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    scale: tuple[str, float, float],
    scores: Sequence[Sequence[Estimate | None]] = (),
) -> None:
    """Draw values as colours, with numbers where there is room."""
    import numpy as np

    colours, low, high = scale
    image = panel.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto")
    panel.set_xticks(range(len(columns)), columns, rotation=30, ha="right", rotation_mode="anchor")
    panel.set_yticks(range(len(rows)), rows)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    if len(rows) * len(columns) > MOST_NUMBERS:
        panel.figure.colorbar(image, ax=panel, pad=0.02)
        return
    shades_RC3 = image.to_rgba(np.array(values))[:, :, :3]
    for y, line in enumerate(values):
        for x, value in enumerate(line):
            colour = "black" if shades_RC3[y, x] @ (0.3, 0.6, 0.1) > 0.5 else "white"
            score = scores[y][x] if scores else None
            panel.text(x, y, _number(value, score, bool(scores)), ha="center", va="center", color=colour, fontsize=7)


def _number(value: float, score: Estimate | None, is_signed: bool) -> str:
    if not is_signed:
        return f"{value:.2f}"
    if score is None:
        return ""
    if score.low is None or score.high is None:
        return f"{value:+.2f}"
    return f"{value:+.2f}\n±{(score.high - score.low) / 2:.2f}"


def _by_episode(row: MethodRow) -> Line:
    numbers = [float(k + 1) for k in range(len(row.scores))]
    ends = row.ranges if len(row.seeds) == 2 else [_ends(score) for score in row.scores]
    low, high = ([pair[side] for pair in ends] for side in (0, 1))
    return Line(row.method, numbers, [s.value for s in row.scores], low, high, [c.value for c in row.controls])


def _ends(estimate: Estimate) -> tuple[float, float]:
    if estimate.low is None or estimate.high is None:
        return estimate.value, estimate.value
    return estimate.low, estimate.high


def _mean_lines(curves: Mapping[str, Sequence[Sequence[Point]]], axis: Axis) -> list[Line]:
    """Means over seeds of score and cost at the steps that all seeds have, and the range of scores."""
    lines: list[Line] = []
    for method, mine in curves.items():
        by_step = [{point.step: point for point in curve} for curve in mine]
        steps = [step for step in by_step[0] if all(step in points for points in by_step)]
        found = [[points[step] for points in by_step] for step in steps]
        scores = [[point.score for point in points] for points in found]
        if found:
            costs = [sum(map(axis.of, points)) / len(points) for points in found]
            means = [sum(values) / len(values) for values in scores]
            lines.append(Line(method, costs, means, list(map(min, scores)), list(map(max, scores))))
    return lines


def _bounds(table: SplitTable) -> dict[str, float]:
    """The exact values to draw as lines; myopic Bayes only where it differs from the others."""
    found = {BOUND: table.memoryless, LIMIT: table.limit}
    bounds = {name: value for name, value in found.items() if value is not None}
    myopic = table.myopic
    if myopic is not None and all(abs(myopic.high - value) > ROUNDING for value in bounds.values()):
        bounds[MYOPIC] = myopic.high
    return bounds


def _exploitable(table: SplitTable) -> list[str]:
    """The opponents for which every method has a value."""
    first, *others = (row.exploitation for row in table.rows)
    return [name for name in first if all(found.get(name) is not None for found in (first, *others))]


def _training_pools(comparison: Comparison) -> list[tuple[str, int]]:
    """Training pools and numbers of episodes of all runs, each once."""
    histories = [entry.history for entry in comparison.entries if entry.history is not None]
    found = ((h.pool, episodes) for h in histories for split, episodes in h.curves if split == TRAINING)
    return list(dict.fromkeys(found))
