"""The language model at the table: observations become prompts, sampled tokens become actions."""

from __future__ import annotations

import msgspec

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
from mage.types import AgentInfo, Call, Memory, Observation, Reply, ReplyMode, Sampled, Task


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


class LanguageAgent:
    """Plays one seat for one trial. Its memory is a `Context`; its engine knows nothing of games."""

    def __init__(
        self, engine: Engine, codec: Codec, settings: AgentSettings, rules: str, task: Task, sibling: int
    ) -> None:
        system = system_message(rules, task.episodes, settings.memory, settings.reply)
        self.info = AgentInfo(settings.name, settings.memory, settings.reply)
        self._engine = engine
        self._codec = codec
        self._settings = settings
        self._episodes = task.episodes
        self._context = Context(codec, system, settings.context)
        self._seed = derive(task.seed, "sample", task.seat, sibling)
        self._num_calls = 0
        self._episode = 0
        self._announced: tuple[str, ...] = ()
        """Actions listed last in this episode; each episode lists its own, so that it can outlive the others."""
        self._pending = episode_heading(0, task.episodes, settings.memory)
        """What the next user message starts with."""

    async def act(self, observation: Observation) -> Reply:
        if observation.episode != self._episode:
            self._begin(observation.episode)
        calls: list[Call] = []
        said = ""
        text = self._pending + turn_message(observation, self._announced)
        self._pending = ""
        self._announced = observation.actions
        for _ in range(1 + self._settings.retries):
            sampled, said, parsed = await self._ask(observation, text)
            calls.append(self._call(sampled, parsed.problem))
            if parsed.action is not None:
                return Reply(parsed.action, said, tuple(calls))
            assert parsed.problem is not None
            text = retry_message(parsed.problem, observation)
        return Reply(None, said, tuple(calls))

    async def reflect(self, outcome: Observation) -> Reply | None:
        if self._settings.memory is Memory.HISTORY:
            self._pending = outcome_message(outcome) + "\n\n"
        if self._settings.memory in (Memory.NONE, Memory.HISTORY):
            return None
        room = self._settings.reflection_tokens
        self._context.say(outcome.episode, reflect_message(outcome), room)
        sampled = await self._sample(room, None)
        self._context.answer(outcome.episode, sampled)
        said = self._codec.decode(sampled.tokens)
        note = parse_reflection(said)
        self._context.notes.append((outcome.episode, note))
        return Reply(note, said, (self._call(sampled, None),))

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._context.streams(), tuple(self._context.overflows)

    def _begin(self, episode: int) -> None:
        """Cross an episode boundary: rewrite the memory where the mode asks for it."""
        self._episode = episode
        self._announced = ()
        if self._settings.memory is Memory.NONE:
            self._context.forget(())
        elif self._settings.memory is Memory.REFLECTIONS:
            self._context.forget(self._context.notes)
        self._pending += episode_heading(episode, self._episodes, self._settings.memory)

    async def _ask(self, observation: Observation, text: str) -> tuple[Sampled, str, Parsed]:
        if self._settings.reply is ReplyMode.CHOICE:
            choices = [self._codec.choice(action) for action in observation.actions]
            room = max(map(len, choices))
            self._context.say(observation.episode, text, room)
            sampled = await self._sample(room, choices)
            parsed = Parsed(observation.actions[choices.index(sampled.tokens)], None)
        else:
            room = self._settings.max_tokens
            self._context.say(observation.episode, text, room)
            sampled = await self._sample(room, None)
            parsed = parse_action(self._codec.decode(sampled.tokens), observation.actions)
        self._context.answer(observation.episode, sampled)
        return sampled, self._codec.decode(sampled.tokens), parsed

    async def _sample(self, room: int, choices: list[tuple[int, ...]] | None) -> Sampled:
        self._start = len(self._context.prompt)
        sampling = Sampling(self._settings.temperature, room, derive(self._seed, self._num_calls))
        self._num_calls += 1
        return await self._engine.complete(tuple(self._context.prompt), sampling, choices)

    def _call(self, sampled: Sampled, problem: str | None) -> Call:
        return Call(self._context.stream, self._start, sampled, problem)
