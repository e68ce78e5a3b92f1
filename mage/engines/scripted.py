"""An engine whose answers come from a Python function, for running trials without a model."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from math import inf

from mage.agents.byte_format import ByteFormat
from mage.agents.messages import ACTIONS, asks_for_reflection
from mage.engines.trie import Trie
from mage.errors import EngineError
from mage.protocols import Sampling
from mage.types import Completion

Answer = Callable[[str, tuple[str, ...]], str]
"""Takes the prompt as text and the choices (empty for free text); returns the answer."""


class ScriptedEngine:
    """Uses `ByteFormat`. Answers are deterministic: every log-probability is zero."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._chat_format = ByteFormat()

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        await asyncio.sleep(0)  # yields to the event loop as a model does, so that trials interleave in tests
        options = tuple(self._chat_format.decode(c) for c in choices or ())
        text = self._answer(self._chat_format.transcript(prompt), options)
        whole = self._chat_format.choice(text)
        if choices is not None:
            if text not in options:
                raise EngineError(f"the scripted answer {text!r} is not one of {', '.join(options)}")
            return Completion(whole, (0.0,) * len(whole), _allowed(whole, choices), 0, False)
        tokens = whole[: sampling.max_tokens]
        return Completion(tokens, (0.0,) * len(tokens), None, 0, len(whole) > len(tokens))

    async def action_logprobs(
        self, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> tuple[float, ...]:
        """Zero for the answer and minus infinity for every other choice."""
        certain = await self.complete(prompt, Sampling(temperature, max(map(len, choices)), 0), choices)
        return tuple(0.0 if tuple(choice) == certain.tokens else -inf for choice in choices)


def _allowed(tokens: Sequence[int], choices: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Per token the ids it was chosen from."""
    allowed = []
    node = Trie([tuple(c) for c in choices])
    for token in tokens:
        allowed.append(node.allowed)
        node = node.after(token)
    return tuple(allowed)


def with_text_replies(answer: Answer) -> Answer:
    """Extend a model to free text: it reads the legal actions from its prompt and answers with an <action> tag."""

    @wraps(answer)
    def reply(prompt: str, choices: tuple[str, ...]) -> str:
        if choices or asks_for_reflection(prompt.rpartition("<|user|>")[2]):
            return answer(prompt, choices)
        if f"\n{ACTIONS}" not in prompt:
            raise EngineError("a scripted model takes actions from a list, and this world lists none")
        listed = prompt.rpartition(f"\n{ACTIONS}")[2].partition("\n")[0]
        return f"I have seen enough. <action>{answer(prompt, tuple(listed.split(', ')))}</action>"

    return reply


def first(prompt: str, choices: tuple[str, ...]) -> str:
    """Always the first choice; reflections say so."""
    return choices[0] if choices else "I take the first action."


_BEATS = re.compile(r"(\w+) beats (\w+)")
_ROUND = re.compile(r"Round (\d+) of (\d+)\.(?: Last round: you \w+, opponent (\w+)\.)?")
_LAST = re.compile(r"is over\.\nLast round: you \w+, opponent (\w+)\.")
_NOTE = re.compile(r"round (\d+): (\w+)")


def counter(prompt: str, choices: tuple[str, ...]) -> str:
    """Counts what the opponent played in each round of earlier episodes, and plays what beats it.

    For repeated games in which moves beat each other. It knows only what its prompt says: with memory `none`
    it plays every episode alike; with `reflections` it relies on its own notes.
    """
    seen: dict[int, Counter[str]] = {}
    for number, move in _seen(prompt):
        seen.setdefault(number, Counter())[move] += 1
    return _beating({number: moves.most_common(1)[0][0] for number, moves in seen.items()}, prompt, choices)


def latest(prompt: str, choices: tuple[str, ...]) -> str:
    """Plays what beats the opponent's move in the same round of the episode before.

    A baseline: a trained agent should score more than this rule. It knows what `counter` knows.
    """
    return _beating(dict(_seen(prompt)), prompt, choices)


def _seen(prompt: str) -> list[tuple[int, str]]:
    """The opponent's moves with their rounds, as they were played or noted, in the order of the prompt."""
    found: list[tuple[int, int, str]] = []
    num_rounds = 0
    for match in _ROUND.finditer(prompt):
        number, num_rounds, move = int(match[1]), int(match[2]), match[3]
        if move:
            found.append((match.start(), number - 1, move))
    found += [(match.start(), num_rounds, match[1]) for match in _LAST.finditer(prompt)]
    found += [(match.start(), int(match[1]), match[2]) for match in _NOTE.finditer(prompt)]
    return [(number, move) for _, number, move in sorted(found)]


def _beating(expected: Mapping[int, str], prompt: str, choices: tuple[str, ...]) -> str:
    """The move that beats the one expected in this round; without choices, a note of all expected moves."""
    if not choices:
        return "They play " + ", ".join(f"round {n}: {m}" for n, m in sorted(expected.items())) + "."
    rounds = _ROUND.findall(prompt)
    if not rounds:
        raise EngineError("this scripted model plays repeated games only, such as rps(rounds=3)")
    beaten_by: dict[str, str] = {loser: winner for winner, loser in _BEATS.findall(prompt)}
    return beaten_by.get(expected.get(int(rounds[-1][0]), ""), choices[0])


MODELS: Mapping[str, Answer] = {
    "first": with_text_replies(first),
    "counter": with_text_replies(counter),
    "latest": with_text_replies(latest),
}
"""Scripted models by name."""

COUNT_ROUNDS = frozenset({"counter", "latest"})
"""Scripted models for repeated games only."""
