"""Statistics that outlive a step: running means, what is pooled, and a checkpoint between."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.credit.estimators.agent_specific import AgentSpecific
from mage.credit.estimators.reinforce import Reinforce
from mage.credit.running_stats import EMPTY, RunningMean, Stats, merge, pooled
from tests.credited import group, key, scores, shapes, trials_of


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["rock", "paper"]), shapes), max_size=4))
def test_statistics_survive_a_checkpoint_and_make_runs_equal(
    drawn: list[tuple[str, list[tuple[float, float, float]]]],
) -> None:
    groups = [group(*trials_of(rows), agent=agent) for agent, rows in drawn]
    for estimator in (AgentSpecific(), Reinforce()):
        stats = estimator.estimate(groups, EMPTY)[1]
        restored = msgspec.json.decode(msgspec.json.encode(stats), type=Stats)
        assert restored == stats
        assert estimator.estimate(groups, restored) == estimator.estimate(groups, stats)


@settings(deadline=None)
@given(st.lists(scores, max_size=6), st.sampled_from([0.5, 0.99, 1.0]))
def test_a_running_mean_is_the_weighted_mean_of_all_it_saw(values: list[float], decay: float) -> None:
    stats = merge(EMPTY, ((key(), value) for value in values), decay)
    weights = [decay ** (len(values) - 1 - i) for i in range(len(values))]
    expected = [sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)] if values else []
    assert [running.mean for _, running in stats.entries] == pytest.approx(expected, abs=1e-9)
    one_by_one = EMPTY
    for value in values:
        one_by_one = merge(one_by_one, [(key(), value)], decay)
    assert one_by_one == stats


def test_pooled_means_weigh_by_groups() -> None:
    stats = Stats(((key("a"), RunningMean(1.0, 1.0, 1)), (key("b"), RunningMean(5.0, 1.0, 3))))
    assert pooled(stats) == {("main", 0, None): 4.0}
