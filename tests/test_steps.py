"""From groups of trials to steps: order, phases, and trials that ended in odd ways."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.credit.estimators.ppo import Ppo
from mage.credit.estimators.rloo import Rloo
from mage.credit.returns import ReturnSpec
from mage.credit.running_stats import EMPTY
from mage.credit.steps import agent_turns, credit_group, trained_advantages
from mage.rollout.group import play_groups
from mage.types import Ending, Failure, Group, Objective, Observation, Phase, Reply, Task, Trial
from tests.paid import HALF, INFO, TASK, call, ended, move, note, played, rets, steps
from tests.worlds import AnyWorld

TRAINS_REFLECTIONS = [o for o in Objective if o is not Objective.SINGLE]


def test_order_is_the_order_of_play_and_other_seats_are_left_out() -> None:
    first = ended([move(0, 0, 9.0, seat=1), move(0, 0, 1.0), move(0, 1, 9.0, seat=1), move(0, 1, 2.0)], 3.0)
    second = ended([move(1, 0, 4.0)], 4.0)
    trial = Trial(TASK, 0, INFO, (first, second), (note(0),), (), ())
    assert [(t.phase, t.observation.episode, t.reward) for t in agent_turns(trial)] == [
        (Phase.PLAY, 0, 1.0),
        (Phase.PLAY, 0, 2.0),
        (Phase.REFLECT, 0, 0.0),
        (Phase.PLAY, 1, 4.0),
    ]
    found = steps(trial, HALF[Objective.CUMULATIVE])
    assert [(s.episode, s.phase, s.turn, s.key) for s in found] == [
        (0, Phase.PLAY, 0, "state 0"),
        (0, Phase.PLAY, 1, "state 1"),
        (0, Phase.REFLECT, 0, "reflection"),
        (1, Phase.PLAY, 0, "state 0"),
    ]
    # 4; the reflection 4; 2 + 1/2 x 4 = 4; 1 + 1/2 x 4 = 3.
    assert [s.return_ for s in found] == [3.0, 4.0, 4.0, 4.0]
    assert [s.reward for s in found] == [1.0, 2.0, 0.0, 4.0]
    assert [s.discount for s in found] == [0.5, 0.5, 1.0, 0.0]


def test_the_other_seat_has_steps_of_its_own() -> None:
    episode = ended([move(0, 0, 1.0), move(0, 0, -1.0, seat=1)], 1.0)
    task = Task("rps", ("uniform",), 1, 7, 1, False, False, 100)
    trial = Trial(task, 0, INFO, (episode,), (), (), ())
    group = credit_group(Group(task, (trial,), ()), HALF[Objective.FINAL], "rock", "main")
    assert (group.seat, [s.return_ for s in group.trials[0]]) == (1, [-1.0])


@pytest.mark.parametrize(
    ("objective", "plays", "reflections"),
    [
        (Objective.CUMULATIVE, [-11.27, -4.14, 9.03], [-4.14, 9.03]),
        (Objective.CUMULATIVE_PAPER, [-11.19, -3.61, 9.03], [-3.61, 9.03]),
        (Objective.DIFFERENTIAL, [-3.73, 9.77, 18.05], [9.77, 18.05]),
        (Objective.FINAL, [10.0] * 3, [10.0] * 2),
    ],
)
def test_a_reflection_is_paid_what_the_episode_after_it_starts_with(
    objective: Objective, plays: list[float], reflections: list[float]
) -> None:
    trial = played([[0.0, 0.0, -10.0], [0.0, 0.0, -10.0], [0.0, 0.0, 10.0]])
    found = steps(trial, ReturnSpec(objective, 0.95, 0.6))
    assert [s.return_ for s in found if s.phase is Phase.REFLECT] == pytest.approx(reflections, abs=0.0051)
    assert [s.return_ for s in found if s.phase is Phase.PLAY and s.turn == 0] == pytest.approx(plays, abs=0.0051)
    assert all(s.trained for s in found)


def test_single_trains_no_reflections() -> None:
    found = steps(played([[1.0], [2.0], [4.0]]), HALF[Objective.SINGLE])
    assert [s.trained for s in found] == [True, False, True, False, True]
    assert [(s.return_, s.reward, s.discount) for s in found if not s.trained] == [(0.0, 0.0, 0.0)] * 2
    assert [s.return_ for s in found if s.trained] == [1.0, 2.0, 4.0]
    assert trained_advantages(found, [0.1, 0.0, 0.0, 0.0, 0.3]) == (0.1, None, 0.0, None, 0.3)
    assert trained_advantages(found, [0.1, 0.2, 0.0, 0.2, 0.3], is_tutored=True) == (0.1, 0.0, 0.0, 0.0, 0.3)


@pytest.mark.parametrize("objective", TRAINS_REFLECTIONS)
def test_notes_that_led_to_a_better_ending_have_a_positive_advantage(objective: Objective) -> None:
    group = Group(TASK, (played([[0.0], [1.0]]), played([[0.0], [-1.0]])), ())
    advantages, _ = Rloo().estimate([credit_group(group, HALF[objective], "rock", "main")], EMPTY)
    good, bad = advantages[0]
    assert good[1] == 2.0
    assert bad[1] == -2.0
    assert good[0] > 0 > bad[0]  # and so has the exploring episode before them: credit crosses the boundary


def test_memory_without_reflections() -> None:
    trial = played([[1.0], [2.0]], reflect=False)
    assert rets(trial, HALF[Objective.CUMULATIVE]) == [2.0, 2.0]
    assert [s.discount for s in steps(trial, HALF[Objective.CUMULATIVE])] == [0.5, 0.0]
    assert [s.discount for s in steps(trial, HALF[Objective.SINGLE])] == [0.0, 0.0]


def test_a_reflection_that_nothing_followed_is_not_trained() -> None:
    """Somebody wrote a note and left the table before the next episode was over."""
    trial = Trial(TASK, 0, INFO, (ended([move(0, 0, 3.0)], 3.0),), (note(0),), (), ())
    for objective in Objective:
        found = steps(trial, HALF[objective])
        assert [(s.trained, s.return_, s.discount) for s in found] == [(True, 3.0, 0.0), (False, 0.0, 0.0)]


def test_an_early_stop_leaves_fewer_steps() -> None:
    trial = played([[-1.0], [1.0]])
    assert rets(trial, HALF[Objective.DIFFERENTIAL]) == [0.0, 2.0, 2.0]
    assert rets(trial, HALF[Objective.FINAL]) == [1.0, 1.0, 1.0]


def test_a_truncated_episode_is_paid_what_it_scored() -> None:
    """Two rounds of three were played: nothing is made up for the third."""
    truncated = ended([move(0, 0, 1.0), move(0, 1, -0.5)], 0.5, Ending.TRUNCATED)
    trial = Trial(TASK, 0, INFO, (truncated, ended([move(1, 0, 2.0)], 2.0)), (note(0),), (), ())
    # -0.5 + 1/2 x 2 = 0.5; 1 + 1/2 x 0.5 = 1.25.
    assert rets(trial, HALF[Objective.CUMULATIVE]) == [1.25, 0.5, 2.0, 2.0]
    # d = (0.5, 1.5): 0.5 + 1/2 x 1.5 = 1.25; 0.625.
    assert rets(trial, HALF[Objective.DIFFERENTIAL]) == [0.625, 1.25, 1.5, 1.5]


def test_a_forfeit_costs_its_own_turn_what_had_been_won() -> None:
    """One round won (1), then given up: the score is the game's minimum, -3, so the last turn is paid -4."""
    quit_ = ended([move(0, 0, 1.0), move(0, 1, -4.0)], -3.0, Ending.FORFEITED)
    trial = Trial(TASK, 0, INFO, (quit_, ended([move(1, 0, 3.0)], 3.0)), (), (), ())
    # -4 + 1/2 x 3 = -2.5; 1 - 1.25 = -0.25.
    assert rets(trial, HALF[Objective.CUMULATIVE]) == [-0.25, -2.5, 3.0]
    # d = (-3, 6): -3 + 3 = 0; 0.
    assert rets(trial, HALF[Objective.DIFFERENTIAL]) == [0.0, 0.0, 6.0]
    assert rets(trial, HALF[Objective.SINGLE]) == [-1.0, -4.0, 3.0]


def test_failed_trials_are_absent_and_one_alone_has_nobody_to_beat() -> None:
    group = Group(TASK, (played([[5.0]]),), (Failure(TASK, 1, "EngineError", "gone"),))
    credit = credit_group(group, HALF[Objective.FINAL], "rock", "main")
    assert [len(trial) for trial in credit.trials] == [1]
    assert Rloo().estimate([credit], EMPTY)[0] == (((0.0,),),)
    assert credit_group(Group(TASK, (), ()), HALF[Objective.FINAL], "rock", "main").trials == ()


def test_an_episode_without_a_turn_pays_the_note_before_it() -> None:
    """Scores 2, 4, 8; the seat never acted in episode 1."""
    trial = played([[2.0], [], [8.0]], [2.0, 4.0, 8.0])
    found = steps(trial, HALF[Objective.CUMULATIVE])
    # Note 0 is paid 4 + 1/2 x 8 = 8; it lies one boundary before note 1, which is paid 8.
    assert [s.return_ for s in found] == [6.0, 8.0, 8.0, 8.0]
    assert [s.discount for s in found] == [0.5, 0.5, 1.0, 0.0]
    assert [s.reward for s in found] == [2.0, 4.0, 0.0, 8.0]


def test_an_episode_without_a_turn_pays_the_turn_before_it_where_there_are_no_notes() -> None:
    found = steps(played([[2.0], [], [8.0]], [2.0, 4.0, 8.0], reflect=False), HALF[Objective.CUMULATIVE])
    # Two boundaries lie between the moves: 2 + 1/2 x 4 is added, 1/4 x 8 is to come.
    assert [(s.return_, s.discount, s.reward) for s in found] == [(6.0, 0.25, 4.0), (8.0, 0.0, 8.0)]


def test_values_are_aligned_with_the_turns() -> None:
    group = Group(TASK, (played([[1.0], [2.0]]),), ())
    return_spec = HALF[Objective.CUMULATIVE]
    found = credit_group(group, return_spec, "rock", "main", [[0.1, 0.2, 0.3]]).trials[0]
    assert [s.value for s in found] == [0.1, 0.2, 0.3]
    assert [s.value for s in credit_group(group, return_spec, "rock", "main").trials[0]] == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="zip"):
        credit_group(group, return_spec, "rock", "main", [[0.1, 0.2]])


quarters = st.integers(-8, 8).map(lambda n: n / 4)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.lists(quarters, max_size=3), quarters), max_size=4),
    st.booleans(),
    st.lists(quarters, min_size=15, max_size=15),
)
def test_steps_form_one_chain_under_every_objective(
    drawn: list[tuple[list[float], float]], reflect: bool, values: list[float]
) -> None:
    """`ret` is reward + discount x next `ret`, so PPO with lambda 1 judges by the return itself."""
    trial = played([turns for turns, _ in drawn], [score for _, score in drawn], reflect, (call("no tag"),))
    used = values[: len(agent_turns(trial))]
    for objective in Objective:
        return_spec = ReturnSpec(objective, 0.5, 0.75, invalid=1.0)
        credit = credit_group(Group(TASK, (trial,), ()), return_spec, "rock", "main", [used])
        found = credit.trials[0]
        for step, after in pairwise(found):
            assert step.return_ == pytest.approx(step.reward + step.discount * after.return_)
        assert not found or found[-1].discount == 0.0
        advantages, _ = Ppo(lam=1.0).estimate([credit], EMPTY)
        expected = [s.return_ - s.value if s.trained else 0.0 for s in found]
        assert advantages[0][0] == pytest.approx(expected)


class Quitter:
    """Plays the first legal action, and gives up on its second turn of the second episode."""

    info = INFO

    async def act(self, observation: Observation) -> Reply:
        gives_up = observation.episode == 1 and observation.turn == 1
        return Reply(None if gives_up else observation.actions[0], "", ())

    async def reflect(self, outcome: Observation) -> Reply | None:
        return Reply(f"episode {outcome.episode} is over", "", ())

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()


def test_a_trial_that_was_really_played() -> None:
    task = Task("rps(rounds=3)", ("uniform",), 1, 5, 3, False, False, 100)
    (group,) = asyncio.run(play_groups(AnyWorld(), [task], 2, lambda _task, _sibling: Quitter()))
    scores = group.trials[0].scores
    credit = credit_group(group, ReturnSpec(Objective.CUMULATIVE, 1.0, 1.0), "uniform", "main")
    found = credit.trials[0]
    assert [(s.episode, s.phase is Phase.REFLECT) for s in found] == [
        *[(0, False)] * 3,
        (0, True),
        *[(1, False)] * 2,
        (1, True),
        *[(2, False)] * 3,
    ]
    assert scores[1] == -1.0
    # Undiscounted, the first turn of an episode is paid its score and those of all later ones.
    starts = [s.return_ for s in found if s.phase is Phase.PLAY and s.turn == 0]
    assert starts == pytest.approx([sum(scores[k:]) for k in range(3)])
    assert [s.return_ for s in found if s.phase is Phase.REFLECT] == pytest.approx(starts[1:])
    assert credit.trials[0] == credit.trials[1]  # siblings that act alike meet the same opponent
