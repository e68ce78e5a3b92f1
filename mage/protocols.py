"""The seams of the system. Anything that keeps one of these contracts can be swapped in.

`mage.checks` has a check for each that any implementation must pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from mage.types import AgentInfo, Completion, Observation, Reply, Result, Task


class Env(Protocol):
    """One episode of a game, played once and thrown away."""

    def to_move(self) -> int | None:
        """The seat that must act, or None when the episode is over."""

    def observe(self, seat: int) -> Observation:
        """What `seat` may know now. Only the seat to move has legal actions."""

    def step(self, action: str | None) -> tuple[float, ...]:
        """Play the mover's action and return what each seat gained by it; None forfeits the episode."""

    def result(self) -> Result:
        """How it ended. Only after `to_move()` is None."""


class Player(Protocol):
    """Anyone who can sit at the table: scripts, search, solvers, agents, people."""

    async def act(self, observation: Observation) -> Reply: ...


class Agent(Player, Protocol):
    """A player with memory. It lives as long as one trial."""

    @property
    def info(self) -> AgentInfo: ...

    async def reflect(self, outcome: Observation) -> Reply | None:
        """Called between episodes with what the seat is told; None when nothing is written down."""

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        """The token streams so far, and the episodes in which the context overflowed."""


class World(Protocol):
    """Turns a task into playable episodes."""

    def new_env(self, task: Task, episode: int) -> Env: ...

    def rules(self, task: Task) -> str:
        """The game explained to the task's seat."""

    def opponents(self, task: Task) -> Mapping[int, Player]:
        """Fresh players for every seat but the task's; they live as long as the trial."""


class AgentFactory(Protocol):
    """Brings a fresh agent to the table for one trial."""

    def __call__(self, task: Task, sibling: int) -> Agent: ...


class Sampling(msgspec.Struct, frozen=True, gc=False):
    """How to sample one reply. Temperature only: top-p and top-k bias importance ratios."""

    temperature: float
    max_tokens: int
    seed: int
    """The call's own stream: one uniform per token, so arrival order never changes a draw."""


class Engine(Protocol):
    """A language model: tokens in, tokens out. Stateless to its callers."""

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        """Sample one reply. With `choices`, the reply is exactly one of these id sequences."""


@runtime_checkable
class ScoringEngine(Engine, Protocol):
    """An engine that can be asked how likely each answer is."""

    async def action_logprobs(
        self, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> tuple[float, ...]:
        """The exact log-probability of each choice at a temperature above 0: the product along the trie."""


class ChatFormat(Protocol):
    """Chat to tokens in pieces that are encoded once and only ever appended."""

    @property
    def end(self) -> int:
        """The id that ends an assistant turn."""

    @property
    def close(self) -> tuple[int, ...]:
        """Glue between the end of an answer and the next user message."""

    def opening(self, system: str) -> tuple[int, ...]:
        """The start of a stream."""

    def user(self, text: str) -> tuple[int, ...]:
        """A user message and the opening of the assistant's answer."""

    def choice(self, action: str) -> tuple[int, ...]:
        """The ids of one constrained answer, `end` included."""

    def answer(self, text: str) -> tuple[int, ...]:
        """The ids of an answer that nobody sampled, `end` included: context, which need not read back exactly."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of an answer, without its `end`."""
