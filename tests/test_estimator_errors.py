"""What an estimator returns is checked once a step: training would go on with any numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import mage
from mage.credit.estimators.checked import checked_estimate
from mage.credit.running_stats import EMPTY, RunningMean, StatKey, Stats
from mage.errors import PlayError
from mage.types import Phase
from tests.credited import ALL, bandit, group, step
from tests.test_plugin_errors import TINY

GROUPS = [bandit(1.0, 0.0), group([step(1.0), step(2.0)], [step(0.0)])]
RIGHT = (((1.0,), (-1.0,)), ((0.5, 0.5), (0.0,)))


class Returns:
    """An estimator that returns this, or raises it."""

    def __init__(self, advantages: Any, stats: Any = EMPTY) -> None:
        self._returned = advantages if isinstance(advantages, Exception | str) else (advantages, stats)

    def estimate(self, groups: Any, stats: Any) -> Any:
        if isinstance(self._returned, Exception):
            raise self._returned
        return self._returned


def kept(mean: Any) -> Stats:
    return Stats(((StatKey("main", "rock", 0, 0, Phase.PLAY), RunningMean(mean, 1.0, 1)),))


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (Returns("both"), "returned 'both'; allowed is a pair of advantages and statistics"),
        (Returns(None), "returned None; allowed are 2 groups, as many as it got"),
        (Returns(RIGHT[:1]), "returned 1 groups; allowed are 2, as many as it got"),
        (Returns((RIGHT[0], 3)), "returned 3 for group 1; allowed are 2 trials, as many as it got"),
        (Returns(((*RIGHT[0], (0.0,)), RIGHT[1])), "returned 3 trials for group 0; allowed are 2, as many as it got"),
        (Returns((RIGHT[0], ((0.5,), (0.0,)))), "returned 1 numbers for trial 0 of group 1; allowed are 2, as many as"),
        (Returns((RIGHT[0], (0.5, 0.0))), "returned 0.5 for trial 0 of group 1; allowed are 2 finite numbers"),
        (Returns((((math.nan,), (1.0,)), RIGHT[1])), "returned (nan,) for trial 0 of group 0; allowed are 1 finite"),
        (Returns((RIGHT[0], ((0.5, math.inf), (0.0,)))), "returned (0.5, inf) for trial 0 of group 1; allowed are 2"),
        (Returns((RIGHT[0], (("1", "2"), (0.0,)))), "returned ('1', '2') for trial 0 of group 1; allowed are 2"),
        (Returns(RIGHT, None), "returned the statistics None; allowed is a mage.credit.running_stats.Stats of finite"),
        (Returns(RIGHT, kept(math.nan)), "returned the statistics Stats("),
        (Returns(RIGHT, kept(np.float32(1.0))), "returned the statistics Stats("),
        (Returns(ZeroDivisionError("x")), "raises ZeroDivisionError: x (at test_estimator_errors.py:"),
    ],
)
def test_what_no_estimator_may_return_is_refused(estimator: Any, said: str) -> None:
    with pytest.raises(PlayError) as refused:
        checked_estimate("own", estimator, GROUPS, EMPTY)
    assert str(refused.value).startswith(f"estimator 'own' {said}")


def test_numbers_of_numpy_and_of_tensors_become_floats() -> None:
    torch = pytest.importorskip("torch")
    array = np.array([[1.0], [-1.0]], np.float32)
    tensors = [torch.tensor([0.5, 0.5], requires_grad=True), [torch.tensor(0.0)]]
    advantages, stats = checked_estimate("own", Returns([array, tensors]), GROUPS, EMPTY)
    assert (advantages, stats) == (RIGHT, EMPTY)
    assert msgspec.json.encode(advantages) == msgspec.json.encode(RIGHT)


@pytest.mark.parametrize("estimator", ALL, ids=repr)
def test_estimators_that_come_with_mage_pass_as_they_are(estimator: Any) -> None:
    stats = EMPTY
    for _ in range(2):
        found = checked_estimate("ours", estimator, GROUPS, stats)
        assert found == estimator.estimate(GROUPS, stats)
        stats = found[1]


class Forgetful(msgspec.Struct, frozen=True):
    """Leaves the last sibling out."""

    def estimate(self, groups: Any, stats: Any) -> Any:
        return [[[0.0] * len(steps) for steps in group.trials[1:]] for group in groups], stats


@pytest.mark.usefixtures("own_names")
def test_a_training_ends_in_a_line_where_its_estimator_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mage.register_estimator("forgetful", Forgetful)
    with pytest.raises(PlayError, match=r"^estimator 'forgetful' returned 1 trials for group 0; allowed are 2"):
        mage.train("rps", {**TINY, "credit.estimator": "forgetful"})
