"""Steps: the turns of the trained seat as plain numbers, in order of play, ready for an estimator.

Penalties for bad replies are a stream of their own, added to the objective's: they count for the turn and for
earlier turns of its episode, and never cross an episode boundary. A reflection answers for its own length only.
Otherwise notes would be blamed for a later slip of format, and a habit of slips would look like the opponent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from mage.credit.returns import ReturnSpec, discounted, trial_returns
from mage.types import Group, Objective, Phase, Trial, Turn


class Step(msgspec.Struct, frozen=True):
    """One turn of the trained seat, as credit sees it."""

    episode: int
    phase: Phase
    turn: int
    """How many turns of this episode and phase came before."""
    key: str
    """Equal for equal decision problems."""
    trained: bool
    """False for a turn that takes no part in statistics and has advantage zero."""
    return_: float
    """The return: what the objective pays from here on, less penalties."""
    discount: float
    """What the next step counts for in this one; 0 where nothing follows."""
    reward: float
    """What this step adds, so that `ret` is `reward + discount x` the next step's `ret` under every objective."""
    value: float
    """What a value head expected `ret` to be; 0 without one."""


class CreditGroup(msgspec.Struct, frozen=True):
    """The steps of sibling trials: one tuple per trial, aligned with `agent_turns`."""

    opponent: str
    """Whom they played: a member's id, or its family where members never come back."""
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
    """One trial's advantages with None for steps that are not trained. Under a tutor no signal moves reflections.

    Zero and None differ: a turn of advantage zero still takes part in KL, entropy and averages.
    """
    found = [a if step.trained else None for step, a in zip(steps, advantages, strict=True)]
    if is_tutored:
        found = [0.0 if step.phase is Phase.REFLECT else a for step, a in zip(steps, found, strict=True)]
    return tuple(found)


class _Draft(NamedTuple):
    """A step before it knows what follows."""

    episode: int
    phase: Phase
    turn: int
    key: str
    trained: bool
    return_: float

    @property
    def boundaries(self) -> int:
        """How many episode boundaries lie behind it; a reflection stands on the far side of its own."""
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
    """Built backwards, so that each step knows its successor."""
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
    returns = trial_returns([[turn.reward for turn in plays] for plays, _ in episodes], trial.scores, return_spec)
    drafts: list[_Draft] = []
    for index, (plays, reflections) in enumerate(episodes):
        penalties = discounted([return_spec.penalty(turn) for turn in plays], [return_spec.inside] * len(plays))
        for number, (turn, return_, penalty) in enumerate(zip(plays, returns.plays[index], penalties, strict=True)):
            drafts.append(_Draft(index, Phase.PLAY, number, turn.observation.key, True, return_ - penalty))
        # A reflection that no episode follows (somebody left the table) changed nothing.
        trained = return_spec.objective is not Objective.SINGLE and index + 1 < len(episodes)
        for number, turn in enumerate(reflections):
            return_ = returns.starts[index + 1] - return_spec.penalty(turn) if trained else 0.0
            drafts.append(_Draft(index, Phase.REFLECT, number, turn.observation.key, trained, return_))
    return drafts


def _discount(draft: _Draft, following: _Draft | None, return_spec: ReturnSpec) -> float:
    """One discount per boundary between two steps, also those of episodes without a turn of this seat."""
    if following is None or not (draft.trained and following.trained):
        return 0.0
    if draft.phase is following.phase is Phase.PLAY and draft.episode == following.episode:
        return return_spec.inside
    return return_spec.across ** (following.boundaries - draft.boundaries)
