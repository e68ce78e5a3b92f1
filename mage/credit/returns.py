"""Returns of the turns of a trial, under each of the five objectives.

Episode k has the score R_k. An objective defines the reward of each turn, and the discount from a turn to the start of
the next episode; `trial_returns` is then one formula:

    return of turn i = its own episode's rewards to go + crossing_i x return at the start of the next episode

| objective        | rewards                                | inside  | crossing, n turns left in the episode |
|------------------|----------------------------------------|---------|---------------------------------------|
| single           | turn rewards                           | turn    | 0                                     |
| cumulative       | turn rewards                           | turn    | episode x turn^n (LaMer's code)       |
| cumulative-paper | turn rewards                           | turn    | episode          (LaMer's paper)      |
| differential     | R_k - R_(k-1), on the last turn of k   | turn    | episode x turn^n (MAGE's code)        |
| final            | R_(N-1), on the last turn of the trial | 1       | 1                                     |

A reflection gets the return at the start of the episode that follows it, undiscounted. Only episodes that were played
count: after an early stop the last one played is the last; a truncated or forfeited episode is treated like any other,
without bootstrapping.

`differential` and `final` include in a turn's return what the turn cannot change any more: the score of the episode
before, and the rewards of this episode so far. With `to_go` the return of a turn is reduced by what would be paid if
all later rewards were zero and the episodes took as many turns as can be expected before the turn: the number that the
world fixes (`ReturnSpec.turns`), else that of the episode before, and at least as many as were taken. The real number
of turns, and whether the trial ends early, would be the turn's own doing; what is subtracted depends on the past alone,
so the gradient is the same in expectation and has less noise. The other objectives include nothing of the kind.

An episode in which the seat never acted counts as one virtual turn whose reward is the episode's score: an earlier
reflection or episode gets it as from any other episode, and it adds one boundary to the discount. Under `single`, and
in a first episode, no earlier turn exists and the score is credited to none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from mage.errors import ConfigError
from mage.types import Objective, Turn


class ReturnSpec(msgspec.Struct, frozen=True):
    """An objective with its discounts and penalties."""

    objective: Objective
    turn: float
    """Discount from a turn to the next of the same episode."""
    episode: float
    """Discount across an episode boundary."""
    invalid: float = 0.0
    """Subtracted for every invalid reply."""
    overlong: float = 0.0
    """Subtracted for every reply that reached the token limit."""
    length: float = 0.0
    """Subtracted for every token of an unconstrained reply beyond the first `free`, its end token counted."""
    free: int = 0
    """Tokens of a reply without penalty."""
    to_go: bool = False
    """Leave out of a turn's return what was decided before the turn."""
    turns: int = 0
    """Turns of the seat in every episode, where the world fixes their number; 0: it varies."""

    def __post_init__(self) -> None:
        for name, value in (("turn", self.turn), ("episode", self.episode)):
            if not 0.0 <= value <= 1.0:
                raise ConfigError(f"discount {name} = {value}: allowed are 0 to 1")
        for name, value in (("invalid", self.invalid), ("overlong", self.overlong), ("length", self.length)):
            if not 0.0 <= value < float("inf"):
                raise ConfigError(f"penalty {name} = {value}: allowed are numbers from 0; it is subtracted")

    @property
    def inside(self) -> float:
        """The discount between turns of one episode."""
        return 1.0 if self.objective is Objective.FINAL else self.turn

    @property
    def across(self) -> float:
        """The discount across an episode boundary."""
        return {Objective.SINGLE: 0.0, Objective.FINAL: 1.0}.get(self.objective, self.episode)

    def penalty(self, turn: Turn) -> float:
        """The sum of penalties of one turn's replies. The length of a constrained reply has no penalty."""
        invalid = sum(call.problem is not None for call in turn.calls)
        truncated = sum(call.completion.truncated for call in turn.calls)
        lengths = [len(call.completion.tokens) for call in turn.calls if call.completion.allowed is None]
        beyond = sum(max(0, length - self.free) for length in lengths)
        return self.invalid * invalid + self.overlong * truncated + self.length * beyond


class Returns(NamedTuple):
    """The returns of one trial."""

    plays: list[list[float]]
    """By episode and turn; empty where the seat never acted."""
    starts: list[float]
    """By episode: the return at its start, which is what a reflection before it gets."""


def discounted(rewards: Sequence[float], discounts: Sequence[float]) -> list[float]:
    """Rewards to go: each reward plus its discount times the next result; after the last comes zero.

    >>> discounted([1.0, 2.0, 4.0], [0.5, 0.25, 0.9])
    [2.5, 3.0, 4.0]
    """
    result = [0.0] * len(rewards)
    following = 0.0
    for index in range(len(rewards) - 1, -1, -1):
        following = result[index] = rewards[index] + discounts[index] * following
    return result


def trial_returns(
    rewards: Sequence[Sequence[float]],
    scores: Sequence[float],
    return_spec: ReturnSpec,
    num_episodes: int | None = None,
) -> Returns:
    """Returns of a trial from the seat's turn rewards by episode, and its score in each.

    `num_episodes` is the task's number of episodes, which a trial that stops early does not reach; None: all were
    played.

    Two episodes of one turn, both discounts 1/2: the improvement of 3 is worth 1.5 one episode earlier.

    >>> trial_returns([[1.0], [4.0]], [1.0, 4.0], ReturnSpec(Objective.DIFFERENTIAL, 0.5, 0.5))
    Returns(plays=[[2.5], [3.0]], starts=[2.5, 3.0])
    """
    paid = _payments(rewards, scores, return_spec.objective)
    own = [discounted(turns, [return_spec.inside] * len(turns)) for turns in paid]
    crossing = [_crossing(len(turns), return_spec) for turns in paid]
    starts = discounted([turns[0] for turns in own], [turns[0] for turns in crossing])
    plays = [
        [mine + share * later for mine, share in zip(turns, shares, strict=True)]
        for turns, shares, later in zip(own, crossing, [*starts[1:], 0.0], strict=False)
    ]
    if return_spec.to_go:
        settled = _already_decided(rewards, scores, return_spec, num_episodes or len(rewards))
        plays = [
            [return_ - known for return_, known in zip(*both, strict=True)] for both in zip(plays, settled, strict=True)
        ]
        starts = [start - known[0] for start, known in zip(starts, settled, strict=True)]
    return Returns([found if turns else [] for found, turns in zip(plays, rewards, strict=True)], starts)


def _already_decided(
    rewards: Sequence[Sequence[float]], scores: Sequence[float], return_spec: ReturnSpec, num_episodes: int
) -> list[list[float]]:
    """What each turn's return would be with later rewards of zero, as far as that is known before the turn."""
    lengths = [max(1, len(turns)) for turns in rewards]
    won = [[0.0, *accumulate(turns)][:num] for turns, num in zip(rewards, lengths, strict=True)]
    last = num_episodes - 1
    if return_spec.objective is Objective.FINAL:
        return [turns if index == last else [0.0] * len(turns) for index, turns in enumerate(won)]
    if return_spec.objective is not Objective.DIFFERENTIAL:
        return [[0.0] * num for num in lengths]
    inside, known = return_spec.inside, [0, *lengths]
    settled: list[list[float]] = []
    for index, (turns, past) in enumerate(zip(won, [0.0, *scores], strict=False)):
        # Differential: what this episode gains, the next one loses.
        expected = [return_spec.turns or max(known[index], turn + 1) for turn in range(len(turns))]
        lefts = [max(0, num - 1 - turn) for turn, num in enumerate(expected)]
        falls = [0.0 if index == last else inside ** (num - 1) for num in expected]
        settled.append(
            [
                inside**left * (mine - past) - return_spec.across * inside**left * fall * mine
                for mine, left, fall in zip(turns, lefts, falls, strict=True)
            ]
        )
    return settled


def _payments(rewards: Sequence[Sequence[float]], scores: Sequence[float], objective: Objective) -> list[list[float]]:
    """The objective's reward of each turn; an episode without turns has one virtual turn."""
    as_played = [list(turns) or [score] for turns, score in zip(rewards, scores, strict=True)]
    if objective is Objective.DIFFERENTIAL:
        at_end = [score - before for score, before in zip(scores, [0.0, *scores], strict=False)]
    elif objective is Objective.FINAL:
        at_end = [*(0.0 for _ in scores[:-1]), *scores[-1:]]
    else:
        return as_played
    return [[*(0.0 for _ in turns[:-1]), amount] for turns, amount in zip(as_played, at_end, strict=True)]


def _crossing(num_turns: int, return_spec: ReturnSpec) -> list[float]:
    """The discount from each turn of an episode to the start of the next."""
    fade = 1.0 if return_spec.objective is Objective.CUMULATIVE_PAPER else return_spec.inside
    return [return_spec.across * fade**left for left in range(num_turns - 1, -1, -1)]
