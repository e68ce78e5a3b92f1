"""A tiny model that speaks: a few words of thought, then a move in a tag. It learns that by imitation, in seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from mage.credit.steps import agent_turns
from mage.learners.local import LocalLearner
from mage.learners.samples import to_samples
from mage.learners.settings import learner_settings
from mage.protocols import ChatFormat, Sampling
from mage.rollout.group import play_groups
from mage.seeds import stream
from mage.training.build import agent_settings, language_agent_factory
from mage.training.parts import Parts
from mage.types import Completion, Group, Sample
from tests.tiny import model_of, tiny_config, tiny_parts

WORDS = ("the", "opponent", "your", "round", "you", "win", "loss", "draw", "next", "same")
MOVES = ("rock", "paper", "scissors")
SPEAKING = (
    "world=rps(rounds=1)",
    "agent.model=nano(hidden=32,layers=1,heads=2,context=512,rope=100)",
    "agent.reply=text",
    "agent.max_tokens=10",
    "agent.temperature=0.7",
    'population.members=["always:rock", "always:scissors"]',
    "trial.episodes=2",
    "batch.groups=8",
    "batch.size=8",
    "batch.dead=keep",
    "credit.estimator=grpo",
    "credit.options={}",
    "credit.invalid_penalty=0.5",
    "credit.length_penalty=0.05",
    "credit.length_free=4",
)
"""Trials in which thought, action and form share one advantage. Rock draws and wins, and adapting wins more."""


class Speaker:
    """An engine that answers with up to three words of thought and a move in a tag, all drawn evenly."""

    def __init__(self, chat_format: ChatFormat) -> None:
        self._chat_format = chat_format

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        rng = stream(sampling.seed, "speak")
        thought = [rng.choice(WORDS) for _ in range(rng.randrange(4))]
        ids = self._chat_format.answer(" ".join([*thought, f"<action>{rng.choice(MOVES)}</action>"]))
        return Completion(ids, (0.0,) * len(ids), None, 0, False)


def teach(folder: Path, *, updates: int = 40) -> Path:
    """Train the tiny model by imitation of `Speaker` and write it in Hugging Face layout."""
    parts = tiny_parts(*SPEAKING, "agent.temperature=1.0")
    how = ("agent.temperature=1.0", "learner.lr=0.01", "learner.decay=true", f"steps={updates}")
    learner = LocalLearner(model_of(parts), learner_settings(tiny_config(*SPEAKING, *how)), imitates=True)
    for step in range(updates):
        learner.update(spoken(parts, step))
    learner.save(folder, "")
    parts.loaded.tokenizer.save_pretrained(folder)
    return folder


def spoken(parts: Parts, step: int) -> list[Sample]:
    """Samples of trials that `Speaker` played, to be imitated."""
    found: list[Sample] = []
    for trial in (trial for group in played(parts, step) for trial in group.trials):
        turns = agent_turns(trial)
        found += to_samples(trial, turns, [1.0] * len(turns), [0.0] * len(turns))
    return found


def played(parts: Parts, step: int) -> list[Group]:
    """Groups that `Speaker` played."""
    how, chat_format = agent_settings(parts.config.agent), parts.loaded.chat_format
    make_agent = language_agent_factory(parts.world, Speaker(chat_format), chat_format, how)
    return asyncio.run(play_groups(parts.world, parts.tasks(8, "speak", step), 4, make_agent))
