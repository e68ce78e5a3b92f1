"""What replies cost: those of no use, those cut short, and long ones."""

from __future__ import annotations

import pytest

from mage.config.load import load_config
from mage.credit.returns import ReturnSpec
from mage.training.parts import return_spec_of
from mage.types import Objective, Trial
from tests.paid import INFO, TASK, call, choice, ended, move, note, rets


def test_penalties_stay_inside_their_episode() -> None:
    slip = (call("no tag"), call())
    turns = [[move(k, 0, 0.0), move(k, 1, 1.0, calls=slip)] for k in range(2)]
    trial = Trial(TASK, 0, INFO, (ended(turns[0], 1.0), ended(turns[1], 1.0)), (note(0),), (), ())
    free, dear = ReturnSpec(Objective.CUMULATIVE, 0.5, 0.5), ReturnSpec(Objective.CUMULATIVE, 0.5, 0.5, invalid=0.5)
    # Episode 1: 0.5, 1; the note 0.5; episode 0: 1 + 0.25 = 1.25, 0.625.
    assert rets(trial, free) == [0.625, 1.25, 0.5, 0.5, 1.0]
    # Each second move pays 0.5, each first move half of it; the note and the other episode pay nothing.
    assert rets(trial, dear) == [0.375, 0.75, 0.5, 0.25, 0.5]
    assert rets(trial, ReturnSpec(Objective.FINAL, 0.5, 0.5, invalid=0.5)) == [0.5, 0.5, 1.0, 0.5, 0.5]


def test_a_note_pays_for_its_own_length_only() -> None:
    episodes = (ended([move(0, 0, 0.0)], 0.0), ended([move(1, 0, 1.0)], 1.0))
    trial = Trial(TASK, 0, INFO, episodes, (note(0, (call(truncated=True),)),), (), ())
    assert rets(trial, ReturnSpec(Objective.CUMULATIVE, 0.5, 0.5, overlong=2.0)) == [0.5, -1.0, 1.0]
    assert rets(trial, ReturnSpec(Objective.SINGLE, 0.5, 0.5, overlong=2.0)) == [0.0, 0.0, 1.0]


def test_every_bad_reply_of_a_turn_counts() -> None:
    return_spec = ReturnSpec(Objective.SINGLE, 1.0, 1.0, invalid=0.5, overlong=2.0)
    calls = (call("no tag", truncated=True), call("not legal"), call())
    assert return_spec.penalty(move(0, 0, 0.0, calls=calls)) == 3.0
    assert return_spec.penalty(move(0, 0, 0.0)) == 0.0


def test_a_recipe_says_what_replies_cost() -> None:
    costs = (
        "credit.invalid_penalty=0.5",
        "credit.truncated_penalty=2",
        "credit.length_penalty=0.25",
        "credit.length_free=4",
    )
    config = load_config("rps", ["credit.turn=0.75", "credit.episode=0.5", *costs])
    wanted = ReturnSpec(Objective.CUMULATIVE, 0.75, 0.5, invalid=0.5, overlong=2.0, length=0.25, free=4)
    assert return_spec_of(config.credit) == wanted


@pytest.mark.parametrize(("length", "cost"), [(1, 0.0), (4, 0.0), (5, 0.25), (7, 0.75)])
def test_length_costs_from_the_first_token_that_is_not_free(length: int, cost: float) -> None:
    return_spec = ReturnSpec(Objective.SINGLE, 1.0, 1.0, length=0.25, free=4)
    assert return_spec.penalty(move(0, 0, 0.0, calls=(call(length=length),))) == cost
    assert return_spec.penalty(note(0, (call(length=length),))) == cost
    assert return_spec.penalty(move(0, 0, 0.0, calls=(choice(length),))) == 0.0, "the words of a choice are the game's"
    assert ReturnSpec(Objective.SINGLE, 1.0, 1.0, length=0.25).penalty(note(0, (call(length=length),))) == length / 4
    assert ReturnSpec(Objective.SINGLE, 1.0, 1.0, free=1).penalty(note(0, (call(length=length),))) == 0.0


def test_length_is_free_for_each_reply_and_comes_on_top_of_other_penalties() -> None:
    return_spec = ReturnSpec(Objective.SINGLE, 1.0, 1.0, invalid=0.5, overlong=2.0, length=0.25, free=4)
    # 2 tokens too many and of no use: 1; 6 too many and cut: 3.5; 3 of 4 free: 0. Unused free tokens pay for nothing.
    calls = (call("no tag", length=6), call(truncated=True, length=10), call(length=3))
    assert return_spec.penalty(move(0, 0, 0.0, calls=calls)) == 4.5


def test_length_counts_for_earlier_turns_of_the_episode_and_for_the_note_itself() -> None:
    first = ended([move(0, 0, 0.0), move(0, 1, 1.0, calls=(call(length=6),))], 1.0)
    second = ended([move(1, 0, 1.0, calls=(call(length=5),))], 1.0)
    trial = Trial(TASK, 0, INFO, (first, second), (note(0, (call(length=8),)),), (), ())
    return_spec = ReturnSpec(Objective.CUMULATIVE, 0.5, 0.5, length=0.25, free=4)
    # Without: 0 + 1/2 x 1.5 = 0.75, 1 + 1/2 x 1 = 1.5; the note 1; then 1. Two tokens too many: 0.5, half of it before.
    assert rets(trial, ReturnSpec(Objective.CUMULATIVE, 0.5, 0.5)) == [0.75, 1.5, 1.0, 1.0]
    assert rets(trial, return_spec) == [0.5, 1.0, 0.0, 0.75]
