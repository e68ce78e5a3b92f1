"""Terminal output. Printed text is never interpreted as markup, because it may come from a model."""

from __future__ import annotations

from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from mage.runs.drawings import shown

WIDTH = 120
"""Columns of a table rendered to text."""


def plain_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """A console without markup; `quiet` prints nothing."""
    return Console(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)


def as_text(table: RenderableType) -> str:
    """A table rendered without colours, `WIDTH` columns wide."""
    console = Console(width=WIDTH, markup=False, emoji=False, highlight=False, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def metrics_table(*names: str) -> Table:
    """An empty table whose rows begin with a name; all other columns are aligned to the right."""
    table = Table(header_style="dim", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    return table


def say(sentence: str) -> None:
    """Print a message to stderr; long lines are not wrapped, so that they can be copied."""
    plain_console(stderr=True).print(shown(sentence, "dim"), soft_wrap=True)


class PhaseProgress(Progress):
    """A progress bar; where there is no terminal to draw it on, one line for each task once it is started."""

    _is_begun = False

    def start(self) -> None:
        super().start()
        if not self._is_begun:
            self._is_begun = True
            for task in self.tasks:
                self._say(task.description)

    def add_task(self, description: str, *args: Any, **kwargs: Any) -> TaskID:
        if self._is_begun:
            self._say(description)
        return super().add_task(description, *args, **kwargs)

    def _say(self, description: str) -> None:
        if self.disable:
            say(f"{description} …")


def progress_bar() -> Progress:
    """A progress bar on stderr; lines where that is no terminal."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    stderr = plain_console(stderr=True)
    return PhaseProgress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal)
