"""Tokens of a trial of a recipe, without a tokenizer: trials are played at random, and their bytes are counted."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from mage.agents.byte_format import ByteFormat
from mage.aio import run_sync
from mage.config.schema import Config
from mage.credit.steps import agent_turns
from mage.engines.scripted import ScriptedEngine, with_text_replies
from mage.errors import ConfigError
from mage.protocols import AgentFactory, World
from mage.rollout.group import Job, play_trials
from mage.seeds import stream
from mage.training.build import agent_settings, draw_tasks, language_agent_factory
from mage.types import Failure, Phase, ReplyMode, Trial
from mage.worlds.registry import load_world

_TRIALS = 8
_ROOM = 10**9
"""Bytes of a context: nothing is left out while bytes are counted."""


class TrialTokens(NamedTuple):
    """The tokens of one trial, on average."""

    read: float
    """Tokens of prompts, each counted once."""
    sampled: float
    """Tokens that the model chooses; of an action in `choice` mode one, because the others follow from it."""
    answers: float
    """All tokens of answers."""
    free: float
    """Tokens that are drawn from the whole vocabulary: free text and reflections."""

    @property
    def total(self) -> float:
        """Tokens that the learner puts through the model."""
        return self.read + self.answers


def count_trial_tokens(config: Config, bytes_per_token: float) -> TrialTokens:
    """Play a few trials of a recipe with random actions, and count.

    Free text is counted at its full length, `agent.max_tokens`, and so are reflections: what a model writes is not
    known before.
    """
    trials = run_sync(_played(config))
    agent = config.agent
    turns = [turn for trial in trials for turn in agent_turns(trial)]
    calls = [call.completion for turn in turns if turn.phase is Phase.PLAY for call in turn.calls]
    notes = [call.completion for turn in turns if turn.phase is Phase.REFLECT for call in turn.calls]
    own = sum(len(call.tokens) for call in (*calls, *notes))
    read = (sum(len(stream) for trial in trials for stream in trial.streams) - own) / bytes_per_token
    if agent.reply is ReplyMode.CHOICE:
        sampled = float(len(calls))
        answers = sum(len(call.tokens) for call in calls) / bytes_per_token
    else:
        sampled = answers = float(agent.max_tokens * len(calls))
    noted = float(agent.reflection_tokens * len(notes))
    free = noted if agent.reply is ReplyMode.CHOICE else noted + answers
    return TrialTokens(*(number / len(trials) for number in (read, sampled + noted, answers + noted, free)))


async def _played(config: Config) -> list[Trial]:
    agent = config.agent.model_copy(
        update={"model": "scripted:first", "context": _ROOM, "max_tokens": 4096, "reflection_tokens": 4096}
    )
    world, make_agent = _players(config.model_copy(update={"agent": agent}))
    jobs: list[Job] = [(task, 0) for task in islice(draw_tasks(config, "plan"), _TRIALS)]
    outcomes = [outcome async for outcome in play_trials(world, jobs, make_agent)]
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            raise ConfigError(
                f"{config.world} cannot be played at random, to count the tokens of a trial: {outcome.message}"
            )
    return [outcome for outcome in outcomes if isinstance(outcome, Trial)]


def _players(config: Config) -> tuple[World, AgentFactory]:
    world = load_world(config.world)
    engine = ScriptedEngine(with_text_replies(_drawn))
    return world, language_agent_factory(world, engine, ByteFormat(), agent_settings(config.agent))


def _drawn(prompt: str, choices: tuple[str, ...]) -> str:
    """An action drawn at random; a reflection is any text."""
    return choices[stream(0, "plan", prompt).randrange(len(choices))] if choices else "I play at random."
