"""All trials of small games with a tabular softmax policy, and exact expectations over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import torch
from torch import Tensor

from mage.credit.returns import ReturnSpec, trial_returns
from mage.credit.steps import credit_group
from mage.seeds import uniform
from mage.types import Group, Objective, Phase, Trial
from mage.worlds.openspiel.game import load_game
from mage.worlds.openspiel.words.base import State
from tests.paid import TASK, played

Decision = tuple[str, int]
"""What is known before a decision, and the action taken."""


@dataclass(frozen=True)
class Line:
    """One way that an episode can go, given what was decided before."""

    chance: float
    """The probability of all that the policy does not decide."""
    decisions: tuple[Decision, ...]
    rewards: tuple[float, ...]


@dataclass(frozen=True)
class Whole:
    """One trial that can happen."""

    chance: float
    decisions: tuple[Decision, ...]
    """In the order of the trial's turns, reflections included."""
    trial: Trial


def stop_or_go(past: str, longest: int = 3) -> Iterator[Line]:
    """In each turn stop, for 2 less the number of the turn, or go on, which pays -1, 0.5 and in the end 1."""
    for length in range(1, longest + 1):
        goes = length - 1
        before = tuple((f"{past}|{'g' * turn}", 1) for turn in range(goes))
        paid = (-1.0, 0.5)[:goes]
        yield Line(1.0, (*before, (f"{past}|{'g' * goes}", 0)), (*paid, 2.0 - length))
        if length == longest:
            yield Line(1.0, (*before, (f"{past}|{'g' * goes}", 1)), (*paid, 1.0))


def kuhn(past: str) -> Iterator[Line]:
    """Kuhn poker in seat 0 against a player that bets with probability 1/3 wherever it can."""
    game = load_game("kuhn_poker")

    def follow(state: State, chance: float, decisions: tuple[Decision, ...]) -> Iterator[Line]:
        if state.is_terminal():
            rewards = (*(0.0 for _ in decisions[1:]), state.returns()[0])
            yield Line(chance, decisions, rewards)
        elif state.is_chance_node():
            for action, probability in state.chance_outcomes():
                yield from follow(state.child(action), chance * probability, decisions)
        elif state.current_player() == 0:
            key = f"{past}|{state.information_state_string(0)}"
            for action in state.legal_actions():
                yield from follow(state.child(action), chance, (*decisions, (key, action)))
        else:
            for action in state.legal_actions():
                yield from follow(state.child(action), chance * (1 / 3 if action else 2 / 3), decisions)

    return follow(game.start(0), 1.0, ())


def fixed(past: str) -> Iterator[Line]:
    """Two turns of two moves, whatever happens."""
    for first in range(2):
        for second in range(2):
            yield Line(1.0, ((f"{past}|", first), (f"{past}|{first}", second)), (1.0 - 2 * first, 0.5 * second))


def trials(lines: Callable[[str], Iterator[Line]], num_episodes: int, *, early_stop: bool = False) -> list[Whole]:
    """All trials of a game, with one of two notes between episodes."""
    task = msgspec.structs.replace(TASK, episodes=num_episodes, early_stop=early_stop)

    def follow(so_far: tuple[Line, ...], notes: tuple[Decision, ...], past: str) -> Iterator[Whole]:
        is_over = len(so_far) == num_episodes or (early_stop and so_far and sum(so_far[-1].rewards) > 0)
        if is_over:
            after = [*((note,) for note in notes), ()]
            decisions = tuple(d for line, note in zip(so_far, after, strict=True) for d in (*line.decisions, *note))
            chance = 1.0
            for line in so_far:
                chance *= line.chance
            trial = played([list(line.rewards) for line in so_far])
            yield Whole(chance, decisions, msgspec.structs.replace(trial, task=task))
            return
        for note in range(2) if so_far else (None,):
            own = notes if note is None else (*notes, (f"{past}!", note))
            here = past if note is None else f"{past}!{note}"
            for line in lines(here):
                told = f"{here}/{''.join(str(action) for _, action in line.decisions)}{sum(line.rewards):+.1f}"
                yield from follow((*so_far, line), own, told)

    return list(follow((), (), ""))


class Tabular:
    """A softmax policy with a row of two logits for everything that can be known before a decision."""

    def __init__(self, wholes: Sequence[Whole]) -> None:
        keys = dict.fromkeys(key for whole in wholes for key, _ in whole.decisions)
        rows: Mapping[str, int] = {key: row for row, key in enumerate(keys)}
        numbers = [[2 * uniform(7, "logit", key, action) - 1 for action in range(2)] for key in keys]
        self.logits = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
        made = [(rows[key], action, n) for n, whole in enumerate(wholes) for key, action in whole.decisions]
        rows_N, actions_N, self.trials_N = torch.tensor(made).unbind(dim=1)
        self.logprobs_N = self.logits.log_softmax(dim=1)[rows_N, actions_N]
        """The log-probability of every decision of every trial, one after the other; `trials_N` says of which trial."""
        self.sums_B = torch.zeros(len(wholes), dtype=torch.float64).index_add(0, self.trials_N, self.logprobs_N)
        """Those of the trials, but for chance."""
        self.chances_B = torch.tensor([whole.chance for whole in wholes], dtype=torch.float64)

    def gradient(self, value: Tensor) -> Tensor:
        """The gradient of a number by the logits."""
        (found,) = torch.autograd.grad(value, self.logits)
        return found


def estimated(wholes: Sequence[Whole], return_spec: ReturnSpec) -> Tensor:
    """The expectation of the sum of return x gradient of log-probability over the trained turns of a trial."""
    policy = Tabular(wholes)
    returns: list[float] = []
    for whole in wholes:
        (steps,) = credit_group(Group(whole.trial.task, (whole.trial,), ()), return_spec, "x", "main").trials
        returns += [step.return_ if step.trained else 0.0 for step in steps]
    probabilities_B = policy.chances_B * policy.sums_B.exp().detach()
    returns_N = torch.tensor(returns, dtype=torch.float64)
    return policy.gradient((probabilities_B[policy.trials_N] * returns_N * policy.logprobs_N).sum())


def stated(wholes: Sequence[Whole], return_spec: ReturnSpec) -> Tensor:
    """The gradient of every turn's expected return by that turn's own decision, all else held fixed.

    Returns are the objective's own, without `to_go`.
    """
    whole_returns = msgspec.structs.replace(return_spec, to_go=False)
    policy = Tabular(wholes)
    returns = [value for whole in wholes for value in _in_order(whole.trial, whole_returns)]
    others_N = policy.sums_B.detach()[policy.trials_N] - policy.logprobs_N.detach()
    # The probability of the trial as a function of one decision at a time.
    probabilities_N = policy.chances_B[policy.trials_N] * (others_N + policy.logprobs_N).exp()
    return policy.gradient((torch.tensor(returns, dtype=torch.float64) * probabilities_N).sum())


def gradient_of(wholes: Sequence[Whole], worth: Callable[[Trial], float]) -> Tensor:
    """The gradient of the expectation of a trial's worth."""
    policy = Tabular(wholes)
    worths_B = torch.tensor([worth(whole.trial) for whole in wholes], dtype=torch.float64)
    return policy.gradient((policy.chances_B * policy.sums_B.exp() * worths_B).sum())


def _in_order(trial: Trial, return_spec: ReturnSpec) -> list[float]:
    """The returns of a trial's turns by the formula alone; a reflection gets that of the episode after it."""
    rewards = [[turn.reward for turn in episode.turns] for episode in trial.episodes]
    found = trial_returns(rewards, trial.scores, return_spec)
    is_paid = return_spec.objective is not Objective.SINGLE
    ordered: list[float] = []
    for number, own in enumerate(found.plays):
        ordered += own
        if any(turn.observation.episode == number for turn in trial.reflections):
            ordered.append(found.starts[number + 1] if is_paid else 0.0)
    return ordered


def lengths(wholes: Sequence[Whole]) -> set[int]:
    """The numbers of turns that episodes of these trials have."""
    return {sum(t.phase is Phase.PLAY for t in episode.turns) for whole in wholes for episode in whole.trial.episodes}


def is_complete(wholes: Sequence[Whole]) -> bool:
    """Whether the probabilities add up to one, and no key is met twice in a trial."""
    policy = Tabular(wholes)
    total = (policy.chances_B * policy.sums_B.exp()).sum().item()
    unique = all(a != b for whole in wholes for (a, _), (b, _) in pairwise(sorted(whole.decisions)))
    return abs(total - 1.0) < 1e-9 and unique
