"""Agents of every method at the table, and what they were shown."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from mage.agents.briefing import Briefing
from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, LanguageAgent
from mage.agents.methods.registry import METHODS, agent_class
from mage.engines.scripted import Answer, ScriptedEngine
from mage.protocols import Engine
from mage.rollout.trial import play_trial
from mage.training.build import language_agent_factory
from mage.types import Observation, Phase, Task, Trial
from tests.seated import WORLD, agent_turns, make_settings, make_task, newest_message, prompt_text

CODEC = ByteFormat()
BASELINES = sorted(set(METHODS) - {"plain"})


def how_of(method: str, **changes: Any) -> AgentSettings:
    """Settings of a method with the memory that is usual for it."""
    usual = {"method": method, "memory": agent_class(method).memories[0], "reflection_tokens": 200}
    return make_settings(**{**usual, **changes})


def agent_of(engine: Engine, how: AgentSettings, episodes: int = 2) -> LanguageAgent:
    """An agent by itself, driven by hand."""
    return agent_class(how.method)(engine, CODEC, how, Briefing("RULES"), make_task(episodes=episodes), 0)


def see(episode: int, turn: int, text: str, actions: tuple[str, ...] = ("a", "b")) -> Observation:
    return Observation(0, episode, turn, text, actions, tuple(range(len(actions))), text, {})


def told(episode: int, text: str, score: float = 0.0) -> Observation:
    return Observation(0, episode, 0, text, (), (), "reflection", {"score": score})


def played(task: Task, answer: Answer | Engine, how: AgentSettings) -> Trial:
    """One trial, played by the real machinery."""
    engine = ScriptedEngine(answer) if callable(answer) else answer
    return asyncio.run(play_trial(WORLD, task, 0, language_agent_factory(WORLD, engine, CODEC, how)))


def moves(trial: Trial) -> list[list[str | None]]:
    """The agent's actions by episode."""
    own = [turn for turn in agent_turns(trial) if turn.phase is Phase.PLAY]
    return [[t.action for t in own if t.observation.episode == index] for index in range(len(trial.episodes))]


def decisions(trial: Trial) -> list[tuple[Observation, str]]:
    """What the agent saw, and the message in which it was told, with what was brought back before it."""
    own = [turn for turn in agent_turns(trial) if turn.phase is Phase.PLAY]
    return [(turn.observation, newest_message(prompt_text(trial, turn.calls[0]))) for turn in own]


def lines_after(heading: str, message: str) -> list[str]:
    """What stands under a heading, up to the next empty line."""
    found = re.search(rf"^{re.escape(heading)}\n(.*?)\n\n", message, re.MULTILINE | re.DOTALL)
    return found[1].split("\n") if found else []
