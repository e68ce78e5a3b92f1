"""The worth of notes by themselves: the last episode of played trials once more, with their notes as its only memory.

Earlier episodes are repeated move by move, so that the opponent has seen the same play. The last one is played by the
same model with memory `reflections`: once with the notes of the trial, once with none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mage.agents.language import LanguageAgent
from mage.evaluation.suite.averaging import Averaging
from mage.protocols import Agent, AgentFactory
from mage.stats import Estimate
from mage.types import Observation, Reply, Task, Trial


class NotesAlone(msgspec.Struct, frozen=True):
    """Scores of the last episode with the notes of played trials as the only memory, and without memory."""

    reader: Estimate
    """With the notes."""
    blank: Estimate
    """Without any."""
    reader_over_blank: Estimate
    """The difference, paired by trial: what the notes are worth to a reader who knows nothing else."""
    kept_over_reader: Estimate
    """The last score of the played trials minus that with their notes alone, paired by trial."""


class NotesReader:
    """Repeats the moves of a played trial in all episodes but the last, and lets an agent play that one.

    The agent has the notes of the trial as its memory, or nothing where `is_blank`.
    """

    def __init__(self, agent: LanguageAgent, played: Trial, *, is_blank: bool) -> None:
        self.info = agent.info
        self._agent = agent
        self._last = len(played.episodes) - 1
        own = [turn for e in played.episodes for turn in e.turns if turn.observation.seat == played.task.seat]
        self._moves = {(turn.observation.episode, turn.observation.turn): turn for turn in own}
        self._notes = {} if is_blank else {turn.observation.episode: turn for turn in played.reflections}

    async def act(self, observation: Observation) -> Reply:
        if observation.episode == self._last:
            return await self._agent.act(observation)
        turn = self._moves[observation.episode, observation.turn]
        return Reply(turn.action, turn.text, ())

    async def reflect(self, outcome: Observation) -> Reply | None:
        note = self._notes.get(outcome.episode)
        if note is None:
            return None
        self._agent.remember_note(outcome, note.action or "")
        return Reply(note.action, note.text, ())

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._agent.memory()


def readers(make_agent: AgentFactory, played: Sequence[Trial], *, is_blank: bool) -> AgentFactory:
    """A factory of readers of the trials' notes; `make_agent` makes the model with memory `reflections`."""
    by_task = {trial.task: trial for trial in played}

    def make_reader(task: Task, sibling: int) -> Agent:
        agent = make_agent(task, sibling)
        assert isinstance(agent, LanguageAgent)
        return NotesReader(agent, by_task[task], is_blank=is_blank)

    return make_reader


def measure_notes(
    kept: Sequence[Trial], reader: Sequence[Trial], blank: Sequence[Trial], averaging: Averaging
) -> NotesAlone:
    """Compare the last scores of trials that are aligned by task."""

    def gap(some: Sequence[Trial], others: Sequence[Trial]) -> Estimate:
        pairs = zip(some, others, strict=True)
        return averaging.gap(kept, [one.scores[-1] - other.scores[-1] for one, other in pairs])

    def last(trials: Sequence[Trial]) -> Estimate:
        return averaging.score(trials, [trial.scores[-1] for trial in trials])

    return NotesAlone(last(reader), last(blank), gap(reader, blank), gap(kept, reader))
