"""docs/value.md shows what `mage value` finds: its example, its thresholds, and the cheap rows of its table."""

from __future__ import annotations

from pathlib import Path

import pytest

import mage
from benchmarks.value_table import PAGE, rows, tasks, with_table
from tests.documented import blocks_in


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads what another run of the tests has stored."""
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "cache"))


def test_the_example_is_what_is_printed() -> None:
    (shown,) = [block.text for block in blocks_in(PAGE) if block.info == "text"]
    printed = [line.rstrip() for line in str(mage.value("hidden(doors)")).splitlines()]
    assert shown.splitlines() == printed[: len(shown.splitlines())]


def test_cheap_rows_of_the_table_are_what_is_found() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for wanted in ("hidden(", "minesweeper(2", "kuhn-scripts", "dilemma", "rps-seven"):
        found = list(rows(wanted))
        assert found
        assert all(f"\n{row}\n" in page for row in found), found


def test_the_table_has_every_task_in_order() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("<!-- begin")[2].partition("<!-- end")[0].splitlines()[3:]
    listed = [row.split("`")[1] for row in table]
    assert list(dict.fromkeys(listed)) == [name for name, *_ in tasks()]
    assert with_table(page, table) == page


def test_the_thresholds_are_those_of_the_dial() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for number in (0, 1):
        found = mage.value("hidden(scout)", episodes=number + 2, vary="look=-1:0.5:16")
        assert found.dial is not None
        labels = {objective.name: objective.label for objective in found.report.objectives}
        for threshold in found.dial.thresholds:
            (row,) = [line for line in page.splitlines() if line.startswith(f"| {labels[threshold.objective]} |")]
            assert float(row.split(" | ")[1 + number].rstrip(" |")) == pytest.approx(threshold.value, abs=1e-9)
        assert len(found.dial.thresholds) == 4
