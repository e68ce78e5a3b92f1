"""Golden transcripts: what a model reads and answers in a whole trial, word for word."""

from __future__ import annotations

import pytest

from mage.types import Memory
from tests.goldens import FOLDER, GAMES, golden_path, play_golden, shown


@pytest.mark.parametrize("memory", Memory)
@pytest.mark.parametrize("name", GAMES)
def test_trials_read_as_they_did(name: str, memory: Memory) -> None:
    """After a change that is meant: `python -m tests.goldens`, then review the difference."""
    assert shown(play_golden(name, memory)) == golden_path(name, memory).read_text(encoding="utf-8")


def test_there_is_no_golden_without_a_game() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {golden_path(n, m).name for n in GAMES for m in Memory}
