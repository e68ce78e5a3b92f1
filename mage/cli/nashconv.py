"""`mage nashconv`: how exploitable an agent's own policy is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mage.cli.options import Episodes, MaxCalls, Overrides, Seed, World
from mage.config.load import parse_override
from mage.evaluation.game_reports import NashConv, run_nash_conv
from mage.evaluation.game_tables import nash_conv_table
from mage.evaluation.resource_limits import ResourceLimits
from mage.runs.console import plain_console
from mage.runs.drawings import shown

_AFTER = typer.Option(metavar="AGENT", help="Read the last episode too, after the others against this one.")
_SAMPLES = typer.Option(min=1, help="Answers at each information state, where probabilities are not exact.")
_RESPONDER = typer.Option(metavar="AGENT", help="Large games: find a lower bound with the best of these, by play.")
_OUT = typer.Option("--out", "-o", metavar="DIR", help="A new directory for the report.")


def command(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="As for mage evaluate.")],
    world: World,
    overrides: Overrides = None,
    after: Annotated[str | None, _AFTER] = None,
    episodes: Episodes = 3,
    trials: Annotated[int, typer.Option(min=1, help="Trials whose memories, or responders, are evaluated.")] = 100,
    samples: Annotated[int, _SAMPLES] = 64,
    responder: Annotated[list[str] | None, _RESPONDER] = None,
    learn: Annotated[int, typer.Option(min=0, help="Add a responder that learns from so many episodes a seat.")] = 0,
    seed: Seed = 0,
    out: Annotated[Path | None, _OUT] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Calls to a remote model at once.")] = None,
    max_calls: MaxCalls = None,
) -> None:
    """Find what best replies to an agent would gain. Its policy is read at every information state."""
    values = dict(map(parse_override, overrides or ()))
    plan = NashConv(agent, world, after, episodes, trials, samples, tuple(responder or ()), learn, seed, values)
    path, report = run_nash_conv(plan, out, ResourceLimits(concurrency, max_calls))
    console = plain_console()
    console.print(nash_conv_table(report.found))
    console.print(shown(f"\nsaved in  {path}", "dim"), soft_wrap=True)
