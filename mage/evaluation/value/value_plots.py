"""Plots of the values of a task: last scores against the length of a trial, and against a parameter of the world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mage.errors import ConfigError, RecordError
from mage.evaluation.value.dial import Dial
from mage.evaluation.value.report import ValuePoint
from mage.plot_style import Line, check_matplotlib, line_figure, style_context

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS: Mapping[str, Mapping[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": "mage"},
}
"""Endings of files, with the metadata that makes them the same each time."""
DPI = 200
THINNEST, THICKER = 1.2, 0.9
"""Points: the width of the last line, and what each one before it has more."""


def check_plot_path(path: Path) -> None:
    """Raise a `ConfigError` where a plot cannot be written: another ending, or no matplotlib."""
    if path.suffix not in ENDINGS:
        raise ConfigError(f"--plot {path}: allowed are files that end in {' or '.join(ENDINGS)}")
    check_matplotlib("")


def write_plot(figure: Figure, path: Path, command: str) -> None:
    """Write a figure as its file's ending says, with the command and without a date in its metadata."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with style_context():
            figure.savefig(path, dpi=DPI, metadata={"Description": command, **ENDINGS[path.suffix]})
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror or error}") from None


def curve_figure(points: Sequence[ValuePoint], title: str) -> Figure:
    """Last scores against the number of episodes; the band of myopic Bayes is from the worst ties to the best."""
    from matplotlib.ticker import MaxNLocator

    rows = {
        "told what is hidden": [point.informed for point in points],
        "best last episode": [point.best_last for point in points],
        "best sum": [point.best_sum for point in points],
        "myopic Bayes": [point.myopic.high for point in points],
        "best without memory": [point.memoryless for point in points],
    }
    lows = {"myopic Bayes": [point.myopic.low for point in points]}
    x = [float(point.episodes) for point in points]
    with style_context():
        lines = [Line(name, x, y, lows.get(name, y), y) for name, y in rows.items()]
        figure = _nested(line_figure(lines, title, ("episodes of a trial", "last score"), {}))
        for panel in figure.axes:
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def dial_figure(dial: Dial, labels: Mapping[str, str], title: str) -> Figure:
    """Last scores of the objectives, by label, against the parameter; at a threshold the line is vertical."""
    lines = []
    for name, label in labels.items():
        at = [(point.value, point.last[name]) for point in dial.points]
        for found in dial.thresholds:
            if found.objective == name:
                at += [(found.value, found.below), (found.value, found.above)]
        x, y = zip(*sorted(at, key=lambda pair: pair[0]), strict=True)  # stable: below stays before above
        lines.append(Line(label, x, y, y, y))
    with style_context():
        return _nested(line_figure(lines, title, (dial.parameter, "last score"), {}))


def _nested(figure: Figure) -> Figure:
    """The figure with each line thinner than the one before, so that lines on top of each other are all seen."""
    for drawn in [*(panel.lines for panel in figure.axes), *(legend.get_lines() for legend in figure.legends)]:
        for rank, line in enumerate(reversed(list(drawn))):
            line.set_linewidth(THINNEST + THICKER * rank)
            line.set_marker("")
    return figure
