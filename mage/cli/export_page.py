"""`mage export`: what it does and what it prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from mage.errors import ConfigError, RecordError
from mage.files import write_atomically
from mage.runs.drawings import shown
from mage.view.export import MOST, Page, export_page


def run_export_page(run: Path, out: Path, trials: str | None, most: int | None, console: Console) -> int:
    """Write one page of a run to a new file. Returns the exit code."""
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
        console.print(shown(line), soft_wrap=True)
    return 0


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
