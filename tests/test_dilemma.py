"""The prisoner's dilemma as a task: exact values, members with weights, and what a success is."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import msgspec
import pytest

import mage
from mage.config.load import load_config
from mage.errors import ConfigError
from mage.evaluation.config_splits import population_of
from mage.evaluation.eval_agent import BayesEvalAgent, load_eval_agent
from mage.evaluation.exact import PlanObjective, bayes_optimal
from mage.evaluation.splits import Split, load_split, make_split, weighted_split
from mage.evaluation.suite.evaluate import evaluation_tasks, split_references
from mage.stats import Verdict, result_verdict
from mage.training.build import draw_tasks
from mage.types import Ending, Result, Task
from mage.worlds.openspiel.game import OpenSpielEnv, load_game

FOUR = load_split("dilemma-four")
WORLD = "pd(rounds=4)"


def near(value: float) -> object:
    return pytest.approx(value, abs=1e-9)


def played(*moves: str, world: str = WORLD, max_turns: int = 1000) -> Result:
    """The result of an episode with these moves in turn; nothing is given up by an empty one."""
    task = Task(world, ("grim",), 0, 0, 1, replay_deal=False, early_stop=False, max_turns=max_turns)
    env = OpenSpielEnv(load_game(world), task, 0)
    for move in moves:
        env.step(move or None)
    return env.result()


@pytest.mark.parametrize("name", ["dilemma-four", "dilemma-reworded"])
@pytest.mark.parametrize("seat", [0, 1])
def test_it_needs_exploration(name: str, seat: int) -> None:
    ((_, found),) = split_references(load_split(name), (seat,), 3)
    assert found.memoryless == near(3.225)
    assert found.myopic is not None
    assert msgspec.structs.astuple(found.myopic) == (near(3.25),) * 3
    assert found.bayes_last == near(3.7)
    assert (found.bayes_sum, found.bayes_sum_split) == (near(10.475), (near(3.075), near(3.7), near(3.7)))
    assert found.best_response_mean == near(3.7)
    replies = {"always(cooperate)": 5.0, "always(defect)": 1.0, "copy(first=cooperate)": 3.5, "grim": 3.5}
    assert found.best_response == {member: near(score) for member, score in replies.items()}


def test_the_same_pool_of_joint_memory_one_players_has_the_same_values() -> None:
    begun = {"cooperate": ("[0,0,0,0]", "[0,1,0,1]", "[0,1,1,1]"), "defect": ("[1,1,1,1]",)}
    joint = [f"memory-one(first={move},map={table},on=both)" for move, tables in begun.items() for table in tables]
    members = list(zip(joint, (0.3, 0.1, 0.5, 0.1), strict=True))
    scores = bayes_optimal(WORLD, members, 0, 3, PlanObjective.SUM)
    assert scores == (near(3.075), near(3.7), near(3.7))


def test_members_are_played_by_their_weights() -> None:
    tasks = evaluation_tasks(FOUR, episodes=3, seats=(0, 1), trials=2, seed=0)
    counts = Counter((task.opponents[0], task.seat) for task in tasks)
    assert counts == {(member, seat): 2 * weight for member, weight in FOUR.weighted_members for seat in (0, 1)}
    assert len({task.seed for task in tasks}) == len(tasks) == 40
    alike = make_split(FOUR.name, "", FOUR.world, FOUR.members, held_out=False)
    assert {*evaluation_tasks(alike, episodes=3, seats=(0, 1), trials=2, seed=0)} < {*tasks}


def test_training_draws_members_by_the_weights_of_the_split() -> None:
    config = load_config("dilemma")
    assert population_of(config) == [(member, float(weight)) for member, weight in FOUR.weighted_members]
    counts = Counter(task.opponents[0] for task in islice(draw_tasks(config, "tasks"), 2000))
    assert {member: round(count / 2000, 1) for member, count in counts.items()} == {
        member: weight / 10 for member, weight in FOUR.weighted_members
    }


def test_weights_of_a_config_stand_before_those_of_the_split() -> None:
    more = ["population.members=['uniform']"]
    assert [weight for _, weight in population_of(load_config("dilemma", more))] == [3.0, 1.0, 1.0, 5.0, 1.0]
    given = load_config("dilemma", [*more, "population.weights=[1,2,3,4,5]"])
    assert [weight for _, weight in population_of(given)] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_weights_are_part_of_the_hash_of_a_split() -> None:
    plain = make_split("dilemma-four", "", FOUR.world, FOUR.members, held_out=False)
    assert len({plain.sha256, FOUR.sha256, weighted_split(plain, (1, 1, 1, 1)).sha256}) == 3
    changed = msgspec.structs.replace(FOUR, weights=(3, 1, 1, 4))
    assert FOUR.has_its_hash
    assert not changed.has_its_hash
    assert msgspec.json.decode(msgspec.json.encode(FOUR), type=Split) == FOUR
    assert b"weights" not in msgspec.json.encode(plain)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((3, 1, 1), "the split 'dilemma-four' needs a weight for each of 4 members"),
        ((3, 1, 0, 5), "a weight must be a whole number from 1, not 0"),
        ((3, 1, 0.5, 5), "a weight must be a whole number from 1, not 0.5"),
    ],
)
def test_bad_weights_are_refused(weights: tuple[int, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        weighted_split(FOUR, weights)


def test_the_bayes_optimal_player_knows_the_weights(tmp_path: Path) -> None:
    seat = {"trial.seats": [0]}
    report = mage.evaluate("bayes-optimal", seat, opponents=[FOUR.name], trials=1, folder=tmp_path / "bayes")
    found = report.splits[FOUR.name]
    assert found.num_trials == 10
    assert found.agent.scores[-1].value == near(3.7)
    assert found.control.scores[-1].value == near(3.225)
    told, asked = load_eval_agent("bayes-optimal").for_split(FOUR), load_eval_agent("bayes-optimal(pool=dilemma-four)")
    assert isinstance(told, BayesEvalAgent)
    assert isinstance(asked, BayesEvalAgent)
    assert told.members == asked.members == FOUR.weighted_members


@pytest.mark.parametrize(
    ("moves", "returns", "successes"),
    [
        (("cooperate", "cooperate") * 4, (3.0, 3.0), (True, True)),
        (("cooperate", "cooperate") * 3 + ("defect", "cooperate"), (3.5, 2.25), (True, False)),
        (("cooperate", "cooperate") * 3 + ("defect", "defect"), (2.5, 2.5), (False, False)),
        (("defect", "cooperate") + ("defect", "defect") * 3, (2.0, 0.75), (False, False)),
    ],
)
def test_a_success_is_what_cooperation_pays_or_more(
    moves: tuple[str, ...], returns: tuple[float, ...], successes: tuple[bool, ...]
) -> None:
    result = played(*moves)
    assert (result.returns, result.successes) == (returns, successes)
    wins = tuple(result_verdict(result, seat) is Verdict.WIN for seat in (0, 1))
    assert wins == successes


def test_an_episode_that_is_given_up_or_stopped_early_is_no_success() -> None:
    given_up = played("defect", "cooperate", "")
    assert (given_up.ending, given_up.returns, given_up.successes) == (Ending.FORFEITED, (0.0, 0.0), (False, False))
    stopped = played(*("cooperate",) * 4, max_turns=4)
    assert (stopped.ending, stopped.successes) == (Ending.TRUNCATED, (False, False))


def test_other_matrix_games_leave_success_to_the_score() -> None:
    assert played("rock", "scissors", world="rps(rounds=1)").successes == ()
