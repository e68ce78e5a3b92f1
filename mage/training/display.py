"""Progress of a run on the console: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report_tables import summary_table
from mage.numbers import plain, signed


class PlainDisplay:
    """At most about forty lines for a run, one for a step."""

    def __init__(self, console: Console, steps: int) -> None:
        self._console = console
        self._steps = steps
        self._every = max(1, steps // 40)
        self._title = ""

    def step(self, step: int, metrics: Mapping[str, float], timings: Mapping[str, float]) -> None:
        if step % self._every == 0 or step in (1, self._steps):
            parts = [f"{name} {value}" for name, value in _shown(step, self._steps, metrics, timings)]
            self._console.print("  ".join(parts), soft_wrap=True)

    def say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def phase(self, title: str, detail: str = "") -> None:
        if title and title != self._title:
            self.say(f"{title} …")
        self._title = title

    def show_evaluation(self, reports: Sequence[SplitReport]) -> None:
        for report in reports:
            scores = " ".join(signed(score.value, 2) for score in report.agent.scores)
            control = signed(report.control.scores[-1].value, 2)
            self.say(f"evaluated on {report.split}: {scores} (no memory {control}, {report.num_trials} trials)")

    def close(self) -> None:
        """Do nothing."""


class LiveDisplay:
    """A small table that is redrawn in place."""

    def __init__(self, console: Console, steps: int) -> None:
        self._console = console
        self._steps = steps
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()
        self._reports: Sequence[SplitReport] = ()
        self._table: tuple[RenderableType, ...] = ()
        self._spinner = Spinner("dots", style="dim")
        self.phase("starting")

    def step(self, step: int, metrics: Mapping[str, float], timings: Mapping[str, float]) -> None:
        grid = Table.grid(padding=(0, 2))
        rows = _shown(step, self._steps, metrics, timings)
        for name, value in rows:
            grid.add_row(Text(name, "dim"), Text(value))
        bar = ProgressBar(total=self._steps, completed=step, width=50)
        self._table = (bar, grid)
        self.phase("")

    def phase(self, title: str, detail: str = "") -> None:
        self._spinner.update(text=Text(f"{title}{f': {detail}' if detail else ''} …" if title else "", "dim"))
        reports = [summary_table(self._reports)] if self._reports else []
        self._live.update(Group(*self._table, *reports, *([self._spinner] if title else [])), refresh=bool(title))

    def say(self, text: str) -> None:
        self._live.console.print(text)

    def show_evaluation(self, reports: Sequence[SplitReport]) -> None:
        self._reports = reports

    def close(self) -> None:
        """Stop drawing."""
        self._live.stop()


def _shown(step: int, steps: int, metrics: Mapping[str, float], timings: Mapping[str, float]) -> list[tuple[str, str]]:
    scores = [value for name, value in sorted(metrics.items()) if name.startswith("score/episode_")]
    left_s = timings["elapsed_s"] / max(1, timings["steps_done"]) * (steps - step)
    return [
        ("step", f"{step}/{steps}"),
        ("score", " ".join(signed(score, 2) for score in scores) or "–"),
        ("adaptation", signed(metrics.get("score/adaptation", 0.0), 2)),
        ("entropy", plain(metrics.get("entropy/play", 0.0), 2)),
        ("invalid", f"{100 * metrics.get('play/invalid_share', 0.0):.1f}%"),
        ("dead", f"{100 * metrics.get('groups/dead_share', 0.0):.0f}%"),
        ("tokens/s", f"{timings['tokens_per_s']:.0f}"),
        ("left", time.strftime("%H:%M:%S", time.gmtime(left_s))),
    ]
