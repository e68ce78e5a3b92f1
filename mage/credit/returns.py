"""Returns: what each turn of a trial is paid, under each of the five objectives.

Episode k has the score R_k. An objective says what is paid where, and how much of the next episode's start
counts in a turn of this one; `trial_returns` is then one formula:

    return of turn i = its own episode's rewards to go + crossing_i x return at the start of the next episode

| objective        | paid                                   | inside  | crossing, n turns left in the episode |
|------------------|----------------------------------------|---------|---------------------------------------|
| single           | turn rewards                           | turn    | 0                                     |
| cumulative       | turn rewards                           | turn    | episode x turn^n (LaMer's code)       |
| cumulative-paper | turn rewards                           | turn    | episode          (LaMer's paper)      |
| differential     | R_k - R_(k-1), on the last turn of k   | turn    | episode x turn^n (MAGE's code)        |
| final            | R_(N-1), on the last turn of the trial | 1       | 1                                     |

A reflection gets the return at the start of the episode that follows it, undiscounted. What counts is what was
played: after an early stop the last episode is the last one played; a truncated or forfeited episode is paid
like any other, nothing is bootstrapped for moves that were never made.

`differential` and `final` pay for what no choice of a turn can change any more: the score of the episode before, and
what this one has brought so far. With `to_go` a turn's return is less by what would be paid if nothing more were won
from there on. That depends on the past alone, so the gradient stays what it is on average, and loses the noise. The
other objectives pay nothing of the kind.

An episode in which the seat never acted counts as one turn that carries the episode's score and that nobody
made: what precedes it (a reflection, an earlier episode) is paid for it as for any other, and it lies one
boundary further from what follows. Under `single`, or in a first episode, nothing precedes it and nobody is paid.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from mage.errors import ConfigError
from mage.types import Objective, Turn


class ReturnSpec(msgspec.Struct, frozen=True):
    """An objective with its discounts, and what bad replies cost."""

    objective: Objective
    turn: float
    """Discount from a turn to the next of the same episode."""
    episode: float
    """Discount across an episode boundary."""
    invalid: float = 0.0
    """Subtracted for every reply that could not be used."""
    overlong: float = 0.0
    """Subtracted for every reply that was cut short."""
    length: float = 0.0
    """Subtracted for every token of a free reply beyond the first `free`; its end is a token too."""
    free: int = 0
    """Tokens of a reply that cost nothing."""
    to_go: bool = False
    """Leave out of a turn's return what was settled before it."""

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
        """What the replies of one turn cost. A reply can be cut short, long and of no use at once.

        The length of a choice is that of the game's words, not the agent's, and costs nothing.
        """
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
    """Rewards to go: each is its reward plus its discount times the next; nothing follows the last.

    >>> discounted([1.0, 2.0, 4.0], [0.5, 0.25, 0.9])
    [2.5, 3.0, 4.0]
    """
    result = [0.0] * len(rewards)
    following = 0.0
    for index in range(len(rewards) - 1, -1, -1):
        following = result[index] = rewards[index] + discounts[index] * following
    return result


def trial_returns(rewards: Sequence[Sequence[float]], scores: Sequence[float], return_spec: ReturnSpec) -> Returns:
    """Returns of a trial from the seat's turn rewards by episode, and its score in each.

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
        settled = _already_decided(rewards, scores, return_spec)
        plays = [
            [return_ - known for return_, known in zip(*both, strict=True)] for both in zip(plays, settled, strict=True)
        ]
        starts = [start - known[0] for start, known in zip(starts, settled, strict=True)]
    return Returns([found if turns else [] for found, turns in zip(plays, rewards, strict=True)], starts)


def _already_decided(
    rewards: Sequence[Sequence[float]], scores: Sequence[float], return_spec: ReturnSpec
) -> list[list[float]]:
    """What would be paid from each turn on if no more were won: its episode keeps what it has, later ones get 0."""
    lengths = [max(1, len(turns)) for turns in rewards]
    won = [[0.0, *accumulate(turns)][:num] for turns, num in zip(rewards, lengths, strict=True)]
    if return_spec.objective is Objective.FINAL:
        return [*([0.0] * num for num in lengths[:-1]), won[-1]]
    if return_spec.objective is not Objective.DIFFERENTIAL:
        return [[0.0] * num for num in lengths]
    before = [0.0, *scores[:-1]]
    falls = [
        *(return_spec.inside ** (num - 1) for num in lengths[1:]),
        0.0,
    ]  # what is won here is lost in the next episode
    return [
        [
            return_spec.inside**left * (mine - past) - share * fall * mine
            for left, mine, share in zip(range(num - 1, -1, -1), turns, _crossing(num, return_spec), strict=True)
        ]
        for num, turns, past, fall in zip(lengths, won, before, falls, strict=True)
    ]


def _payments(rewards: Sequence[Sequence[float]], scores: Sequence[float], objective: Objective) -> list[list[float]]:
    """What the objective pays on each turn; an episode without turns has one that nobody made."""
    as_played = [list(turns) or [score] for turns, score in zip(rewards, scores, strict=True)]
    if objective is Objective.DIFFERENTIAL:
        at_end = [score - before for score, before in zip(scores, [0.0, *scores], strict=False)]
    elif objective is Objective.FINAL:
        at_end = [*(0.0 for _ in scores[:-1]), *scores[-1:]]
    else:
        return as_played
    return [[*(0.0 for _ in turns[:-1]), amount] for turns, amount in zip(as_played, at_end, strict=True)]


def _crossing(num_turns: int, return_spec: ReturnSpec) -> list[float]:
    """What the start of the next episode counts for in each turn of this one."""
    fade = 1.0 if return_spec.objective is Objective.CUMULATIVE_PAPER else return_spec.inside
    return [return_spec.across * fade**left for left in range(num_turns - 1, -1, -1)]
