"""`mage trials`: play the trials of a recipe, save them and print them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from mage.aio import run_sync
from mage.cli.options import DryRun, Overrides, Recipe, Run
from mage.cli.recipes import is_world
from mage.cli.tables import new_run, run_table, say_saved
from mage.config.load import load_config, parse_override, replaced, to_toml
from mage.config.schema import Config
from mage.evaluation.splits import has_levels
from mage.extras import require
from mage.protocols import AgentFactory, World
from mage.rollout.group import play_trials
from mage.runs.console import plain_console, say
from mage.runs.render import transcript
from mage.runs.store import TOKENIZER, RunReader, RunWriter
from mage.training.build import (
    agent_settings,
    check,
    draw_tasks,
    language_agent_factory,
    scripted_world_and_agent,
    worlds_of,
)
from mage.types import Failure
from mage.weights import PolicyWeights
from mage.worlds.registry import load_world


def command(
    recipe: Annotated[str, Recipe], overrides: Overrides = None, run: Run = None, dry_run: DryRun = False
) -> None:
    """Play the trials of a recipe; nothing is learned. They are printed and saved.

    A model plays as it is loaded. A world in place of a recipe is played by scripted:first against uniform opponents.
    """
    config = _config(recipe, overrides or ())
    if dry_run:
        check(config)
        print(to_toml(config), end="")
        return
    check(config)
    world, make_agent, save_tokenizer = _players(config)
    writer = new_run(run, "trials", config.world, config.model_dump(mode="json"), config.seed)
    try:
        failed = run_sync(_play(config, world, make_agent, writer))
        save_tokenizer(writer.path / TOKENIZER)
    finally:
        writer.discard_if_empty()
    reader, console = RunReader(writer.path), plain_console()
    first = reader.trial(0)
    console.print(transcript(first, f"Trial 0 of {config.trials}", world.rules(first.task)))
    console.print(Group(Text(), run_table(reader.summaries(), config.trials)))
    say_saved(console, writer.path, " [N]")
    raise typer.Exit(int(failed))


def _config(recipe: str, overrides: Sequence[str]) -> Config:
    """The config of a recipe; where there is none of that name, that of a world."""
    if not is_world(recipe):
        return load_config(recipe, overrides)
    others = {} if has_levels(recipe) else {"population.members": ["uniform"]}
    values = {"world": recipe, "agent.model": "scripted:first", **others, **dict(map(parse_override, overrides))}
    return replaced(Config(), values, recipe)


def _players(config: Config) -> tuple[World, AgentFactory, Callable[[Path], object]]:
    """The world, the agents of the config's model, and what saves its tokenizer."""
    model = config.agent.model
    if model.startswith("scripted:"):
        return *scripted_world_and_agent(config), lambda _: None
    require("train", f"the model {model!r} needs")
    say(f"loading PyTorch and {model}; it plays as it is loaded …")
    from mage.training.model_cache import model_and_inference_server

    loaded, server = model_and_inference_server(config, worlds_of(config))
    run_sync(server.publish(model, PolicyWeights(loaded.model.state_dict()), 0))
    world, how = load_world(config.world), agent_settings(config.agent)
    make_agent = language_agent_factory(world, server.policy(model), loaded.chat_format, how)
    return world, make_agent, loaded.tokenizer.save_pretrained


async def _play(config: Config, world: World, make_agent: AgentFactory, writer: RunWriter) -> bool:
    jobs = [(task, 0) for task in islice(draw_tasks(config, "trials"), config.trials)]
    failed = False
    async for outcome in play_trials(world, jobs, make_agent):
        writer.append(outcome)
        failed |= isinstance(outcome, Failure)
    return failed
