"""The tests would notice: every mutant still fits the code, and none survives."""

from __future__ import annotations

import pytest

from tests.mutants import MUTANTS, Mutant, patched, run
from tests.tree import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_still_fits_the_code(mutant: Mutant) -> None:
    compile(patched(mutant), mutant.file, "exec")
    assert mutant.tests
    assert all((ROOT / test).is_file() for test in mutant.tests)


def test_a_patch_that_no_longer_fits_is_said() -> None:
    with pytest.raises(AssertionError, match=r"occurs 0 times in mage/training/loop\.py, not once"):
        patched(MUTANTS[0]._replace(file="mage/training/loop.py"))


@pytest.mark.slow
def test_no_mutant_survives() -> None:
    assert [outcome.mutant.name for outcome in run() if outcome.caught_by is None] == []
