"""What holds for estimators whatever the returns: order, constants, scale, and whose trial moves whose baseline."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.credit.estimators import Advantages
from mage.credit.estimators.agent_specific import AgentSpecific, Scale
from mage.credit.estimators.gigpo import Gigpo
from mage.credit.estimators.grpo import Grpo
from mage.credit.estimators.rloo import Rloo
from mage.credit.running_stats import EMPTY
from tests.credited import ALL, COMPARING, evaluated, firsts, group, scores, shapes, trials_of


def close(mine: Advantages, theirs: Advantages, tolerance: float = 1e-6) -> bool:
    flat = [[a for g in found for trial in g for a in trial] for found in (mine, theirs)]
    return flat[0] == pytest.approx(flat[1], abs=tolerance, rel=tolerance)


@settings(deadline=None)
@given(shapes, st.randoms(use_true_random=False))
def test_permuting_siblings_permutes_advantages(rows: list[tuple[float, float, float]], rng: Any) -> None:
    order = list(range(len(rows)))
    rng.shuffle(order)
    for estimator in ALL:
        plain, stats = estimator.estimate([group(*trials_of(rows))], EMPTY)
        mixed, mixed_stats = estimator.estimate([group(*trials_of([rows[i] for i in order]))], EMPTY)
        assert close(mixed, (tuple(plain[0][i] for i in order),))
        for (one, running), (other, mixed_running) in zip(stats.entries, mixed_stats.entries, strict=True):
            assert one == other
            assert running.mean == pytest.approx(mixed_running.mean)


@settings(deadline=None)
@given(shapes, scores)
def test_a_constant_on_all_returns_changes_nothing(rows: list[tuple[float, float, float]], constant: float) -> None:
    plain = group(*trials_of(rows))
    trials = [[msgspec.structs.replace(s, return_=s.return_ + constant) for s in trial] for trial in plain.trials]
    for estimator in COMPARING:
        mine, mine_stats = estimator.estimate([group(*trials)], EMPTY)
        theirs, their_stats = estimator.estimate([plain], EMPTY)
        assert close(mine, theirs)
        assert [k for k, _ in mine_stats.entries] == [k for k, _ in their_stats.entries]


@settings(deadline=None)
@given(shapes, st.sampled_from([0.25, 3.0, 40.0]))
def test_scaling_returns(rows: list[tuple[float, float, float]], factor: float) -> None:
    """Differences scale with returns; what is divided by a spread does not."""
    plain = group(*trials_of(rows))
    large = group(*([msgspec.structs.replace(s, return_=s.return_ * factor) for s in trial] for trial in plain.trials))
    for estimator in (Rloo(), Grpo(divide=False), Gigpo(), AgentSpecific(scale=Scale.NONE)):
        scaled = tuple(tuple(tuple(a * factor for a in trial) for trial in g) for g in evaluated(estimator, plain))
        assert close(evaluated(estimator, large), scaled)
    for estimator in (AgentSpecific(s_min=1e-9), AgentSpecific(scale=Scale.GROUP, s_min=1e-9)):
        assert close(evaluated(estimator, large), evaluated(estimator, plain))
    assert close(evaluated(Grpo(), large), evaluated(Grpo(), plain), tolerance=1e-4)


@settings(deadline=None)
@given(shapes, scores)
def test_leave_one_out_baselines_do_not_move_with_their_own_trial(
    rows: list[tuple[float, float, float]], gain: float
) -> None:
    raised = [(rows[0][0] + gain, *rows[0][1:]), *rows[1:]]
    for estimator in (Rloo(), AgentSpecific(scale=Scale.NONE)):
        before = firsts(evaluated(estimator, group(*trials_of(rows))))
        after = firsts(evaluated(estimator, group(*trials_of(raised))))
        assert after[0] - before[0] == pytest.approx(gain, abs=1e-6)
        for mine, theirs in zip(after[1:], before[1:], strict=True):
            assert mine - theirs == pytest.approx(-gain / (len(rows) - 1), abs=1e-6)
