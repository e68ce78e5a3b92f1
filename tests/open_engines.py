"""Engines whose odds are written down by hand, and agents made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf, log
from typing import Any

from mage.agents.byte_format import ByteFormat
from mage.agents.messages import ACTIONS, asks_for_reflection
from mage.engines.scripted import _allowed
from mage.evaluation.eval_agent import load_eval_agent
from mage.evaluation.exploitability.nashconv import NamedAgent
from mage.protocols import Sampling
from mage.seeds import pick_index, uniform
from mage.training.build import language_agent_factory
from mage.types import Completion
from tests.seated import WORLD, make_settings, newest_message

_CODEC = ByteFormat()
Weigh = Callable[[str, tuple[str, ...]], Sequence[float]]
"""Takes the whole prompt as text and the choices; returns how likely each is."""


class WeighingEngine:
    """Speaks `ByteFormat` and draws actions by hand-made odds: as choices, or in free text after one of its `words`.

    Odds that sum to less than 1 leave some answers without an action; in reflections it says `note`.
    """

    def __init__(self, weigh: Weigh, note: str = "noted.", words: Sequence[str] = ("",)) -> None:
        self._weigh = weigh
        self._note = note
        self._words = words
        self.prompts: list[str] = []
        """What it was asked about without answering, in order."""

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        await asyncio.sleep(0)
        text = _CODEC.transcript(prompt)
        if choices is not None:
            taken = tuple(choices[pick_index(self._odds(prompt, choices), uniform(sampling.seed, 0))])
            return Completion(taken, (0.0,) * len(taken), _allowed(taken, choices), 0, False)
        said = self._note if asks_for_reflection(newest_message(text)) else self._spoken(text, sampling.seed)
        tokens = _CODEC.choice(said)[: sampling.max_tokens]
        return Completion(tokens, (0.0,) * len(tokens), None, 0, tokens[-1] != _CODEC.end)

    async def action_logprobs(
        self, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> tuple[float, ...]:
        await asyncio.sleep(0)
        self.prompts.append(_CODEC.transcript(prompt))
        return tuple(log(share) if share else -inf for share in self._odds(prompt, choices))

    def _odds(self, prompt: Sequence[int], choices: Sequence[Sequence[int]]) -> Sequence[float]:
        return self._weigh(_CODEC.transcript(prompt), tuple(_CODEC.decode(choice) for choice in choices))

    def _spoken(self, text: str, seed: int) -> str:
        actions = tuple(text.rpartition(f"\n{ACTIONS}")[2].partition("\n")[0].split(", "))
        odds = self._weigh(text, actions)
        taken = pick_index((*odds, max(0.0, 1 - sum(odds))), uniform(seed, 0))
        word = self._words[int(uniform(seed, 1) * len(self._words))]
        return f"{word}<action>{actions[taken]}</action>" if taken < len(actions) else f"{word}no"


def weighing(weigh: Weigh, **changes: Any) -> NamedAgent:
    """A language agent whose engine has hand-made odds."""
    return "weighing", language_agent_factory(WORLD, WeighingEngine(weigh), ByteFormat(), make_settings(**changes))


def player(spec: str) -> NamedAgent:
    """Any player without a model as an agent."""
    return spec, load_eval_agent(spec).make_agent(WORLD)


def constantly(*shares: float) -> Weigh:
    """The same odds everywhere."""

    def weigh(prompt: str, choices: tuple[str, ...]) -> Sequence[float]:
        return shares

    return weigh


def kuhn_equilibrium(bluff: float) -> Weigh:
    """The equilibria of Kuhn poker: the first player bets a jack with probability `bluff`, of 1/3 at most."""
    bets = {
        ("jack", ""): bluff,
        ("queen", ""): 0.0,
        ("king", ""): 3 * bluff,
        ("jack", "pb"): 0.0,
        ("queen", "pb"): bluff + 1 / 3,
        ("king", "pb"): 1.0,
        ("jack", "p"): 1 / 3,
        ("queen", "p"): 0.0,
        ("king", "p"): 1.0,
        ("jack", "b"): 0.0,
        ("queen", "b"): 1 / 3,
        ("king", "b"): 1.0,
    }

    def weigh(prompt: str, choices: tuple[str, ...]) -> Sequence[float]:
        bet = bets[kuhn_place(newest_message(prompt))]
        return [{"bet": bet, "pass": 1 - bet}[choice] for choice in choices]

    return weigh


def kuhn_place(message: str) -> tuple[str, str]:
    """The card and the betting that an observation of Kuhn poker tells.

    >>> kuhn_place("Episode 1 of 3.\\nYour card: jack.\\nSo far: you pass, opponent bet.")
    ('jack', 'pb')
    """
    newest = message.rpartition("Your card: ")[2]
    card = newest.partition(".")[0]
    so_far = newest.partition("So far: ")[2].partition(".")[0]
    return card, "".join(act.split()[1][0] for act in so_far.split(", ") if act)
