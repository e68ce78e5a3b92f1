"""`mage trials`: play the trials of a recipe, save them and print them."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from mage.cli.options import DryRun, Overrides, Recipe, Run
from mage.cli.tables import new_run, run_table, say_saved
from mage.config.load import load_config, to_toml
from mage.config.schema import Config
from mage.rollout.group import play_trials
from mage.runs.console import plain_console
from mage.runs.render import transcript
from mage.runs.store import RunReader, RunWriter
from mage.training.build import check, draw_tasks, scripted_world_and_agent
from mage.types import Failure


def command(
    recipe: Annotated[str, Recipe], overrides: Overrides = None, run: Run = None, dry_run: DryRun = False
) -> None:
    """Play the trials of a recipe; nothing is learned. They are printed and saved."""
    config = load_config(recipe, overrides or ())
    if dry_run:
        print(to_toml(config), end="")
        return
    check(config)
    writer = new_run(run, "trials", config.world, config.model_dump(mode="json"), config.seed)
    try:
        failed = asyncio.run(_play(config, writer))
    finally:
        writer.discard_if_empty()
    reader, console = RunReader(writer.path), plain_console()
    first = reader.trial(0)
    world, _ = scripted_world_and_agent(config)
    console.print(transcript(first, f"Trial 0 of {config.trials}", world.rules(first.task)))
    console.print(Group(Text(), run_table(reader.summaries(), config.trials)))
    say_saved(console, writer.path, " [N]")
    raise typer.Exit(int(failed))


async def _play(config: Config, writer: RunWriter) -> bool:
    world, make_agent = scripted_world_and_agent(config)
    jobs = [(task, 0) for task in islice(draw_tasks(config, "trials"), config.trials)]
    failed = False
    async for outcome in play_trials(world, jobs, make_agent):
        writer.append(outcome)
        failed |= isinstance(outcome, Failure)
    return failed
