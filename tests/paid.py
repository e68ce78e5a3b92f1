"""Trials made up turn by turn, and what their steps are paid."""

from __future__ import annotations

from mage.credit.returns import ReturnSpec
from mage.credit.steps import Step, credit_group
from mage.types import (
    AgentInfo,
    Call,
    Completion,
    Ending,
    Episode,
    Group,
    Memory,
    Objective,
    Observation,
    Phase,
    ReplyMode,
    Result,
    Task,
    Trial,
    Turn,
)

TASK = Task("rps", ("uniform",), 0, 7, 3, False, False, 100)
INFO = AgentInfo("test", Memory.BOTH, ReplyMode.TEXT)
HALF = {o: ReturnSpec(o, 0.5, 0.5) for o in Objective}


def call(problem: str | None = None, truncated: bool = False, length: int = 1) -> Call:
    """A reply in free text."""
    return Call(0, 0, Completion((5,) * length, (-1.0,) * length, None, 0, truncated), problem)


def choice(length: int) -> Call:
    """A reply that was chosen among the game's words."""
    return Call(0, 0, Completion((5,) * length, (-1.0,) * length, ((5, 6),) * length, 0, False), None)


def move(episode: int, number: int, reward: float, seat: int = 0, calls: tuple[Call, ...] = ()) -> Turn:
    """A turn that was paid this."""
    seen = Observation(seat, episode, number, "", ("a",), (0,), f"state {number}", {})
    return Turn(Phase.PLAY, seen, "a", "", calls, reward)


def note(episode: int, calls: tuple[Call, ...] = ()) -> Turn:
    """A reflection after an episode."""
    seen = Observation(0, episode, 0, "", (), (), "reflection", {})
    return Turn(Phase.REFLECT, seen, "a note", "", calls, 0.0)


def ended(turns: list[Turn], score: float, ending: Ending = Ending.FINISHED) -> Episode:
    """An episode with this score for seat 0."""
    return Episode(tuple(turns), Result((score, -score), ("", ""), ending, None, {}))


def played(
    rewards: list[list[float]],
    scores: list[float] | None = None,
    reflect: bool = True,
    calls: tuple[Call, ...] = (),
) -> Trial:
    """A trial with these rewards, turn by turn of each episode."""
    scores = [sum(turns) for turns in rewards] if scores is None else scores
    episodes = [
        ended([move(k, i, reward, calls=calls) for i, reward in enumerate(turns)], score)
        for k, (turns, score) in enumerate(zip(rewards, scores, strict=True))
    ]
    notes = tuple(note(k) for k in range(len(episodes) - 1)) if reflect else ()
    return Trial(TASK, 0, INFO, tuple(episodes), notes, (), ())


def steps(trial: Trial, return_spec: ReturnSpec) -> tuple[Step, ...]:
    """The steps of a trial alone in its group."""
    return credit_group(Group(TASK, (trial,), ()), return_spec, "rock", "main").trials[0]


def rets(trial: Trial, return_spec: ReturnSpec) -> list[float]:
    """The return of each step."""
    return [step.return_ for step in steps(trial, return_spec)]
