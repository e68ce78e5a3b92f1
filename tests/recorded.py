"""Trials to write down and look at, played by the real machinery."""

from __future__ import annotations

import asyncio

import msgspec

from mage.agents.briefing import briefing_of
from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, LanguageAgent
from mage.engines.scripted import Answer, ScriptedEngine
from mage.opponents.policy import PolicyAgent
from mage.opponents.registry import make_player
from mage.protocols import Agent
from mage.rollout.trial import play_trial
from mage.seeds import derive
from mage.types import Failure, Memory, ReplyMode, Task, Trial
from mage.worlds.openspiel.game import load_game
from mage.worlds.registry import load_world
from tests.worlds import AnyWorld

WORLD = AnyWorld()


def make_task(
    game: str = "kuhn_poker", opponents: tuple[str, ...] = ("uniform",), seat: int = 0, seed: int = 1, episodes: int = 3
) -> Task:
    """A task with the usual settings."""
    return Task(game, opponents, seat, seed, episodes, replay_deal=False, early_stop=False, max_turns=1000)


def guest_trial(task: Task) -> Trial:
    """A trial between players without a model."""

    def seat_guest(task: Task, sibling: int) -> Agent:
        return PolicyAgent(
            make_player("uniform", load_game(task.world), task.seat, derive(task.seed, "guest")), "uniform"
        )

    return asyncio.run(play_trial(load_world(task.world), task, 0, seat_guest))


def model_trial(task: Task, answer: Answer, memory: Memory = Memory.BOTH, context: int = 4096) -> Trial:
    """A trial of a scripted model that answers in free text."""
    how = AgentSettings("scripted:test", memory, ReplyMode.TEXT, 1.0, 128, 64, retries=1, context=context)

    def seat_model(task: Task, sibling: int) -> Agent:
        return LanguageAgent(ScriptedEngine(answer), ByteFormat(), how, briefing_of(WORLD, task), task, sibling)

    return asyncio.run(play_trial(load_world(task.world), task, 0, seat_model))


def betting(note: str = "They fold too often.", says: str = "I bet. <action>bet</action>") -> Answer:
    """A scripted model for Kuhn poker that always bets and always writes the same note."""

    def answer(prompt: str, choices: tuple[str, ...]) -> str:
        newest = prompt.rsplit("<|user|>", 1)[-1]
        return note if "note to yourself" in newest else says

    return answer


def failure(message: str = "it broke") -> Failure:
    """A trial that could not be played."""
    return Failure(make_task(), 2, "PlayError", message)


def with_version(trial: Trial, version: int) -> Trial:
    """The same trial, sampled by other weights."""
    plain = msgspec.to_builtins(trial)
    for episode in plain["episodes"]:
        for turn in episode["turns"]:
            for call in turn["calls"]:
                call["completion"]["version"] = version
    return msgspec.convert(plain, Trial)
