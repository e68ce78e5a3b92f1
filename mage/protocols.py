"""The protocols between the parts: worlds, players, agents, engines, learners and chat formats.

Any implementation of one can be used in its place; `mage.checks` has checks that implementations must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from mage.types import AgentInfo, Completion, Observation, Reply, Result, Sample, Task, WorldInfo
from mage.weights import LearnerState, PolicyWeights, Tensor


class Env(Protocol):
    """One episode of a world. An instance is played once."""

    def to_move(self) -> int | None:
        """The seat that must act, or None when the episode is over."""

    def observe(self, seat: int) -> Observation:
        """What `seat` may know now. Only the seat to move has legal actions."""

    def step(self, action: str | None) -> tuple[float, ...]:
        """Play the mover's action and return what each seat gained by it; None forfeits the episode."""

    def result(self) -> Result:
        """How it ended. Only after `to_move()` is None."""


class Player(Protocol):
    """A decision maker for one seat: a script, search, a solver, an agent or a person."""

    async def act(self, observation: Observation) -> Reply: ...


class Agent(Player, Protocol):
    """A player with memory, made for one trial."""

    @property
    def info(self) -> AgentInfo: ...

    async def reflect(self, outcome: Observation) -> Reply | None:
        """Called between episodes with what the seat is told; None when nothing is written down."""

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        """The token streams so far, and the episodes in which the context overflowed."""


class World(Protocol):
    """Turns tasks into playable episodes. It is made once for a spec and shared by all trials, so it has no state."""

    @property
    def info(self) -> WorldInfo: ...

    def rules(self, task: Task) -> str:
        """The rules of the world, explained to the task's seat."""

    def new_env(self, task: Task, episode: int) -> Env: ...

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        """A new player for another seat than the task's, for one trial."""

    def check_opponent(self, spec: str, seat: int) -> None:
        """Raise a ConfigError for an opponent that cannot play in a seat."""

    def check_level(self, level: str) -> None:
        """Raise a ConfigError for a level that does not exist; worlds of several seats have none."""


P = TypeVar("P")
Branches = Sequence[tuple[P, Mapping[int, float]]]
"""Positions, each with its probability by hidden type; types that cannot lead there are left out."""


class ExactModel(Protocol[P]):
    """A trial as one seat faces it, for exact planning: one of finitely many hidden types, fixed for the trial.

    Positions are immutable; equal ones are continued alike. Types are numbered from 0; an opponent's policy or a hidden
    level is one.
    """

    @property
    def prior(self) -> Mapping[int, float]:
        """Probability by type."""

    def start(self, episode: int) -> Branches[P]:
        """The first positions of an episode."""

    def forward(self, position: P, types: Collection[int]) -> Branches[P]:
        """What follows without the seat's decision, by chance or by other seats; empty where it decides or at an end.

        Probabilities are given the type, one of `types`.
        """

    def seen(self, position: P) -> tuple[bool, str]:
        """Whether the episode is over, and the key of the seat's decision or what it is told at the end."""

    def actions(self, position: P) -> tuple[int, ...]:
        """The ids of the seat's actions, as in its observations; the same in all positions with one key."""

    def after(self, position: P, action: int) -> P:
        """The position after an action of the seat."""

    def score(self, position: P) -> float:
        """The seat's score at an end."""


@runtime_checkable
class MergingModel(ExactModel[P], Protocol):
    """An exact model that may have keys that do not depend on the order of what was done."""

    @property
    def merges(self) -> bool:
        """Whether decisions with one key and equally likely types are continued alike, however they were reached."""


@runtime_checkable
class ExactWorld(World, Protocol):
    """A world whose trials can be planned exactly. Methods raise `InexactError` where that is impossible."""

    def exact_model(self, members: Sequence[tuple[str, float]], seat: int) -> ExactModel[Any]:
        """The model of a seat against opponents with these probabilities, or over levels in a world of one seat.

        Without members a world of one seat has all its levels.
        """

    def guaranteed_score(self, seat: int) -> float:
        """The highest expected score of an episode that a seat can guarantee, whatever the opponents do."""


@runtime_checkable
class DrawsLevels(World, Protocol):
    """A world of one seat with too many levels to list; seeds of training tasks draw none that is held out."""

    def drawn_level(self, task: Task) -> str:
        """The level of a task: its own, or the one that its seed draws."""


@runtime_checkable
class ComparesOpponents(World, Protocol):
    """A world that can tell which opponents behave alike, whatever their specs say."""

    def behaviours(self, spec: str, seat: int) -> Collection[Hashable]:
        """What an opponent may do in a trial: one for each of its random draws; alike where two are equal.

        Where the draws cannot be listed it is one text, the canonical spec.
        """

    def drawn_behaviour(self, spec: str, task: Task, seat: int) -> Hashable:
        """What the opponent of one task does, as one of `behaviours`; None where it cannot be compared."""


@runtime_checkable
class HasPlayers(World, Protocol):
    """A world of one seat with scripted players for it, which `opponent` makes: agents to evaluate, and teachers."""

    @property
    def players(self) -> Mapping[str, Callable[..., Player]]:
        """By name `maker(task, …parameters)`."""


class AgentFactory(Protocol):
    """Makes a new agent for one trial."""

    def __call__(self, task: Task, sibling: int) -> Agent: ...


class Sampling(msgspec.Struct, frozen=True, gc=False):
    """How to sample one reply. Temperature only: top-p and top-k bias importance ratios."""

    temperature: float
    max_tokens: int
    seed: int
    """The call's own random stream: one uniform per token, so the order of requests never changes a draw."""


class Engine(Protocol):
    """A language model: tokens in, tokens out, without state that callers can see."""

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        """Sample one reply. With `choices`, the reply is exactly one of these id sequences."""


@runtime_checkable
class ScoringEngine(Engine, Protocol):
    """An engine that also returns the log-probability of given answers."""

    async def action_logprobs(
        self, prompt: Sequence[int], choices: Sequence[Sequence[int]], temperature: float = 1.0
    ) -> tuple[float, ...]:
        """The exact log-probability of each choice at a temperature above 0: the sum along the trie."""


class ServerLimits(msgspec.Struct, frozen=True):
    """What a policy server has room for."""

    length: int
    """Most tokens of a prompt with its answer."""
    policies: int | None = None
    """Most policies that are served at once; None for any number."""


class PolicyServer(Protocol):
    """Serves named policies, each of which is an engine. `mage.checks.servers` has its contract."""

    @property
    def limits(self) -> ServerLimits: ...

    async def publish(self, policy: str, weights: PolicyWeights, version: int) -> None:
        """Serve copies of these weights under a name, new or known; completions then have this version.

        Calls in flight are answered with the weights they began with. Other policies stay as they are.
        """

    def policy(self, name: str) -> Engine:
        """The engine of a policy, a `ScoringEngine` where possible.

        It serves what is published last, and refuses calls while nothing is.
        """

    def drop(self, name: str) -> None:
        """Stop serving a policy; its place becomes free."""

    def reset_cache(self) -> None:
        """Forget prompts that were read, so that later results do not depend on earlier calls."""

    def clear(self) -> None:
        """Drop all policies: the server is as new, for another run."""

    def metrics(self) -> Mapping[str, float]:
        """Totals since the start, such as seconds spent on capturing graphs; their growth in a step is logged."""


class Learner(Protocol):
    """Updates the weights of a policy. `mage.checks.learners` has its contract."""

    @property
    def num_tokens(self) -> int:
        """Tokens put through the model in updates so far."""

    @property
    def has_values(self) -> bool:
        """Whether it estimates values."""

    @property
    def weights_file(self) -> str:
        """The name of the safetensors file in which `save` writes the trained weights."""

    def update(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Update the weights on one batch and return metrics; `learner/tokens` is one."""

    def evaluate_tokens(self, samples: Sequence[Sample]) -> list[list[tuple[float, float]]]:
        """The log-probability and the entropy of each trained token of each sample under the current weights."""

    def values(self, samples: Sequence[Sample]) -> list[list[float]]:
        """The value at each trained token of each sample; only with `has_values`."""

    def weights(self, trained: Mapping[str, Tensor] | None = None) -> PolicyWeights:
        """The weights to publish: the current ones, or those with `trained`, the weights of another state."""

    def state(self) -> LearnerState: ...

    def restore(self, state: LearnerState) -> None:
        """Continue from a state, in memory or read from files."""

    def save(self, folder: Path, base: str) -> None:
        """Write the trained weights in Hugging Face layout, or an adapter as PEFT does, with the name of its base."""

    def set_settings(self, settings: Any) -> None:
        """Use other `mage.learners.settings.LearnerSettings` from now on, as learners of a league have."""


@runtime_checkable
class ShardedFiles(Learner, Protocol):
    """A learner of several processes, each of which writes and reads its part of the state."""

    def numbers(self) -> Mapping[str, float]:
        """The numbers of the state, without its tensors."""

    def check_folder(self, folder: Path) -> None:
        """Raise a RecordError where one of the processes does not see a folder."""

    def save_shards(self, folder: Path) -> None:
        """Write all tensors of the state but the weights as safetensors files in a folder."""

    def restore_files(self, folder: Path, numbers: Mapping[str, float]) -> None:
        """Continue from the files of a state, which `mage.learners.state_files` defines."""


class ChatFormat(Protocol):
    """Encodes chat messages one at a time, so that a stream of tokens only grows and nothing is encoded twice."""

    @property
    def end(self) -> int:
        """The id that ends an assistant turn."""

    @property
    def close(self) -> tuple[int, ...]:
        """The ids between the end of an answer and the next user message."""

    def opening(self, system: str) -> tuple[int, ...]:
        """The start of a stream."""

    def user(self, text: str) -> tuple[int, ...]:
        """A user message and the opening of the assistant's answer."""

    def choice(self, action: str) -> tuple[int, ...]:
        """The ids of one constrained answer, `end` included."""

    def answer(self, text: str) -> tuple[int, ...]:
        """The ids of an answer that was not sampled, `end` included: context only, so it need not decode exactly."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of an answer, without its `end`."""
