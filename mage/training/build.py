"""From a config to parts: the only place where names become objects."""

from __future__ import annotations

from collections.abc import Iterator

from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, LanguageAgent, Rewrite, as_written
from mage.agents.methods.registry import agent_class, check_method
from mage.agents.tutor import check_tutor
from mage.config.schema import AgentConfig, Config
from mage.engines.scripted import MODELS, ScriptedEngine
from mage.errors import ConfigError, pick
from mage.evaluation.splits import check_split, load_split, refuse_held_out, split_files
from mage.models.address import PREFIX, refuse_remote
from mage.opponents.registry import check_opponent
from mage.protocols import Agent, AgentFactory, ChatFormat, Engine, World
from mage.rollout.tasks import task_of
from mage.seeds import derive, pick_index, uniform
from mage.spec import parse_spec
from mage.types import Memory, ReplyMode, Task, Thoughts
from mage.worlds.openspiel.game import load_game
from mage.worlds.openspiel.openings import without_opening
from mage.worlds.openspiel.world import OpenSpielWorld


def check(config: Config) -> None:
    """Fail now, with one line, on a game, seat or opponent that would fail later."""
    refuse_remote(config.agent.model)
    game = load_game(config.world)
    members, weights = members_of(config), config.population.weights
    if not members:
        raise ConfigError("population.members = []: name at least one opponent; mage list opponents shows them")
    if weights and len(weights) != len(members):
        raise ConfigError(f"population.weights has {len(weights)} values for {len(members)} members; give one each")
    for seat in config.trial.seats:
        if seat >= game.num_seats:
            raise ConfigError(f"trial.seats: seat {seat} does not exist; {game.spec} has 0 to {game.num_seats - 1}")
        for other in set(range(game.num_seats)) - {seat}:
            for member in members:
                check_opponent(member, game, other)
    if config.batch.replay and config.credit.estimator == "cloning":
        raise ConfigError(f"batch.replay = {config.batch.replay}: a teacher's scores do not say what the agent lacks")
    if not config.trial.seats:
        raise ConfigError("trial.seats = []: name at least one seat")
    check_agent(config.agent)


def check_agent(agent: AgentConfig) -> None:
    """Refuse settings of an agent that do not go together."""
    check_method(agent.method, agent.memory)
    check_thoughts(agent)
    check_prefill(agent)
    check_tutor(agent.tutor, agent.memory)


def check_prefill(agent: AgentConfig) -> None:
    """Refuse to begin answers that are chosen from a list, are preceded by a thought, or are given elsewhere."""
    if agent.prefill and (agent.reply is not ReplyMode.TEXT or agent.method != LanguageAgent.method):
        raise ConfigError(
            f"agent.prefill = {agent.prefill!r}: answers are begun only with agent.reply = text and agent.method = "
            f"{LanguageAgent.method}, not with {agent.reply} and {agent.method}"
        )
    if agent.prefill and agent.model.startswith(PREFIX):
        raise ConfigError(f"agent.prefill = {agent.prefill!r}: a remote model's answer cannot be begun; leave it empty")


def check_thoughts(agent: AgentConfig) -> None:
    """Refuse to strip thoughts where the history never holds any."""
    thinks = agent_class(agent.method).thinks
    has_thoughts = thinks or agent.reply is ReplyMode.TEXT or agent.memory is Memory.BOTH
    if agent.thoughts is Thoughts.STRIP and not has_thoughts:
        raise ConfigError(
            f"agent.thoughts = strip: with agent.reply = {agent.reply} and agent.memory = {agent.memory} the history "
            "holds no thoughts; they are asked for by react, in text replies, and in reflections with memory both"
        )


def members_of(config: Config) -> tuple[str, ...]:
    """All members of the population; those of a split must be made for the game, opened in whatever way."""
    population = config.population
    if not population.split:
        return population.members
    split = load_split(population.split)
    if without_opening(parse_spec(split.world)) != without_opening(parse_spec(config.world)):
        raise ConfigError(f"population.split: {split.name!r} is made for {split.world}, not for {config.world}")
    return (*split.members, *population.members)


def split_names_of(config: Config) -> tuple[str, ...]:
    """The splits to judge by, and the population's where it is one, as the config names them."""
    return (*config.evaluation.splits, *filter(None, (config.population.split,)))


def check_splits(config: Config) -> None:
    """Fail now, with one line, on a split that could not be judged by, or on training with what one holds out."""
    evaluated = [load_split(name) for name in config.evaluation.splits]
    if len({split.name for split in evaluated}) < len(evaluated):
        raise ConfigError(f"evaluation.splits = {list(config.evaluation.splits)}: name each split once")
    for split in evaluated:
        check_split(split, config.trial.seats)
    split_files(split_names_of(config))
    named = [load_split(name) for name in split_names_of(config)]
    refuse_held_out(config.world, members_of(config), named)


def draw_tasks(config: Config, *path: str | int) -> Iterator[Task]:
    """Tasks without end, drawn from the population by the stream called `path`; seats are taken in turn."""
    num_others = load_game(config.world).num_seats - 1
    members = members_of(config)
    weights = config.population.weights or (1.0,) * len(members)
    index = 0
    while True:
        seed = derive(config.seed, *path, index)
        drawn = [pick_index(weights, uniform(seed, "member", other)) for other in range(num_others)]
        yield task_of(config, tuple(members[i] for i in drawn), index, seed)
        index += 1


def settings(agent: AgentConfig) -> AgentSettings:
    """How the model plays."""
    return AgentSettings(
        name=agent.model,
        memory=agent.memory,
        reply=agent.reply,
        temperature=agent.temperature,
        max_tokens=agent.max_tokens,
        reflection_tokens=agent.reflection_tokens,
        retries=agent.retries,
        context=agent.context,
        thoughts=agent.thoughts,
        prefill=agent.prefill,
        method=agent.method,
    )


def scripted_engine(model: str) -> tuple[Engine, ChatFormat]:
    """The engine and codec of `scripted:NAME`."""
    name = model.removeprefix("scripted:")
    return ScriptedEngine(pick("scripted model", MODELS, name)), ByteFormat()


def language_agent_factory(
    world: World, engine: Engine, chat_format: ChatFormat, how: AgentSettings, rewrite: Rewrite = as_written
) -> AgentFactory:
    """Seats a fresh language agent for each trial; `rewrite` says what it remembers of its reflections."""
    check_method(how.method, how.memory)
    kind = agent_class(how.method)

    def seat(task: Task, sibling: int) -> Agent:
        return kind(engine, chat_format, how, world.rules(task), task, sibling, rewrite)

    return seat


def scripted_table(config: Config) -> tuple[World, AgentFactory]:
    """The world and the agent of a config whose model is scripted."""
    world = OpenSpielWorld()
    if not config.agent.model.startswith("scripted:"):
        raise ConfigError(f"unknown model {config.agent.model!r}; known: scripted:{', scripted:'.join(sorted(MODELS))}")
    engine, chat_format = scripted_engine(config.agent.model)
    return world, language_agent_factory(world, engine, chat_format, settings(config.agent))
