"""The agent under evaluation, loaded from text: a run, a checkpoint, a model, a remote model or a scripted player.

runs/rps                            a train run: its newest weights
runs/rps/checkpoints/step-000100    the weights of one checkpoint
nano, smollm2, my-model, org/name   a model by name, a directory in Hugging Face layout, a name on the hub
scripted:counter                    a scripted model
remote:URL#model                    a model on an OpenAI-compatible server
cfr, best-response:copy             an opponent spec, played in the agent's seat; uniform plays in any world
expert                              a scripted player of a world of one seat
bayes-optimal(objective=sum)        exact Bayes-optimal play against a known pool
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, Rewrite, as_written
from mage.agents.methods.registry import agent_class
from mage.aio import run_sync
from mage.config.load import replaced
from mage.config.schema import Config
from mage.engines.remote import CONCURRENCY, RemoteEngine, RetryPolicy
from mage.errors import ConfigError, did_you_mean, named_errors
from mage.evaluation.exact import BayesAgentFactory, MemorylessAgentFactory, PlanObjective
from mage.evaluation.splits import Split, load_split
from mage.extras import require
from mage.models.address import PREFIX, read_address
from mage.models.load import MODELS, check_words, is_gguf
from mage.models.mistaken_paths import ADAPTER_CONFIG, newest_with
from mage.opponents.agent_seat import ForgettingAgent, check_seat_agent, has_player, seat_agent
from mage.opponents.registry import MODEL_OPPONENTS, OPPONENTS
from mage.opponents.remote import CONTEXT, MAX_TOKENS, REFLECTION_TOKENS
from mage.protocols import Agent, AgentFactory, ChatFormat, Engine, World
from mage.runs.store import RUN
from mage.spec import call_with, parse_spec
from mage.training.build import agent_settings, check_agent, check_reply, language_agent_factory, scripted_engine
from mage.types import Memory, ReplyMode, Task
from mage.weights import PolicyWeights
from mage.worlds.registry import load_world

BAYES = "bayes-optimal"
_NAME_LENGTH = 60
_PLAIN = "plain"
"""The prompting method that supports every memory."""
_KNOWN = (
    "a train run, one of its checkpoints, a model directory, a name on the hub such as org/name, a model by name (mage "
    "list models), scripted:NAME, remote:URL#model, bayes-optimal or an opponent (mage list opponents)"
)


async def _no_reset() -> None:
    """For agents without state between evaluations."""


def _knows_all_words(world: str) -> None:
    """For models that can write anything."""


@dataclass(frozen=True)
class EvalAgent(ABC):
    """An agent that can be evaluated."""

    name: str
    agent: str
    """Text that loads the same weights later: for a run, the path of its newest checkpoint."""
    config: Config
    """Its settings, and defaults for world, trials and seed."""
    kind: str = "player"
    """run, model, scripted, remote or player."""
    engine: Engine | None = None
    chat_format: ChatFormat | None = None
    refresh: Callable[[], Awaitable[None]] = _no_reset
    """Clear caches and publish the weights, so that results do not depend on what was played before."""
    run: Path | None = None
    """The train run it comes from."""
    step: int = 0
    """Number of updates its weights have had."""
    save_tokenizer: Callable[[Path], object] | None = None
    """Saves the tokenizer to a new directory; None where tokens can be decoded without one."""
    check_words: Callable[[str], None] = _knows_all_words
    """Raises a ConfigError where a model has no words for the actions of a world."""

    @property
    def file_name(self) -> str:
        """Its name, shortened for file names."""
        return (Path(self.name).name if self.kind == "model" else self.name)[:_NAME_LENGTH]

    @property
    def is_model(self) -> bool:
        """Whether a language model plays."""
        return self.engine is not None

    @property
    def settings(self) -> AgentSettings | None:
        """The agent settings of a model; None for other players."""
        return agent_settings(self.config.agent) if self.is_model else None

    @abstractmethod
    def make_agent(self, world: World, memory: Memory | None = None, rewrite: Rewrite = as_written) -> AgentFactory:
        """A factory of agents with its own memory or the given one; `rewrite` replaces its reflections."""

    def for_split(self, split: Split) -> EvalAgent:
        """The same agent with the split's pool as prior; only players that plan against a known pool differ."""
        return self

    def check(self, world: str, seats: Sequence[int]) -> None:
        """Raise a ConfigError where it cannot play a world from these seats."""
        if self.is_model:
            check_reply(self.config.agent.reply, load_world(world))
            self.check_words(world)

    def describe(self) -> Mapping[str, Any]:
        """Name, kind and settings, for reports."""
        return {"name": self.name, "kind": self.kind}


class ModelEvalAgent(EvalAgent):
    """A language model. Where its method does not support the given memory, the method `plain` is used."""

    def make_agent(self, world: World, memory: Memory | None = None, rewrite: Rewrite = as_written) -> AgentFactory:
        assert self.engine is not None
        assert self.chat_format is not None
        how = agent_settings(self.config.agent)
        if memory is not None:
            method = how.method if memory in agent_class(how.method).memories else _PLAIN
            how = msgspec.structs.replace(how, memory=memory, method=method)
        return language_agent_factory(world, self.engine, self.chat_format, how, rewrite)

    def describe(self) -> Mapping[str, Any]:
        how = self.config.agent.model_dump(mode="json")
        shown = ("model", "method", "memory", "reply", "temperature", "context")
        return {**super().describe(), **{key: how[key] for key in shown}}


class OpponentEvalAgent(EvalAgent):
    """A player without a model. Memory `none` changes it only where it is a world's own, which may remember."""

    def make_agent(self, world: World, memory: Memory | None = None, rewrite: Rewrite = as_written) -> AgentFactory:
        _refuse_memory(self.name, memory, rewrite)

        def policy_agent(task: Task, sibling: int) -> Agent:
            world = load_world(task.world)
            if memory is Memory.NONE and has_player(world, self.name):
                return ForgettingAgent(lambda: seat_agent(world, self.name, task))
            return seat_agent(world, self.name, task)

        return policy_agent

    def check(self, world: str, seats: Sequence[int]) -> None:
        for seat in seats:
            check_seat_agent(load_world(world), self.name, seat)


@dataclass(frozen=True)
class BayesEvalAgent(EvalAgent):
    """Bayes-optimal play against known members; without memory, the best memoryless play."""

    objective: PlanObjective = PlanObjective.LAST
    pool: str = ""
    """The split whose members are its prior; empty for the split it is evaluated on."""
    members: tuple[tuple[str, float], ...] | None = None
    """None where the pool is not known yet; empty where it has all levels of a world of one seat."""

    def make_agent(self, world: World, memory: Memory | None = None, rewrite: Rewrite = as_written) -> AgentFactory:
        _refuse_memory(self.name, memory, rewrite)
        if self.members is None:
            raise ConfigError(f"{self.name} needs a pool of opponents; name a split, as in {BAYES}(pool=rps-seven)")
        if memory is Memory.NONE:
            return MemorylessAgentFactory(self.members)
        return BayesAgentFactory(self.members, self.objective)

    def for_split(self, split: Split) -> EvalAgent:
        return self if self.pool else replace(self, members=split.weighted_members)

    def describe(self) -> Mapping[str, Any]:
        return {**super().describe(), "objective": self.objective.value, "pool": self.pool}


def load_eval_agent(
    text: str,
    overrides: Mapping[str, object] | None = None,
    *,
    patience: RetryPolicy | None = None,
    concurrency: int = CONCURRENCY,
    worlds: Sequence[str] = (),
    tokenizer: Path | None = None,
) -> EvalAgent:
    """Load the agent that `text` names, with settings replaced by dotted key, such as agent.memory or trial.episodes.

    `patience` and `concurrency` are for remote models: retries and waiting times, and the number of parallel requests.
    `worlds` are those that it will play: they have scripted players, and words for a model by name; its words may also
    be those of a stored `tokenizer`, given by its directory.
    """
    given = dict(overrides or {})
    path, word = Path(text), re.split(r"[(:]", text.strip(), maxsplit=1)[0]
    if (path / RUN).is_file():
        return _from_run(path, None, given)
    if (path / "state.json").is_file() and (path.parent.parent / RUN).is_file():
        return _from_run(path.parent.parent, path, given)
    if text.startswith("scripted:"):
        engine, chat_format = scripted_engine(text)
        return ModelEvalAgent(text, text, _config(text, given), "scripted", engine, chat_format)
    if text.startswith(PREFIX) or word in MODEL_OPPONENTS:
        return _from_remote(text, given, patience, concurrency)
    if (path / "config.json").is_file() or is_gguf(text) or word in MODELS or _is_on_hub(text):
        return _from_model(text, given, worlds, tokenizer)
    if word == BAYES or word in OPPONENTS or any(has_player(load_world(world), text) for world in worlds):
        return _from_player(text, given)
    if (path / ADAPTER_CONFIG).is_file():
        raise ConfigError(
            f"{text!r} holds an adapter and no model; name the run that it is from, one of the run's checkpoints, "
            "or the directory of a whole model: mage export-model RUN --merge -o DIRECTORY writes one"
        )
    if path.exists():
        newest = newest_with(path, "state.json")
        instead = f"a checkpoint in it, such as {newest}" if newest else _KNOWN
        raise ConfigError(f"{text!r} holds no run, no checkpoint and no model; name {instead}")
    raise ConfigError(f"{text!r} cannot be evaluated; {did_you_mean(text, _alike(path))}name {_KNOWN}")


def _alike(path: Path) -> list[str]:
    """Names that may have been meant: players, models, and runs or checkpoints in the same folder."""
    siblings = path.parent.iterdir() if path.parent.is_dir() else ()
    folders = [str(one) for one in siblings if (one / RUN).is_file() or (one / "state.json").is_file()]
    return [BAYES, *OPPONENTS, *MODELS, *sorted(folders)]


def _from_run(folder: Path, checkpoint: Path | None, given: Mapping[str, object]) -> EvalAgent:
    require("train", f"{str(folder)!r} needs")
    from mage.training.checkpoint import checkpoint_path
    from mage.training.run import load_run

    with named_errors(folder):
        config, parts, step = load_run(folder, checkpoint, given)

    async def publish() -> None:
        await parts.publish(step)

    run_sync(publish())  # for agents that are made before the first refresh
    pinned = str(checkpoint_path(folder / "checkpoints", step))
    name = folder.resolve().name if checkpoint is None else f"{folder.resolve().name}/{checkpoint.resolve().name}"
    keep, chat_format = parts.loaded.tokenizer.save_pretrained, parts.loaded.chat_format
    knows = partial(check_words, parts.loaded)
    return ModelEvalAgent(name, pinned, config, "run", parts.engine, chat_format, publish, folder, step, keep, knows)


def _from_model(text: str, given: Mapping[str, object], worlds: Sequence[str], tokenizer: Path | None) -> EvalAgent:
    require("train", f"{text!r} needs")
    from mage.training.model_cache import model_and_inference_server

    config = _config(text, given)
    loaded, server = model_and_inference_server(config, worlds, tokenizer)
    length = server.limits.length
    if config.agent.context > length:
        if "agent.context" in given:
            raise ConfigError(f"agent.context = {config.agent.context}: {text} has room for {length} tokens")
        config = _config(text, {**given, "agent.context": length})

    async def reset() -> None:
        server.reset_cache()

    run_sync(server.publish(text, PolicyWeights(loaded.model.state_dict()), 0))
    engine, keep = server.policy(text), loaded.tokenizer.save_pretrained
    knows = partial(check_words, loaded)
    return ModelEvalAgent(
        text, text, config, "model", engine, loaded.chat_format, reset, save_tokenizer=keep, check_words=knows
    )


def _from_remote(text: str, given: Mapping[str, object], patience: RetryPolicy | None, concurrency: int) -> EvalAgent:
    address = read_address(text)
    sizes = {"max_tokens": MAX_TOKENS, "reflection_tokens": REFLECTION_TOKENS, "context": CONTEXT}
    usual = {"agent.reply": ReplyMode.TEXT.value, **{f"agent.{key}": size for key, size in sizes.items()}}
    config = _config(str(address), {**usual, **given})
    if config.agent.reply is not ReplyMode.TEXT:
        raise ConfigError(f"agent.reply = {config.agent.reply}: a remote model cannot be held to a choice; use text")
    engine = RemoteEngine(address, retry_policy=patience, concurrency=concurrency)
    return ModelEvalAgent(str(address), str(address), config, "remote", engine, ByteFormat())


def _from_player(text: str, given: Mapping[str, object]) -> EvalAgent:
    spec = parse_spec(text)
    for key in given:
        if key.startswith("agent."):
            raise ConfigError(f"{key} is for models; {str(spec)!r} is a player without one")
    name, config = str(spec), _config(str(spec), given)
    if spec.name != BAYES:
        return OpponentEvalAgent(name, name, config)
    objective, pool = call_with("player", spec, _bayes)
    return BayesEvalAgent(name, name, config, objective=objective, pool=pool, members=_members(pool))


def _bayes(objective: Any = PlanObjective.LAST.value, pool: Any = "") -> tuple[PlanObjective, str]:
    if str(objective) not in tuple(PlanObjective):
        raise ConfigError(f"objective of {BAYES} must be last or sum, not {str(objective)!r}")
    return PlanObjective(str(objective)), str(pool)


def _members(pool: str) -> tuple[tuple[str, float], ...] | None:
    return load_split(pool).weighted_members if pool else None


def _config(model: str, given: Mapping[str, object]) -> Config:
    config = replaced(Config(), {**given, "agent.model": model}, model)
    check_agent(config.agent)
    return config


def _refuse_memory(name: str, memory: Memory | None, rewrite: Rewrite) -> None:
    if memory not in (None, Memory.NONE) or rewrite is not as_written:
        raise ConfigError(f"{name} is a player without a model: it has no {memory or 'reflections'} to remember")


def _is_on_hub(text: str) -> bool:
    """Whether it looks like a name on the hub and its parent is no local directory: runs/typo is a mistyped run."""
    return re.fullmatch(r"[\w.-]+/[\w.-]+", text) is not None and not Path(text).parent.exists()
