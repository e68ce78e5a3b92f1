"""Style of matplotlib figures: panels with lines and bands, half a page wide.

Colours are the colour-blind safe palette of Okabe and Ito (2008), and every method has its own marker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, inf
from typing import TYPE_CHECKING, Any, NamedTuple

from mage.extras import require

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 3.5, 2.6
"""Inches."""
MOST_TOGETHER = 6
"""Most methods in one panel; more get a panel each, with all others in grey."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
GREY, LIGHT = "#555555", "#CFCFCF"
_SMALL_HEIGHT = 1.1
_DASHES = (0, (4, 2))
BOUND, MYOPIC, LIMIT = "best memoryless", "myopic Bayes", "limit"
_BOUNDS = {BOUND: (":", "dotted"), MYOPIC: ("-.", "dash-dotted"), LIMIT: ("-", "grey line")}
"""Line style, and its name for the title."""
_STYLE: Mapping[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
    "text.parse_math": False,  # names may hold dollars
    "svg.hashsalt": "mage",
    "svg.fonttype": "none",
}


class Line(NamedTuple):
    """The curve of one method."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    dashed: Sequence[float] = ()
    """The same with memory off."""


def style_context() -> AbstractContextManager[None]:
    """A context in which figures are drawn and saved in this style."""
    import matplotlib

    style: Any = _STYLE
    context: AbstractContextManager[None] = matplotlib.rc_context(style)
    return context


def check_matplotlib(otherwise: str = "; --no-plots leaves them out") -> None:
    """Raise `ConfigError` where matplotlib is missing; `otherwise` is a hint for the message."""
    require("plot", "plots need", otherwise)


def new_figure(width: float = WIDTH, height: float = HEIGHT) -> Figure:
    """An empty figure with constrained layout."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def line_figure(
    lines: Sequence[Line],
    title: str,
    labels: tuple[str, str],
    bounds: Mapping[str, float],
    *,
    dashed: str = "",
    widest: float = inf,
) -> Figure:
    """Lines with bands and horizontal bounds, in one panel, or a panel for each where there are many.

    `labels` are those of the two axes. `dashed` is the label of the dashed lines, empty where there are none. `widest`
    is how far bands may extend the y-range, as a share of the range of the lines.
    """
    figure = (_shared_panel if len(lines) <= MOST_TOGETHER else _panel_per_line)(lines, title, labels, bounds, dashed)
    for panel in figure.axes:
        panel.set_ylim(*_range(lines, list(bounds.values()), widest))
    return figure


def _shared_panel(
    lines: Sequence[Line], title: str, labels: tuple[str, str], bounds: Mapping[str, float], dashed: str
) -> Figure:
    """One panel, with a legend below it and the names of the bounds beside it."""
    from matplotlib.lines import Line2D

    figure = new_figure(height=HEIGHT + 0.17 * ceil((len(lines) + bool(dashed)) / 2))
    panel = figure.subplots()
    for number, line in enumerate(lines):
        _draw(panel, line, number)
    _draw_bounds(panel, bounds)
    _name_bounds(panel, bounds)
    panel.set_title(title)
    panel.set_xlabel(labels[0])
    panel.set_ylabel(labels[1])
    handles = list(panel.get_legend_handles_labels()[0])
    if dashed:
        handles.append(Line2D([], [], color=GREY, linestyle=_DASHES, linewidth=1.0, label=dashed))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, handlelength=2.2, borderpad=0.1)
    return figure


def _panel_per_line(
    lines: Sequence[Line], title: str, labels: tuple[str, str], bounds: Mapping[str, float], dashed: str
) -> Figure:
    """A panel for each line, with all others in grey; the title explains dashed lines and bounds."""
    num_rows = ceil(len(lines) / 2)
    figure = new_figure(height=num_rows * _SMALL_HEIGHT + 0.5)
    panels: list[Axes] = list(figure.subplots(num_rows, 2, sharex=True, sharey=True, squeeze=False).flat)
    for unused in panels[len(lines) :]:
        unused.remove()
    for panel, line in zip(panels, lines, strict=False):
        for other in lines:
            if other is not line:
                panel.plot(other.x, other.y, color=LIGHT, linewidth=0.8)
        _draw(panel, line, 0)
        _draw_bounds(panel, bounds)
        panel.set_title(line.name, pad=2)
    for panel in panels[len(lines) - 2 : len(lines)]:
        panel.tick_params(labelbottom=True)
    entries = {"dashed": dashed, **{_BOUNDS[name][1]: name for name in bounds}}
    legend = ", ".join(f"{how}: {what}" for how, what in entries.items() if what)
    figure.suptitle(f"{title}\n{legend}" if legend else title, fontsize=8)
    figure.supxlabel(labels[0], fontsize=8)
    figure.supylabel(labels[1], fontsize=8)
    return figure


def _draw(panel: Axes, line: Line, number: int) -> None:
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    every = max(1, len(line.x) // 8)
    panel.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
    panel.plot(line.x, line.y, color=colour, marker=marker, markevery=every, label=line.name)
    if line.dashed:
        panel.plot(line.x, line.dashed, color=colour, linestyle=_DASHES, linewidth=1.0)


def _draw_bounds(panel: Axes, bounds: Mapping[str, float]) -> None:
    for name, value in bounds.items():
        panel.axhline(value, color=GREY, linewidth=0.8, linestyle=_BOUNDS[name][0], zorder=0)


def _name_bounds(panel: Axes, bounds: Mapping[str, float]) -> None:
    """Names beside the panel: the lowest below its line, the highest above, one between them away from the nearer."""
    low, high = min(bounds.values(), default=0.0), max(bounds.values(), default=0.0)
    for name, value in bounds.items():
        is_below = name == BOUND or (name == MYOPIC and high - value < value - low)
        where = "center" if len(bounds) < 2 else "top" if is_below else "bottom"
        panel.annotate(
            name.replace(" ", "\n"),
            (1.0, value),
            (3, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            color=GREY,
            fontsize=7,
            va=where,
            linespacing=0.9,
            annotation_clip=False,
        )


def _range(lines: Sequence[Line], bounds: Sequence[float], widest: float) -> tuple[float, float]:
    """The y-range: all of the lines, and of their bands at most `widest` more."""
    values = [*bounds, *(y for line in lines for y in (*line.y, *line.dashed))]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    band_low = max(min(min(line.low) for line in lines), low - widest * span)
    band_high = min(max(max(line.high) for line in lines), high + widest * span)
    return min(low, band_low) - 0.04 * span, max(high, band_high) + 0.04 * span
