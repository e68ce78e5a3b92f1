"""Check a config, and build agents, engines and tasks from the names in it."""

from __future__ import annotations

from collections.abc import Iterator

from mage.agents.briefing import briefing_of
from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, LanguageAgent, Rewrite, as_written
from mage.agents.methods.registry import agent_class, check_method
from mage.agents.tutor import check_tutor
from mage.config.schema import Config
from mage.config.sections import AgentConfig
from mage.config.wordings import REWORDED, wordings_of
from mage.engines.registry import ENGINES
from mage.engines.scripted import MODELS, ScriptedEngine
from mage.errors import ConfigError, pick
from mage.evaluation.config_splits import evaluated_splits, members_of, population_of, split_names_of
from mage.evaluation.held_out import avoid_held_out, refuse_held_out, refuse_held_out_wordings, wording
from mage.evaluation.splits import check_members, check_split, load_split, split_files
from mage.learners.registry import LEARNERS
from mage.models.address import PREFIX, refuse_remote
from mage.opponents.remote import check_access_to
from mage.protocols import Agent, AgentFactory, ChatFormat, Engine, World
from mage.rollout.tasks import task_of
from mage.seeds import derive, pick_index, uniform
from mage.training.config_paths import model_label
from mage.types import Memory, ReplyMode, Task, Thoughts
from mage.worlds.registry import load_world


def check(config: Config) -> None:
    """Raise a ConfigError for a world, seat, opponent, level, agent setting, engine or learner that cannot be used."""
    refuse_remote(config.agent.model)
    num_seats = load_world(config.world).info.num_seats
    members, weights = members_of(config), config.population.weights
    if not members and num_seats > 1:
        raise ConfigError("population.members = []: name at least one opponent; mage list opponents shows them")
    if weights and len(weights) != len(members):
        raise ConfigError(f"population.weights has {len(weights)} values for {len(members)} members; give one each")
    for seat in config.trial.seats:
        if seat >= num_seats:
            raise ConfigError(f"trial.seats: seat {seat} does not exist; {config.world} has 0 to {num_seats - 1}")
    check_access_of(config)
    check_members(load_world(config.world), members, config.trial.seats)
    if not config.trial.seats:
        raise ConfigError("trial.seats = []: name at least one seat")
    check_agent(config.agent)
    check_reply(config.agent.reply, load_world(config.world))
    check_schedule(config)
    check_wordings(config)
    pick("engine", ENGINES, config.engine)
    pick("learner", LEARNERS, config.learner.kind)


def check_schedule(config: Config) -> None:
    """Raise a ConfigError where the world at a point of the schedule cannot be played with the other settings."""
    if REWORDED in config.schedule:
        raise ConfigError(f"schedule.{REWORDED}: a wording is not a quantity, and some are held out; give it in world")
    for spec, values in config.scheduled_worlds.items():
        at = "schedule, " + ", ".join(f"{name} = {value}" for name, value in values.items())
        try:
            world = load_world(spec)
            check_members(world, members_of(config), config.trial.seats)
            check_reply(config.agent.reply, world)
        except ConfigError as error:
            raise ConfigError(f"{at}: {error}") from None
        if world.info.num_seats != load_world(config.world).info.num_seats:
            raise ConfigError(f"{at}: {spec} has {world.info.num_seats} seats, and {config.world} has another number")


def check_wordings(config: Config) -> None:
    """Raise a ConfigError where the world, at a point of the schedule too, cannot be played in other words."""
    num = config.population.wordings
    if num and wording(config.world) is not None:
        raise ConfigError(
            f"population.wordings = {num}: world = {config.world} has a wording already; leave {REWORDED} out of it"
        )
    try:
        for spec in (config.world, *config.scheduled_worlds):
            for reworded in wordings_of(spec, min(num, 1)):  # all have the same terms
                check_members(load_world(reworded), members_of(config), config.trial.seats)
    except ConfigError as error:
        raise ConfigError(f"population.wordings = {num}: {error}") from None


def check_access_of(config: Config) -> None:
    """Raise a ConfigError where a remote model in the population or the splits must not be asked."""
    check_access_to(config.population.members, "population.members")
    for name in split_names_of(config):
        check_access_to(load_split(name).members, f"the split {name!r}")


def check_agent(agent: AgentConfig) -> None:
    """Refuse contradictory settings of an agent."""
    check_method(agent.method, agent.memory)
    check_thoughts(agent)
    check_prefill(agent)
    check_tutor(agent.tutor, agent.memory)


def check_reply(reply: ReplyMode, world: World) -> None:
    """Refuse choices in a world that lists no actions to choose from."""
    if world.info.has_open_actions and reply is ReplyMode.CHOICE:
        raise ConfigError(
            "agent.reply = choice: any text is an action in this world, so there is no list to choose from; "
            "set agent.reply = text"
        )


def check_prefill(agent: AgentConfig) -> None:
    """Refuse a prefill where answers are choices, follow a separate thought, or come from a remote model."""
    if agent.prefill and (agent.reply is not ReplyMode.TEXT or agent.method != LanguageAgent.method):
        raise ConfigError(
            f"agent.prefill = {agent.prefill!r}: answers are begun only with agent.reply = text and agent.method = "
            f"{LanguageAgent.method}, not with {agent.reply} and {agent.method}"
        )
    if agent.prefill and agent.model.startswith(PREFIX):
        raise ConfigError(f"agent.prefill = {agent.prefill!r}: a remote model's answer cannot be begun; leave it empty")


def check_thoughts(agent: AgentConfig) -> None:
    """Refuse to strip thoughts where the history never has any."""
    thinks = agent_class(agent.method).thinks
    has_thoughts = thinks or agent.reply is ReplyMode.TEXT or agent.memory is Memory.BOTH
    if agent.thoughts is Thoughts.STRIP and not has_thoughts:
        raise ConfigError(
            f"agent.thoughts = strip: with agent.reply = {agent.reply} and agent.memory = {agent.memory} the history "
            "holds no thoughts; they are asked for by react, in text replies, and in reflections with memory both"
        )


def worlds_of(config: Config) -> tuple[str, ...]:
    """The worlds of a config: those of training, at the points of its schedule, and those of its splits.

    Those of training are in their usual words, which are those of the showcase, and in all wordings.
    """
    played = (config.world, *config.scheduled_worlds)
    wordings = [reworded for world in played for reworded in wordings_of(world, config.population.wordings)]
    return (*played, *wordings, *(load_split(name).world for name in split_names_of(config)))


def check_splits(config: Config) -> None:
    """Raise a ConfigError for a split that cannot be evaluated on, and for training on held-out members."""
    evaluated = evaluated_splits(config)
    if len({split.name for split in evaluated}) < len(evaluated):
        raise ConfigError(f"evaluation.splits = {list(config.evaluation.splits)}: name each split once")
    for split in evaluated:
        if split.is_test:
            raise ConfigError(
                f"evaluation.splits: {split.name!r} is kept for published figures, so that no setting is chosen by it; "
                f"evaluate on it once, after training: mage evaluate RUN --opponents {split.name}"
            )
        check_split(split, config.trial.seats)
    split_files(split_names_of(config))
    named = [load_split(name) for name in split_names_of(config)]
    refuse_held_out(config.world, members_of(config), named)
    refuse_held_out_wordings(config.world, config.population.wordings, named)


def draw_tasks(config: Config, *path: str | int) -> Iterator[Task]:
    """An endless iterator of tasks, drawn from the population by the random stream `path`; seats are taken in turn.

    In a world of one seat a member is the level; without members the task's seed draws what is hidden.
    """
    num_seats = load_world(config.world).info.num_seats
    population = population_of(config)
    members, weights = [member for member, _ in population], [weight for _, weight in population]
    num_drawn = num_seats - 1 or min(1, len(members))
    index = 0
    while True:
        seed = derive(config.seed, *path, index)
        drawn = tuple(members[pick_index(weights, uniform(seed, "member", number))] for number in range(num_drawn))
        opponents, level = (drawn, "") if num_seats > 1 else ((), "".join(drawn))
        yield avoid_held_out(config, task_of(config, opponents, index, seed, level))
        index += 1


def agent_settings(agent: AgentConfig) -> AgentSettings:
    """The agent's settings, from its config section."""
    return AgentSettings(
        name=model_label(agent.model),
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
    """The engine and chat format of `scripted:NAME`."""
    name = model.removeprefix("scripted:")
    return ScriptedEngine(pick("scripted model", MODELS, name)), ByteFormat()


def language_agent_factory(
    world: World, engine: Engine, chat_format: ChatFormat, how: AgentSettings, rewrite: Rewrite = as_written
) -> AgentFactory:
    """A factory of language agents; `rewrite` maps reflections to what is stored in memory.

    Agents are told the rules of their task's own world, which may have other parameters or words than `world`.
    """
    check_method(how.method, how.memory)
    check_reply(how.reply, world)
    kind = agent_class(how.method)

    def make_agent(task: Task, sibling: int) -> Agent:
        return kind(engine, chat_format, how, briefing_of(load_world(task.world), task), task, sibling, rewrite)

    return make_agent


def scripted_world_and_agent(config: Config) -> tuple[World, AgentFactory]:
    """The world and the agent factory of a config whose model is scripted."""
    world = load_world(config.world)
    if not config.agent.model.startswith("scripted:"):
        raise ConfigError(f"unknown model {config.agent.model!r}; known: scripted:{', scripted:'.join(sorted(MODELS))}")
    engine, chat_format = scripted_engine(config.agent.model)
    return world, language_agent_factory(world, engine, chat_format, agent_settings(config.agent))
