"""A run is never silent: what is done before the first step, in evaluations and between tries is said."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from mage.runs.console import progress_bar
from mage.training.run import create_run, train_run
from tests.tiny import tiny_config

EVALUATED = ('evaluation.splits=["rps-seven"]', "evaluation.final_trials=1", "steps=2")


def trained(folder: Path, *, is_terminal: bool) -> str:
    path, parts = create_run(tiny_config(*EVALUATED), folder, "rps")
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=100, color_system=None)
    train_run(path, console, parts=parts)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_without_a_terminal_every_phase_is_a_line(tmp_path: Path) -> None:
    lines = trained(tmp_path / "run", is_terminal=False).splitlines()
    starts = [line.partition("  ")[0] for line in lines]
    assert starts[:3] == ["playing and learning from the first trials …", "step 1/2", "step 2/2"]
    assert starts[3] == "training is done; final evaluation …"
    assert starts[4].startswith("evaluated on rps-seven")


def test_a_terminal_shows_what_is_under_way(tmp_path: Path) -> None:
    shown = trained(tmp_path / "run", is_terminal=True)
    assert "playing and learning from the first trials …" in shown
    assert "training is done; final evaluation: 7 of 7 trials in rps(rounds=3) without memory …" in shown


def test_a_bar_without_a_terminal_is_a_line_for_each_task(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar() as bar:
        bar.add_task("rps-seven with memory", total=7)
    assert capsys.readouterr().err == "rps-seven with memory …\n"
