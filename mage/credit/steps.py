"""Steps: the turns of the trained seat as plain numbers, in order of play: the input of estimators.

Penalties for replies are added to the objective's rewards: they count for the turn and for earlier turns of its
episode, and never cross an episode boundary; a reflection gets only its own penalty. Otherwise a reflection would be
penalised for a later invalid reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from mage.credit.returns import ReturnSpec, discounted, trial_returns
from mage.types import Group, Objective, Phase, Trial, Turn


class Step(msgspec.Struct, frozen=True):
    """One turn of the trained seat, as estimators see it."""

    episode: int
    phase: Phase
    turn: int
    """Index of the turn within its episode and phase."""
    key: str
    """Equal for equal decision problems."""
    trained: bool
    """False for a turn that is left out of statistics and has advantage zero."""
    return_: float
    """The return under the objective, minus penalties."""
    discount: float
    """The discount from this step to the next; 0 for the last."""
    reward: float
    """Defined so that `return_` is `reward + discount x` the next step's `return_` under every objective."""
    value: float
    """The value head's estimate of `return_`; 0 without a value head."""


class CreditGroup(msgspec.Struct, frozen=True):
    """The steps of sibling trials: one tuple per trial, aligned with `agent_turns`."""

    opponent: str
    """The opponent played: a member's id, or its family where every task draws another member."""
    seat: int
    learner: str
    trials: tuple[tuple[Step, ...], ...]


def agent_turns(trial: Trial) -> tuple[Turn, ...]:
    """The turns of the task's seat in order of play: episode 0, reflection 0, episode 1, and so on."""
    return tuple(turn for plays, reflections in _by_episode(trial) for turn in (*plays, *reflections))


def credit_group(
    group: Group, return_spec: ReturnSpec, opponent: str, learner: str, values: Sequence[Sequence[float]] | None = None
) -> CreditGroup:
    """The steps of a group's trials; `values`, by trial and turn, are aligned with `agent_turns`.

    Failed trials are absent, so a group can hold one trial or none.
    """
    if values is None:
        values = [[0.0] * len(agent_turns(trial)) for trial in group.trials]
    trials = tuple(_steps(trial, return_spec, found) for trial, found in zip(group.trials, values, strict=True))
    return CreditGroup(opponent, group.task.seat, learner, trials)


def trained_advantages(
    steps: Sequence[Step], advantages: Sequence[float], *, is_tutored: bool = False
) -> tuple[float | None, ...]:
    """One trial's advantages, None for steps that are not trained, zero for the reflections of a tutored trial.

    Zero and None differ: a turn of advantage zero still counts in KL, entropy and averages.
    """
    found = [a if step.trained else None for step, a in zip(steps, advantages, strict=True)]
    if is_tutored:
        found = [0.0 if step.phase is Phase.REFLECT else a for step, a in zip(steps, found, strict=True)]
    return tuple(found)


class _Draft(NamedTuple):
    """A step without the values that depend on its successor."""

    episode: int
    phase: Phase
    turn: int
    key: str
    trained: bool
    return_: float

    @property
    def boundaries(self) -> int:
        """Number of episode boundaries before the step; a reflection comes after the boundary of its episode."""
        return self.episode + (self.phase is Phase.REFLECT)


def _by_episode(trial: Trial) -> list[tuple[list[Turn], list[Turn]]]:
    """The seat's moves and the reflections that follow them, for each episode."""
    return [
        (
            [turn for turn in episode.turns if turn.observation.seat == trial.task.seat],
            [turn for turn in trial.reflections if turn.observation.episode == index],
        )
        for index, episode in enumerate(trial.episodes)
    ]


def _steps(trial: Trial, return_spec: ReturnSpec, values: Sequence[float]) -> tuple[Step, ...]:
    """The steps of a trial, built backwards: reward and discount depend on the next step."""
    steps: list[Step] = []
    following: _Draft | None = None
    for draft, value in reversed(list(zip(_drafts(trial, return_spec), values, strict=True))):
        discount = _discount(draft, following, return_spec)
        reward = draft.return_ - discount * (following.return_ if following else 0.0)
        steps.append(Step(*draft, discount=discount, reward=reward, value=value))
        following = draft
    return tuple(reversed(steps))


def _drafts(trial: Trial, return_spec: ReturnSpec) -> list[_Draft]:
    episodes = _by_episode(trial)
    rewards = [[turn.reward for turn in plays] for plays, _ in episodes]
    returns = trial_returns(rewards, trial.scores, return_spec, trial.task.episodes)
    drafts: list[_Draft] = []
    for index, (plays, reflections) in enumerate(episodes):
        penalties = discounted([return_spec.penalty(turn) for turn in plays], [return_spec.inside] * len(plays))
        for number, (turn, return_, penalty) in enumerate(zip(plays, returns.plays[index], penalties, strict=True)):
            drafts.append(_Draft(index, Phase.PLAY, number, turn.observation.key, True, return_ - penalty))
        # A reflection after the last episode played (a person left) had no effect.
        trained = return_spec.objective is not Objective.SINGLE and index + 1 < len(episodes)
        for number, turn in enumerate(reflections):
            return_ = returns.starts[index + 1] - return_spec.penalty(turn) if trained else 0.0
            drafts.append(_Draft(index, Phase.REFLECT, number, turn.observation.key, trained, return_))
    return drafts


def _discount(draft: _Draft, following: _Draft | None, return_spec: ReturnSpec) -> float:
    """The discount between two steps: one factor per episode boundary, those of episodes without own turns included."""
    if following is None or not (draft.trained and following.trained):
        return 0.0
    if draft.phase is following.phase is Phase.PLAY and draft.episode == following.episode:
        return return_spec.inside
    return return_spec.across ** (following.boundaries - draft.boundaries)
