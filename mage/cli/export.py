"""`mage export`: a run as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mage.errors import ConfigError, RecordError
from mage.files import write_atomically
from mage.runs.console import plain_console
from mage.runs.drawings import shown
from mage.view.export import MOST, Page, export_page

_MOST = typer.Option(min=0, help="Most trials, chosen from all over the run; 20 by default.")


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run of any kind.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="A new file, such as page.html.")],
    trials: Annotated[str | None, typer.Option(metavar="N,M", help="Numbers of the trials to show.")] = None,
    most: Annotated[int | None, _MOST] = None,
) -> None:
    """Write one page to look at. A run's curves and some of its trials in a single HTML file; no weights."""
    if trials is not None and most is not None:
        raise ConfigError("--trials names the trials and --most counts them: give one of the two")
    if out.exists():
        raise RecordError(f"{out} exists already; name a new file for the page")
    numbers = None if trials is None else trial_numbers(trials)
    page = export_page(run, numbers, MOST if most is None else most)
    try:
        write_atomically(out, page.content)
    except OSError as error:
        raise RecordError(f"cannot write {out}: {error.strerror or error}") from None
    for line in _said(page, out):
        plain_console().print(shown(line), soft_wrap=True)


def trial_numbers(text: str) -> list[int]:
    """Numbers with commas between them.

    >>> trial_numbers("3, 0,12")
    [3, 0, 12]
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) <= 12 for part in parts):
        raise ConfigError(f"--trials = {text!r}: give numbers of trials with commas between them, such as 0,3,12")
    return [int(part) for part in parts]


def _said(page: Page, out: Path) -> Sequence[str]:
    evaluated = f" and {len(page.evaluations)} evaluations" if page.evaluations else ""
    trials = f"{len(page.trials)} of {page.num_trials} trials"
    lines = [f"wrote {out}: {trials}{evaluated}, {_size(len(page.content))}; it opens from disk in any browser"]
    if page.left_out:
        lines.append(f"left out, because the page would be too large: {', '.join(page.left_out)}")
    return lines


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.1f} MiB" if num_bytes >= 2**20 else f"{num_bytes / 2**10:.0f} KiB"
