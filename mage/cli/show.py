"""`mage show`: the trials of a run as a list, or one of them as a transcript."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mage.cli.tables import plural, run_table
from mage.errors import RecordError
from mage.evaluation.trial_log import read_arms
from mage.runs.console import plain_console, say
from mage.runs.credit import read_credit
from mage.runs.drawings import shown
from mage.runs.recorded_drawing import MISFITS
from mage.runs.render import transcript
from mage.runs.run_plugins import import_plugins_of
from mage.runs.store import RunInfo, RunReader
from mage.worlds.registry import load_world

_NUMBER = typer.Argument(metavar="N", min=0, help="The number of a trial; all are listed without it.")


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    trial: Annotated[int | None, _NUMBER] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most trials to list.")] = 40,
) -> None:
    """List the trials of a run, or read one of them."""
    reader = RunReader(run)
    for sentence in reader.damage:
        print(f"mage: {run}: {sentence}", file=sys.stderr)
    plain_console().print(listed_run(reader, limit) if trial is None else one_trial(reader, trial))


def listed_run(reader: RunReader, limit: int) -> RenderableType:
    """A run and a line for each of its trials."""
    summaries = reader.summaries()
    header = _header(str(reader.path), reader.info, len(summaries))
    if not summaries:
        return Group(header, Text("There are no trials in it.", "dim"))
    arms = read_arms(reader.path)
    has_splits = len({arm.split for arm in arms}) > 1
    named = [f"{arm.split}: {arm.arm}" if has_splits else arm.arm for arm in arms]
    return Group(header, run_table(summaries, limit, named))


def one_trial(reader: RunReader, number: int) -> RenderableType:
    """The transcript of one trial, with its credit, and with the rules where its world is still known."""
    outcome = reader.trial(number)
    try:
        import_plugins_of(reader.path)
        rules = load_world(outcome.task.world).rules(outcome.task)
    except (RecordError, *MISFITS) as error:
        rules = None
        if reader.info.plugins:
            say(str(error))
    return transcript(outcome, f"Trial {number} of {reader.path}", rules, read_credit(reader.path, number))


def _header(path: str, info: RunInfo, num: int) -> RenderableType:
    """What a run is, in two lines."""
    versions = ", ".join(f"{name} {version}" for name, version in info.versions.items())
    return Group(
        shown(f"{path}: {info.kind}, {num} {plural('trial', num)}, seed {info.seed}", "bold"),
        shown(f"created {info.created} with {versions}", "dim"),
    )
