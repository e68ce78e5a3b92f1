"""Collapse alarms: what sounds, when, and how often."""

from __future__ import annotations

import pytest

from mage.config.sections import AlarmConfig
from mage.training.alarms import NO_ALARMS, AlarmState, watch_score, watch_step

CONFIG = AlarmConfig(entropy=0.1, invalid=0.5, dead=0.9, asymmetry=2.0, drop=0.3, patience=2)
GOOD = {"entropy/play": 0.8, "play/invalid_share": 0.0, "groups/dead_share": 0.2, "play/seat_gap": 0.5}


def sounded(*steps: dict[str, float]) -> list[list[str]]:
    """The alarms after each step."""
    watch, found = NO_ALARMS, []
    for metrics in steps:
        watch, alarms = watch_step(CONFIG, watch, metrics)
        found.append(alarms)
    return found


def test_a_healthy_run_is_quiet() -> None:
    assert sounded(GOOD, GOOD, GOOD) == [[], [], []]
    assert watch_step(CONFIG, NO_ALARMS, GOOD)[0].is_healthy


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("entropy/play", 0.05, "entropy/play is under 0.1 for 2 steps (0.05)"),
        ("play/invalid_share", 0.75, "play/invalid_share is over 0.5 for 2 steps (0.75)"),
        ("groups/distinct_texts", 0.0, "groups/distinct_texts is under 0.1 for 2 steps (0)"),
        ("groups/dead_share", 1.0, "groups/dead_share is over 0.9 for 2 steps (1)"),
        ("play/seat_gap", 3.0, "play/seat_gap is over 2.0 for 2 steps (3)"),
        ("gap/mean_difference", 0.06, "gap/mean_difference is over 0.05 for 2 steps (0.06)"),
        ("gap/outside_0.8_1.25", 0.02, "gap/outside_0.8_1.25 is over 0.01 for 2 steps (0.02)"),
    ],
)
def test_each_figure_sounds_when_it_stays_bad(name: str, value: float, sentence: str) -> None:
    bad = {**GOOD, name: value}
    assert sounded(bad, bad) == [[], [sentence]]
    assert not watch_step(CONFIG, NO_ALARMS, bad)[0].is_healthy


def test_a_limit_itself_is_not_bad() -> None:
    limits = {"entropy/play": 0.1, "play/invalid_share": 0.5, "groups/dead_share": 0.9, "play/seat_gap": 2.0}
    assert sounded(limits, limits) == [[], []]


def test_one_good_step_ends_a_streak() -> None:
    bad = {**GOOD, "entropy/play": 0.0}
    assert sounded(bad, GOOD, bad) == [[], [], []]


def test_an_alarm_sounds_again_each_time_patience_ends() -> None:
    bad = {**GOOD, "entropy/play": 0.0}
    assert [len(alarms) for alarms in sounded(bad, bad, bad, bad, bad)] == [0, 1, 0, 1, 0]


def test_several_figures_sound_at_once() -> None:
    bad = {"entropy/play": 0.0, "play/invalid_share": 1.0, "groups/dead_share": 1.0, "play/seat_gap": 9.0}
    assert [len(alarms) for alarms in sounded(bad, bad)] == [0, 4]


def test_a_step_without_a_figure_neither_ends_a_streak_nor_adds_to_it() -> None:
    bad = {**GOOD, "entropy/play": 0.0}
    silent = {name: value for name, value in GOOD.items() if name != "entropy/play"}
    assert [len(alarms) for alarms in sounded(bad, silent, bad, silent)] == [0, 0, 1, 0]


def test_watching_a_step_leaves_the_scores_alone() -> None:
    watch, _ = watch_step(CONFIG, AlarmState({}, {"seen": 0.7}), GOOD)
    assert watch.best == {"seen": 0.7}


def test_a_fall_from_the_best_score_sounds_at_once() -> None:
    watch = NO_ALARMS
    said = []
    for score in (0.2, 0.6, 0.35, 0.25, 0.7):
        watch, alarms = watch_score(CONFIG, watch, "seen", score)
        said.append(alarms)
    assert said == [[], [], [], ["score on seen fell from 0.600 to 0.250"], []]
    assert watch.best == {"seen": 0.7}


def test_splits_have_bests_of_their_own() -> None:
    watch, _ = watch_score(CONFIG, AlarmState({"entropy/play": 1}, {}), "seen", 0.9)
    watch, alarms = watch_score(CONFIG, watch, "unseen", 0.1)
    assert alarms == []
    assert watch == AlarmState({"entropy/play": 1}, {"seen": 0.9, "unseen": 0.1})
