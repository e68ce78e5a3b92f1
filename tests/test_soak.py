"""A thousand steps of a small model take no more memory than the first ones."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from mage.config.load import to_toml
from mage.files import read_lines
from tests.processes import Mage
from tests.tiny import tiny_config

STEPS = 1000
MOST_GROWTH = 1.02
"""Of the memory in use, from the second tenth of the steps to the last; 1.002 was seen."""


@pytest.mark.slow
def test_a_thousand_steps_take_no_more_memory_than_two_hundred(mage: Mage, tmp_path: Path) -> None:
    recipe, run = tmp_path / "soak.toml", tmp_path / "run"
    small = ("batch.groups=2", "batch.size=2", "checkpoint.every=50", "checkpoint.transcripts=10")
    recipe.write_text(to_toml(tiny_config(f"steps={STEPS}", *small)), encoding="utf-8")
    ended = mage("train", recipe, "--run", run)
    assert ended.code == 0, ended.said
    resident_gib = [line["host_gib"] for line in read_lines(run / "timings.jsonl")]
    assert len(resident_gib) == STEPS
    tenths = [median(resident_gib[start : start + STEPS // 10]) for start in range(0, STEPS, STEPS // 10)]
    print("resident MiB by tenths:", [round(1024 * gib, 1) for gib in tenths])
    assert tenths[-1] <= MOST_GROWTH * tenths[1], tenths
