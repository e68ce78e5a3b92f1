"""The language agent: turns observations into prompts and sampled tokens into actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from math import exp
from typing import ClassVar, Self

import msgspec

from mage.agents.briefing import Briefing
from mage.agents.completions import check_completion
from mage.agents.context import NO_THOUGHT, THOUGHT, Context, Note
from mage.agents.messages import (
    BEGUN_ANSWER,
    BEGUN_OPEN_ANSWER,
    episode_heading,
    outcome_message,
    reflect_message,
    retry_message,
    system_message,
    tagged,
    turn_message,
)
from mage.agents.parsing import (
    Parsed,
    opens_action,
    opens_thought,
    parse_action,
    parse_open_action,
    parse_reflection,
    strip_thoughts,
    strip_to_action,
)
from mage.errors import PlayError
from mage.protocols import ChatFormat, Engine, Sampling, ScoringEngine
from mage.seeds import derive
from mage.types import AgentInfo, Call, Completion, Memory, Observation, Reply, ReplyMode, Task, Thoughts

Choices = Sequence[tuple[int, ...]]
"""The ids of each legal action, in the order of the actions."""
Rewrite = Callable[[Task, Observation, Reply], Reply | None]
"""Maps a task, the outcome of an episode and the reflection on it to the reflection to remember, or None."""


def as_written(task: Task, outcome: Observation, reflection: Reply) -> Reply | None:
    """The default: an agent remembers its own reflection."""
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
    """Retries after an answer that cannot be parsed; after the last the agent forfeits."""
    context: int
    """Most tokens of a prompt with its answer."""
    thoughts: Thoughts = Thoughts.KEEP
    """Whether thoughts stay in the history of a trial."""
    prefill: str = ""
    """Prefilled start of free-text answers, parsed together with the sampled rest."""
    method: str = "plain"
    """The prompting method, by its name in `mage.agents.methods.registry`."""


class LanguageAgent:
    """Plays one seat for one trial, with a `Context` as its memory.

    Prompting methods (`mage.agents.methods`) are subclasses that prompt, retrieve or store differently. Their own
    memory must be replaced and never changed in place, so that a fork does not share it.
    """

    method: ClassVar[str] = "plain"
    memories: ClassVar[tuple[Memory, ...]] = (Memory.BOTH, Memory.HISTORY, Memory.REFLECTIONS, Memory.NONE)
    """Allowed values of `AgentSettings.memory`, the default first."""
    thinks: ClassVar[bool] = False
    """Whether it is asked for thoughts in calls of their own."""

    def __init__(
        self,
        engine: Engine,
        chat_format: ChatFormat,
        settings: AgentSettings,
        briefing: Briefing,
        task: Task,
        sibling: int,
        rewrite: Rewrite = as_written,
    ) -> None:
        self.info = AgentInfo(settings.name, settings.memory, settings.reply, self.method)
        self._engine = engine
        self._chat_format = chat_format
        self._settings = settings
        self._rewrite = partial(rewrite, task)
        self._briefing = briefing
        self._num_episodes = task.episodes
        self._context = Context(chat_format, self._system(), settings.context, settings.thoughts)
        self._opens_thoughts = opens_thought(chat_format.decode(chat_format.user("")))
        """Some templates open a thought before each answer."""
        self._seed = derive(task.seed, "sample", task.seat, sibling)
        self._episode: int | None = None
        self._heading = ""
        """Prefix of the episode's first message."""
        self._format_action: Callable[[str], str] = tagged if settings.prefill else str
        """How actions are listed: as tags if answers are prefilled, so that the model sees how one ends."""
        self._announced: tuple[str, ...] = ()
        """Actions listed last in this episode. Every episode lists its own, since earlier ones may be dropped."""

    async def act(self, observation: Observation) -> Reply:
        message = self._message(observation)
        calls: list[Call] = []
        said = ""
        for number in range(1 + self._settings.retries):
            seed = derive(self._seed, observation.episode, observation.turn, number)
            asked, parsed = await self._decide(observation, message, seed)
            calls += asked
            said = self._settings.prefill + "\n".join(
                self._chat_format.decode(call.completion.tokens) for call in asked
            )
            if parsed.problem is None:
                return Reply(parsed.action, said, tuple(calls))
            message = retry_message(parsed.problem, self._shown(observation), self._format_action)
        return Reply(None, said, tuple(calls))

    async def reflect(self, outcome: Observation) -> Reply | None:
        memory, max_answer = self._settings.memory, self._settings.reflection_tokens
        self._enter(outcome.episode)
        if memory is Memory.HISTORY:
            self._context.add_to_next_message(outcome_message(outcome) + "\n\n")
        if memory in (Memory.NONE, Memory.HISTORY):
            return None
        seed = derive(self._seed, outcome.episode, "reflect")
        call = await self._ask(outcome.episode, self._reflection_request(outcome), max_answer, seed, None)
        said = self._chat_format.decode(call.completion.tokens)
        written = Reply(parse_reflection(self._with_opened(said)), said, (call,))
        self._remember(outcome, written)
        return written

    def remember_note(self, outcome: Observation, note: str) -> None:
        """Store a note about an episode that this agent did not play; it is read with memory `reflections` alone."""
        assert self._settings.memory is Memory.REFLECTIONS
        self._keep(outcome, note)

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._context.streams(), tuple(self._context.overflows)

    def fork(self, number: int) -> Self:
        """A copy with its own memory and, by `number`, its own sampling seed."""
        other = copy(self)
        other._context = self._context.fork()
        other._seed = derive(self._seed, "fork", number)
        return other

    async def odds(self, observation: Observation) -> tuple[float, ...] | None:
        """The exact probability of each action, without changing the memory; None if only sampling can tell."""
        engine, temperature = self._engine, self._settings.temperature
        if self._settings.reply is not ReplyMode.CHOICE or not isinstance(engine, ScoringEngine):
            return None
        asked = self.fork(0)
        if temperature == 0:
            certain = (await asked.act(observation)).action
            return tuple(float(action == certain) for action in observation.actions)
        choices = asked._choices(observation)
        asked._context.add_message(observation.episode, asked._message(observation), max(map(len, choices)))
        shares = list(map(exp, await engine.action_logprobs(asked._context.prompt, choices, temperature)))
        return tuple(share / sum(shares) for share in shares)  # rounding: they sum to one only nearly

    def force_action(self, observation: Observation, action: str) -> None:
        """Record an action that was chosen elsewhere, as if it had been sampled."""
        message = self._message(observation)
        if self._settings.reply is ReplyMode.TEXT:
            rest = tagged(action).removeprefix(self._settings.prefill)
            ids, allowed = self._chat_format.answer(rest if self._settings.prefill else self._closed() + rest), None
            max_answer = max(len(ids), self._settings.max_tokens) + 1
        else:
            choices = self._choices(observation)
            ids = choices[observation.actions.index(action)]
            allowed, max_answer = tuple((token,) for token in ids), max(map(len, choices))
        self._context.add_message(observation.episode, message, max_answer, self._settings.prefill, strip_to_action)
        self._context.add_answer(observation.episode, Completion(ids, (0.0,) * len(ids), allowed, 0, False))

    def _message(self, observation: Observation) -> str:
        """The user message for a decision. Headings and action lists are shown once, so call it once per decision."""
        if not observation.actions and not self._briefing.has_open_actions:
            raise PlayError(f"seat {observation.seat} is asked to act but has no legal action")
        self._enter(observation.episode)
        self._recall(observation)
        message = self._heading + turn_message(self._shown(observation), self._announced, self._format_action)
        self._heading, self._announced = "", observation.actions
        return message

    def _shown(self, observation: Observation) -> Observation:
        """The observation as prompts show it: without its actions where the world does not list them."""
        listed = self._briefing.lists_actions
        return observation if listed else msgspec.structs.replace(observation, actions=(), ids=())

    def _choices(self, observation: Observation) -> list[tuple[int, ...]]:
        return [self._chat_format.choice(action) for action in observation.actions]

    def _system(self) -> str:
        """The system message."""
        begun = BEGUN_OPEN_ANSWER if self._briefing.has_open_actions else BEGUN_ANSWER
        return self._system_message(answer=begun if opens_action(self._settings.prefill) else "")

    def _system_message(self, *, carried: str = "", answer: str = "") -> str:
        """The system message with other sentences about memory or about answering."""
        how = self._settings
        return system_message(self._briefing, self._num_episodes, how.memory, how.reply, carried=carried, answer=answer)

    def _recall(self, observation: Observation) -> None:
        """Retrieve text for a decision; a plain agent has all its memory in the context."""

    def _reflection_request(self, outcome: Observation) -> str:
        """The user message that asks for a reflection."""
        return reflect_message(outcome, self._briefing.reflect)

    def _remember(self, outcome: Observation, written: Reply) -> None:
        """Store a reflection, or its replacement, for later episodes."""
        kept = self._rewrite(outcome, written)
        if kept is not None:
            self._keep(outcome, kept.action or "")
        if kept is not written and self._settings.memory is Memory.BOTH:
            completion = None if kept is None else self._completion(kept)
            self._context.replace_answer(completion, outcome_message(outcome) + "\n\n")

    def _completion(self, note: Reply) -> Completion:
        """What was sampled for a note; of one that was not sampled, its text as ids."""
        if note.calls:
            return note.calls[-1].completion
        ids = self._chat_format.answer(self._closed() + (note.action or ""))
        return Completion(ids, (0.0,) * len(ids), None, 0, False)

    def _with_opened(self, said: str) -> str:
        """What was said, with the tag of the thought that the template has opened before it."""
        return THOUGHT + said if self._opens_thoughts else said

    def _closed(self) -> str:
        """The start of text that was not sampled, so that it is no part of a thought that the template has opened."""
        return NO_THOUGHT if self._opens_thoughts else ""

    def _keep(self, outcome: Observation, note: str) -> None:
        """Store a note for later episodes."""
        self._context.notes.append((outcome.episode, note))

    def _carried(self) -> Sequence[Note] | None:
        """The notes of the new stream that an episode begins; None if the stream continues."""
        return {Memory.NONE: (), Memory.REFLECTIONS: self._context.notes}.get(self._settings.memory)

    def _enter(self, episode: int) -> None:
        """At an episode boundary, rewrite the memory if the memory mode requires it."""
        if episode == self._episode:
            return
        self._episode = episode
        self._announced = ()
        self._heading = episode_heading(episode, self._num_episodes, self._settings.memory)
        carried = self._carried()
        if carried is not None:
            self._context.restart(carried)

    async def _decide(self, observation: Observation, message: str, seed: int) -> tuple[tuple[Call, ...], Parsed]:
        """Ask once for an action; return the calls and the parsed answer."""
        if self._settings.reply is ReplyMode.TEXT:
            how = self._settings
            call = await self._ask(
                observation.episode, message, how.max_tokens, seed, None, how.prefill, strip_to_action
            )
            said = self._chat_format.decode(call.completion.tokens)
            said = how.prefill + said if how.prefill else self._with_opened(said)
            is_open = self._briefing.has_open_actions
            parsed = parse_open_action(said) if is_open else parse_action(said, observation.actions)
            return (msgspec.structs.replace(call, problem=parsed.problem),), parsed
        choices = self._choices(observation)
        call = await self._ask(observation.episode, message, max(map(len, choices)), seed, choices)
        return (call,), Parsed(observation.actions[choices.index(call.completion.tokens)], None)

    async def _ask(
        self, episode: int, message: str, max_tokens: int, seed: int, choices: Choices | None, begun: str = "",
        spoken: Callable[[str], str] = strip_thoughts,
    ) -> Call:  # fmt: skip
        """Send a user message with the start of its answer, sample the rest and append it to the stream."""
        max_answer = max_tokens if choices else max_tokens + 1  # a truncated reply gets an end token
        self._context.add_message(episode, message, max_answer, begun, spoken)
        prompt = tuple(self._context.prompt)
        sampling = Sampling(self._settings.temperature, max_tokens, seed)
        completion = await self._engine.complete(prompt, sampling, choices)
        check_completion(self._engine, completion, self._chat_format, max_tokens, choices)
        self._context.add_answer(episode, completion)
        return Call(self._context.stream, len(prompt), completion, None)
