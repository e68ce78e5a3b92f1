"""The Bayes-optimal player through the whole trial machinery, against its exact values."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

import msgspec
import pytest

from mage.errors import ConfigError, PlayError
from mage.evaluation.exact import BayesAgentFactory, PlanObjective
from mage.rollout.group import play_trials
from mage.stats import mean
from mage.types import Failure, Task, Trial
from mage.worlds.openspiel.game import OpenSpielEnv, load_game
from tests.worlds import AnyWorld

KUHN = [("conservative", 1.0), ("aggressive", 1.0), ("intermediate", 1.0)]
SEVEN = [(name, 1.0) for name in ("always:rock", "always:paper", "always:scissors")] + [
    (name, 1.0) for name in ("cycle(step=1)", "cycle(step=2)", "copy", "beat-last")
]
DEALS = list(permutations(range(3), 2))


def near(value: str) -> object:
    return pytest.approx(float(Fraction(value)), abs=1e-12)


class EveryDealWorld(AnyWorld):
    """Kuhn poker in which the seed of a task spells its deals: digit k in base 6 is the deal of episode k."""

    def __init__(self) -> None:
        self._seeds = {(e, deal): self._find(e, deal) for e in range(3) for deal in range(len(DEALS))}

    def new_env(self, task: Task, episode: int) -> OpenSpielEnv:
        deal = task.seed // len(DEALS) ** episode % len(DEALS)
        return OpenSpielEnv(
            load_game(task.world), msgspec.structs.replace(task, seed=self._seeds[episode, deal]), episode
        )

    def _find(self, episode: int, deal: int) -> int:
        task = _task("kuhn_poker", "uniform", 0, 0)
        for seed in range(1000):
            env = OpenSpielEnv(load_game("kuhn_poker"), msgspec.structs.replace(task, seed=seed), episode)
            while env.to_move() is not None:
                env.step("pass")
            if env.result().facts["cards"] == DEALS[deal]:
                return seed
        raise AssertionError(f"no seed deals {DEALS[deal]}")


@pytest.mark.parametrize(
    ("seat", "objective", "values"),
    [
        (0, PlanObjective.LAST, ("1/18", "19/108", "77/324")),
        (0, PlanObjective.SUM, ("1/18", "5/27", "19/81")),
        (1, PlanObjective.LAST, ("1/6", "2/9", "20/81")),
    ],
)
def test_the_player_scores_its_exact_value_over_all_deals(
    seat: int, objective: PlanObjective, values: Sequence[str]
) -> None:
    tasks = [_task("kuhn_poker", name, seat, seed) for name, _ in KUHN for seed in range(len(DEALS) ** 3)]
    trials = _played(EveryDealWorld(), tasks, BayesAgentFactory(KUHN, objective))
    scores = [sum(t.scores[k] for t in trials) / len(trials) for k in range(3)]
    assert scores == [near(v) for v in values]


def test_the_player_finds_out_every_one_of_the_seven() -> None:
    tasks = [_task("rps(rounds=3)", name, seed % 2, seed) for name, _ in SEVEN for seed in range(60)]
    trials = _played(AnyWorld(), tasks, BayesAgentFactory(SEVEN, PlanObjective.LAST))
    assert {t.scores[2] for t in trials} == {1.0}
    total = mean([sum(t.scores) for t in trials])
    assert total.holds(146 / 63)
    assert trials[0].agent.name == "bayes-last"


def test_the_player_refuses_what_nobody_in_its_pool_would_do() -> None:
    (outcome,) = _outcomes(
        AnyWorld(),
        [_task("rps", "always:paper", 0, 1)],
        BayesAgentFactory([("always:rock", 1.0)], PlanObjective.SUM),
    )
    assert isinstance(outcome, Failure)
    assert outcome.error == PlayError.__name__
    assert "not in the pool" in outcome.message


def test_the_player_needs_fresh_deals() -> None:
    task = msgspec.structs.replace(_task("kuhn_poker", "uniform", 0, 1), replay_deal=True)
    with pytest.raises(ConfigError, match="replay_deal"):
        BayesAgentFactory(KUHN, PlanObjective.LAST)(task, 0)


def _task(game: str, opponent: str, seat: int, seed: int) -> Task:
    return Task(game, (opponent,), seat, seed, 3, replay_deal=False, early_stop=False, max_turns=100)


def _outcomes(world: AnyWorld, tasks: Sequence[Task], make_agent: BayesAgentFactory) -> list[Trial | Failure]:
    async def play() -> list[Trial | Failure]:
        return [outcome async for outcome in play_trials(world, [(task, 0) for task in tasks], make_agent)]

    return asyncio.run(play())


def _played(world: AnyWorld, tasks: Sequence[Task], make_agent: BayesAgentFactory) -> list[Trial]:
    outcomes = _outcomes(world, tasks, make_agent)
    assert [o for o in outcomes if isinstance(o, Failure)] == []
    return [o for o in outcomes if isinstance(o, Trial)]
