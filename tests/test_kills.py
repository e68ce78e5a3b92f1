"""kill -9 at random moments, the first ones included: what goes on ends as what was never killed.

`pytest tests/test_kills.py -m slow` kills 25 times each kind of work; the sample without `slow` kills twice.
"""

from __future__ import annotations

import random
from pathlib import Path
from signal import SIGKILL

import pytest

from tests.interrupted import Work, assert_same, killed_after, works
from tests.processes import Mage

NUM_PER_LIFE = 6
"""Kills of one folder before the work in it may end."""
KINDS = ("train", "league", "sweep", "evaluate")


@pytest.fixture(scope="module")
def all_works(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Work]:
    return works(tmp_path_factory.mktemp("recipes"))


def kill_often(mage: Mage, work: Work, folder: Path, num_kills: int, seed: int) -> int:
    """Kill and go on in one folder after another, each compared with the first; returns the number of kills."""
    draws = random.Random(seed)
    whole = folder / "whole"
    ended = mage(*work.next_command(whole))
    assert ended.code == 0, ended.said
    kills = lives = 0
    while kills < num_kills:
        lives += 1
        life = folder / f"life-{lives}"
        for _ in range(min(NUM_PER_LIFE, num_kills - kills)):
            # Few changes are first moments: the directory, its first files. Without any the time alone counts.
            num_changes = draws.choice((1, 2, 3, 4, 6, 10, 20, 30, 40, 1000))
            harm = killed_after(life, num_changes, most_s=draws.uniform(0.0, 3.0))
            ended = mage(*work.next_command(life), meanwhile=harm)
            assert ended.code in (0, -SIGKILL), ended.said
            kills += ended.code == -SIGKILL
        ended = mage(*work.next_command(life))
        assert ended.code == 0, ended.said
        assert_same(life, whole)
    return kills


@pytest.mark.parametrize("kind", KINDS)
def test_killed_twice(mage: Mage, all_works: dict[str, Work], tmp_path: Path, kind: str) -> None:
    assert kill_often(mage, all_works[kind], tmp_path, 2, seed=3) == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_25_times(mage: Mage, all_works: dict[str, Work], tmp_path: Path, kind: str) -> None:
    assert kill_often(mage, all_works[kind], tmp_path, 25, seed=7) == 25
