"""Steps and groups with the returns one wants, and every estimator to judge them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from mage.credit.estimators import ESTIMATORS, Advantages, Estimator, make_estimator
from mage.credit.estimators.agent_specific import AgentSpecific, Scale
from mage.credit.estimators.cloning import Cloning
from mage.credit.estimators.gigpo import Anchors, Gigpo
from mage.credit.estimators.grpo import Grpo
from mage.credit.estimators.ppo import Ppo
from mage.credit.estimators.reinforce import Reinforce
from mage.credit.estimators.rloo import Rloo
from mage.credit.group_baselines import Unit
from mage.credit.running_stats import EMPTY, StatKey, Stats
from mage.credit.steps import CreditGroup, Step
from mage.types import Phase

PLAY, REFLECT = Phase.PLAY, Phase.REFLECT

ALL = [
    *(make_estimator(name, {}) for name in ESTIMATORS),
    Grpo(divide=False),
    *(AgentSpecific(scale=scale) for scale in Scale),
    *(kind(unit=Unit.TURN) for kind in (Grpo, Rloo, AgentSpecific)),
    Gigpo(anchors=Anchors.EPISODE),
]
JUDGING = [e for e in ALL if not isinstance(e, Cloning)]
"""Those that look at returns."""
COMPARING = [e for e in JUDGING if not isinstance(e, Ppo | Reinforce)]

scores = st.integers(-400, 400).map(lambda n: n / 8)
shapes = st.lists(st.tuples(scores, scores, scores), min_size=2, max_size=6)


def step(
    return_: float,
    episode: int = 0,
    phase: Phase = PLAY,
    turn: int = 0,
    key: str = "s",
    trained: bool = True,
    **more: float,
) -> Step:
    """A step with this return; what is not named is nothing."""
    return Step(episode, phase, turn, key, trained, return_, **{"discount": 0.0, "reward": 0.0, "value": 0.0, **more})


def group(*trials: Sequence[Step], agent: str = "rock", seat: int = 0, learner: str = "main") -> CreditGroup:
    """Siblings as they are credited."""
    return CreditGroup(agent, seat, learner, tuple(tuple(trial) for trial in trials))


def bandit(*returns: float, agent: str = "rock", seat: int = 0, learner: str = "main") -> CreditGroup:
    """Siblings of one turn each."""
    return group(*([step(return_)] for return_ in returns), agent=agent, seat=seat, learner=learner)


def evaluated(estimator: Estimator, *groups: CreditGroup, stats: Stats = EMPTY) -> Advantages:
    """The advantages alone."""
    return estimator.estimate(groups, stats)[0]


def firsts(advantages: Advantages, number: int = 0) -> list[float]:
    """The first advantage of each trial of a group."""
    return [trial[0] for trial in advantages[number]]


def one_of_four(x: float, agent: str = "rock", seat: int = 0, learner: str = "main") -> CreditGroup:
    """Four siblings of one turn each, the first of which scored."""
    return bandit(x, 0.0, 0.0, 0.0, agent=agent, seat=seat, learner=learner)


def key(agent: str = "rock", seat: int = 0, episode: int = 0, learner: str = "main") -> StatKey:
    """Where the spread of an agent is kept."""
    return StatKey(learner, agent, seat, episode, None)


def trials_of(rows: Sequence[tuple[float, float, float]]) -> list[list[Step]]:
    """A move, a reflection and a move in the second episode, in one of two states."""
    return [
        [step(a), step(b, phase=REFLECT), step(c, episode=1, key="s" if a > 0 else "t", reward=c, value=b)]
        for a, b, c in rows
    ]
