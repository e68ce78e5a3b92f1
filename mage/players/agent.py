"""The language model at the table: observations become prompts, sampled tokens become actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from mage.errors import EngineError, PlayError
from mage.prompts.memory import Context
from mage.prompts.messages import (
    episode_heading,
    outcome_message,
    reflect_message,
    retry_message,
    system_message,
    turn_message,
)
from mage.prompts.parse import Parsed, parse_action, parse_reflection
from mage.protocols import Codec, Engine, Sampling
from mage.seeds import derive
from mage.types import AgentInfo, Call, Memory, Observation, Reply, ReplyMode, Sampled, Task, Thoughts

Choices = Sequence[tuple[int, ...]]
"""The ids of each legal action, in the order of the actions."""
Rewrite = Callable[[Task, Observation, Reply], Reply | None]
"""Takes a task, how an episode ended and the reflection on it; returns the one to remember, or None for none."""


def as_written(task: Task, outcome: Observation, reflection: Reply) -> Reply | None:
    """The usual memory: an agent remembers what it wrote."""
    return reflection


class AgentSettings(msgspec.Struct, frozen=True):
    """How a model plays."""

    name: str
    memory: Memory
    reply: ReplyMode
    temperature: float
    max_tokens: int
    """Longest free-text answer."""
    reflection_tokens: int
    """Longest reflection."""
    retries: int
    """How often an answer that cannot be used is asked for again before it is a forfeit."""
    context: int
    """Most tokens that a prompt and its answer may have together."""
    thoughts: Thoughts = Thoughts.KEEP
    """Whether thoughts stay in the history of a trial."""


class LanguageAgent:
    """Plays one seat for one trial. Its memory is a `Context`; its engine knows nothing of games."""

    def __init__(
        self,
        engine: Engine,
        codec: Codec,
        settings: AgentSettings,
        rules: str,
        task: Task,
        sibling: int,
        rewrite: Rewrite = as_written,
    ) -> None:
        system = system_message(rules, task.episodes, settings.memory, settings.reply)
        self.info = AgentInfo(settings.name, settings.memory, settings.reply)
        self._engine = engine
        self._codec = codec
        self._settings = settings
        self._rewrite = partial(rewrite, task)
        self._num_episodes = task.episodes
        self._context = Context(codec, system, settings.context, settings.thoughts)
        self._seed = derive(task.seed, "sample", task.seat, sibling)
        self._episode: int | None = None
        self._heading = ""
        """What the episode's first message starts with."""
        self._announced: tuple[str, ...] = ()
        """Actions listed last in this episode; each episode lists its own, so that it can outlive the others."""

    async def act(self, observation: Observation) -> Reply:
        if not observation.actions:
            raise PlayError(f"seat {observation.seat} is asked to act but has no legal action")
        self._enter(observation.episode)
        message = self._heading + turn_message(observation, self._announced)
        self._heading, self._announced = "", observation.actions
        calls: list[Call] = []
        said = ""
        for number in range(1 + self._settings.retries):
            seed = derive(self._seed, observation.episode, observation.turn, number)
            start, sampled, parsed = await self._decide(observation, message, seed)
            calls.append(Call(self._context.stream, start, sampled, parsed.problem))
            said = self._codec.decode(sampled.tokens)
            if parsed.problem is None:
                return Reply(parsed.action, said, tuple(calls))
            message = retry_message(parsed.problem, observation)
        return Reply(None, said, tuple(calls))

    async def reflect(self, outcome: Observation) -> Reply | None:
        memory, room = self._settings.memory, self._settings.reflection_tokens
        self._enter(outcome.episode)
        if memory is Memory.HISTORY:
            self._context.tell(outcome_message(outcome) + "\n\n")
        if memory in (Memory.NONE, Memory.HISTORY):
            return None
        seed = derive(self._seed, outcome.episode, "reflect")
        start, sampled = await self._ask(outcome.episode, reflect_message(outcome), room, seed, None)
        said = self._codec.decode(sampled.tokens)
        written = Reply(parse_reflection(said), said, (Call(self._context.stream, start, sampled, None),))
        self._remember(outcome, written)
        return written

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._context.streams(), tuple(self._context.overflows)

    def _remember(self, outcome: Observation, written: Reply) -> None:
        """Keep a reflection, or the one that takes its place, for the episodes that follow."""
        kept = self._rewrite(outcome, written)
        if kept is not None:
            self._context.notes.append((outcome.episode, kept.action or ""))
        if kept is not written and self._settings.memory is Memory.BOTH:
            self._context.reword(None if kept is None else kept.calls[-1].sampled, outcome_message(outcome) + "\n\n")

    def _enter(self, episode: int) -> None:
        """Cross an episode boundary: rewrite the memory where the mode asks for it."""
        if episode == self._episode:
            return
        self._episode = episode
        self._announced = ()
        self._heading = episode_heading(episode, self._num_episodes, self._settings.memory)
        if self._settings.memory is Memory.NONE:
            self._context.forget(())
        elif self._settings.memory is Memory.REFLECTIONS:
            self._context.forget(self._context.notes)

    async def _decide(self, observation: Observation, message: str, seed: int) -> tuple[int, Sampled, Parsed]:
        """Ask once for an action: where the answer starts, what was sampled and what it means."""
        if self._settings.reply is ReplyMode.TEXT:
            start, sampled = await self._ask(observation.episode, message, self._settings.max_tokens, seed, None)
            return start, sampled, parse_action(self._codec.decode(sampled.tokens), observation.actions)
        choices = [self._codec.choice(action) for action in observation.actions]
        start, sampled = await self._ask(observation.episode, message, max(map(len, choices)), seed, choices)
        return start, sampled, Parsed(observation.actions[choices.index(sampled.tokens)], None)

    async def _ask(
        self, episode: int, message: str, max_tokens: int, seed: int, choices: Choices | None
    ) -> tuple[int, Sampled]:
        """Say something to the model and keep its answer: where in the stream it starts, and what was sampled."""
        room = max_tokens if choices else max_tokens + 1  # a reply that is cut short gets its end as well
        self._context.say(episode, message, room)
        start = len(self._context.prompt)
        sampling = Sampling(self._settings.temperature, max_tokens, seed)
        sampled = await self._engine.complete(tuple(self._context.prompt), sampling, choices)
        self._check(sampled, max_tokens, choices)
        self._context.answer(episode, sampled)
        return start, sampled

    def _check(self, sampled: Sampled, max_tokens: int, choices: Choices | None) -> None:
        """Refuse a reply that would spoil the stream it is appended to."""
        if choices is not None and sampled.tokens not in choices:
            raise EngineError(f"the engine answered {self._codec.decode(sampled.tokens)!r}, which is not a choice")
        if len(sampled.tokens) > max_tokens:
            raise EngineError(f"the engine sampled {len(sampled.tokens)} tokens where {max_tokens} were allowed")
        if sampled.cut == (sampled.tokens[-1:] == (self._codec.end,)):
            raise EngineError("a reply of the engine must either end its turn or be marked as cut short")
