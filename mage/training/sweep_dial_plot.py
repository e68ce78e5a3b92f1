"""The files of a sweep's dial: its values, and the plot of learned last scores over the exact steps."""

from __future__ import annotations

from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mage.config.vary import is_number, value_text
from mage.evaluation.suite.report import command_line
from mage.evaluation.value.value_plots import write_plot
from mage.files import write_atomically
from mage.plot_style import COLOURS, HEIGHT, MARKERS, WIDTH, new_figure, style_context
from mage.runs.sweep_plan import SweepPlan
from mage.training.sweep_dial import DIAL, SweepDial, SweepLine, make_dial, read_dial
from mage.training.sweep_summary import SweepSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PLOT = "dial.png"
_WIDE = 1.35
"""Width of the plot, in widths of half a page."""
_SPREAD = 0.012
"""Distance between the points of two recipes at the same value, as a share of the x-range."""
_THINNEST, _THICKER = 1.8, 1.3
"""Points: the width of the last exact line, and what each one before it has more, so that all are seen."""
_WIDEST = 0.25
"""How far intervals may extend the y-range, as a share: those over three seeds can be huge."""
_TINT = 0.35
"""How much of its colour an exact line has; the rest is white."""


def write_dial(folder: Path, plan: SweepPlan, summary: SweepSummary) -> SweepDial | None:
    """Write the dial of a sweep, and its plot where matplotlib is installed; None where nothing is varied.

    Exact values that were written before are kept: the plan of a sweep does not change.
    """
    dial = make_dial(plan, summary, read_dial(folder))
    if dial is None:
        return None
    write_atomically(folder / DIAL, msgspec.json.format(msgspec.json.encode(dial), indent=1) + b"\n")
    if find_spec("matplotlib") is not None:
        write_plot(dial_figure(dial), folder / PLOT, command_line())
    return dial


def dial_figure(dial: SweepDial) -> Figure:
    """Learned last scores with intervals, joined by a line for each recipe; behind them what is exact."""
    with style_context():
        figure = new_figure(WIDTH * _WIDE, HEIGHT + 0.17 * ceil(len(dial.lines) / 3))
        panel = figure.subplots()
        places = _places(dial)
        for number, (name, line) in enumerate(dial.named_lines.items()):
            rank = len(dial.lines) - 1 - number
            _draw_exact(panel, line, places, number, {"linewidth": _THINNEST + _THICKER * rank})
            shift = (number - (len(dial.lines) - 1) / 2) * _SPREAD * _width(places)
            shifted = {text: x + shift for text, x in places.items()}
            _draw_learned(panel, line, shifted, number, name)
        panel.set_ylim(*_range(dial))
        if not all(map(is_number, dial.values)):
            panel.set_xticks(list(places.values()), list(places))
        panel.set_title(dial.world or dial.common)
        panel.set_xlabel(f"{dial.key}\n(lines: learned, means with 95 % intervals; dots: seeds; behind them: exact)")
        panel.set_ylabel("last score")
        figure.legend(loc="outside lower center", ncols=3, frameon=False, handlelength=2.2, borderpad=0.1)
        return figure


def _places(dial: SweepDial) -> dict[str, float]:
    """Where each value is on the x-axis; values that are not numbers stand side by side."""
    are_numbers = all(map(is_number, dial.values))
    return {value_text(value): float(value) if are_numbers else number for number, value in enumerate(dial.values)}


def _draw_exact(panel: Axes, line: SweepLine, places: dict[str, float], number: int, style: dict[str, Any]) -> None:
    """The steps, or where there are none a short line at each value."""
    style = {"color": _light(COLOURS[number % len(COLOURS)]), "zorder": 1, **style}
    if line.steps:
        panel.plot(
            [x for x, _ in line.steps],
            [y for _, y in line.steps],
            solid_capstyle="butt",
            solid_joinstyle="miter",
            **style,
        )
        return
    half = 0.04 * _width(places)
    for point in line.points:
        if point.exact is not None:
            x = places[value_text(point.value)]
            panel.hlines(point.exact, x - half, x + half, **style)


def _draw_learned(panel: Axes, line: SweepLine, places: dict[str, float], number: int, label: str) -> None:
    """The scores of all seeds, and their means with intervals in the order of their places."""
    dots = [(places[value_text(point.value)], score) for point in line.points for score in point.by_seed]
    colour = COLOURS[number % len(COLOURS)]
    panel.scatter(
        [x for x, _ in dots], [score for _, score in dots], s=9, color=colour, alpha=0.7, linewidths=0, zorder=4
    )
    found = sorted((places[value_text(point.value)], point.score) for point in line.points if point.score is not None)
    lows = [0.0 if score.low is None else score.value - score.low for _, score in found]
    highs = [0.0 if score.high is None else score.high - score.value for _, score in found]
    panel.errorbar(
        [x for x, _ in found],
        [score.value for _, score in found],
        yerr=[lows, highs],
        color=colour,
        marker=MARKERS[number % len(MARKERS)],
        linewidth=0.7,
        elinewidth=0.8,
        capsize=1.5,
        zorder=3,
        label=label,
    )


def _range(dial: SweepDial) -> tuple[float, float]:
    """The y-range: all scores, learned and exact, and of the intervals at most `_WIDEST` more."""
    points = [point for line in dial.lines for point in line.points]
    scores = [point.score for point in points if point.score is not None]
    exact = [point.exact for point in points if point.exact is not None]
    values = [*exact, *(score.value for score in scores), *(y for line in dial.lines for _, y in line.steps)] or [0.0]
    low, high = min(values), max(values)
    most = _WIDEST * ((high - low) or 1.0)
    lowest = min([low, *(score.low for score in scores if score.low is not None)])
    highest = max([high, *(score.high for score in scores if score.high is not None)])
    return max(lowest, low - most) - 0.2 * most, min(highest, high + most) + 0.2 * most


def _light(colour: str) -> str:
    """The colour mixed with white.

    >>> _light("#0072B2")
    '#a6cee4'
    """
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - _TINT * (255 - part)):02x}" for part in parts)


def _width(places: dict[str, float]) -> float:
    return (max(places.values()) - min(places.values())) or 1.0
