"""`mage trials`: play the trials of a recipe, save them and print them."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path

from rich.console import Console, Group
from rich.text import Text

from mage.cli.tables import run_table
from mage.cli.terminal import new_run, say_saved
from mage.config.schema import Config
from mage.rollout.group import play_trials
from mage.runs.render import transcript
from mage.runs.store import RunReader, RunWriter
from mage.training.build import check, draw_tasks, scripted_world_and_agent
from mage.types import Failure


def run_trials(config: Config, run: Path | None, console: Console) -> int:
    """Play, print the first trial whole and all of them as a table. Returns the exit code: 1 when one failed."""
    check(config)
    writer = new_run(run, "trials", config.world, config.model_dump(mode="json"), config.seed)
    try:
        failed = asyncio.run(_play(config, writer))
    finally:
        writer.discard_if_empty()
    reader = RunReader(writer.path)
    first = reader.trial(0)
    world, _ = scripted_world_and_agent(config)
    console.print(transcript(first, f"Trial 0 of {config.trials}", world.rules(first.task)))
    console.print(Group(Text(), run_table(reader.summaries(), config.trials)))
    say_saved(console, writer.path, " [N]")
    return int(failed)


async def _play(config: Config, writer: RunWriter) -> bool:
    world, make_agent = scripted_world_and_agent(config)
    jobs = [(task, 0) for task in islice(draw_tasks(config, "trials"), config.trials)]
    failed = False
    async for outcome in play_trials(world, jobs, make_agent):
        writer.append(outcome)
        failed |= isinstance(outcome, Failure)
    return failed
