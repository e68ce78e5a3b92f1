"""`mage export-model`: what it does and what it prints."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from mage.runs.drawings import shown
from mage.training.export import export_model


def run_export(run: Path, folder: Path, step: int | None, best: bool, merge: bool, console: Console) -> int:
    """Write a run's weights to a directory of their own. Returns the exit code."""
    found = export_model(run, folder, step=step, best=best, merge=merge)
    said = f"wrote the weights of {run} after step {found} to {folder}; its README.md says how to load them"
    console.print(shown(said), soft_wrap=True)
    return 0
