"""kill -9 at random moments, the first ones included: what goes on ends as what was never killed.

`pytest tests/test_kills.py -m slow` kills 25 times each kind of work; without `slow` one training run is killed twice.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from signal import SIGKILL

import pytest

from tests.interrupted import Work, assert_same, killed_after, works
from tests.processes import Mage

NUM_PER_LIFE = 6
"""Kills of one folder before the work in it may end."""
FIRST, LATER = (1, 2, 3, 4, 20), (1, 2, 4, 7, 10, 14, 20, 30, 45, 60)
"""Changes in a folder after which a process in it is killed: one that begins, and one that goes on."""
KINDS = ("train", "league", "sweep", "evaluate")


@pytest.fixture(scope="module")
def all_works(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Work]:
    return works(tmp_path_factory.mktemp("recipes"))


def kill_often(mage: Mage, work: Work, folder: Path, num_kills: int, seed: int) -> int:
    """Kill and go on, in one folder after another, each compared with the first; returns the number of early kills.

    Early is before there is anything to go on with. Kills come after a number of changes in the folder, so that many
    hit a file being written, and some after a time.
    """
    draws = random.Random(seed)
    whole = folder / "whole"
    begun = time.monotonic()
    ended = mage(*work.next_command(whole))
    took_s = time.monotonic() - begun
    assert ended.code == 0, ended.said
    kills = lives = num_early = 0
    while kills < num_kills:
        lives += 1
        life = folder / f"life-{lives}"
        for _ in range(min(NUM_PER_LIFE, num_kills - kills)):
            is_timed, at_s = draws.random() < 0.2, draws.uniform(0, took_s)
            num_changes = draws.choice(LATER if work.is_begun(life) else FIRST)
            harm = killed_after(life, 10**6, at_s) if is_timed else killed_after(life, num_changes, 10 * took_s)
            harmed = mage(*work.next_command(life), meanwhile=harm)
            if harmed.code == 0:
                break
            if harmed.code != -SIGKILL:
                pytest.fail(f"it ended with {harmed.code} instead of being killed: {harmed.said}")
            kills += 1
            num_early += not work.is_begun(life)
        ended = mage(*work.next_command(life))
        assert ended.code == 0, ended.said
        assert_same(life, whole)
    print(f"{kills} kills in {lives} folders, {num_early} of them before there was anything to go on with")
    return num_early


def test_killed_twice(mage: Mage, all_works: dict[str, Work], tmp_path: Path) -> None:
    kill_often(mage, all_works["train"], tmp_path, 2, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_25_times(mage: Mage, all_works: dict[str, Work], tmp_path: Path, kind: str) -> None:
    assert 0 < kill_often(mage, all_works[kind], tmp_path, 25, seed=7) < 25
