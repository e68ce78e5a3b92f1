"""`mage sweep`: several recipes with several seeds, and with several values of one setting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from mage.cli.recipes import load_recipe
from mage.config.vary import parse_vary
from mage.errors import ConfigError
from mage.results import open_sweep
from mage.runs.console import plain_console, say
from mage.runs.drawings import shown
from mage.runs.sweep_plan import read_plan
from mage.training.start import check_new_run
from mage.training.sweep_summary import RunState
from mage.training.sweep_tables import full_table
from mage.training.without_effect import refuse_without_effect

_RECIPES = typer.Argument(
    metavar="RECIPE… KEY=VALUE…", help="Recipes such as rps+grpo, and overrides that go for all of them."
)
_VARY = typer.Option(
    metavar="KEY=VALUE,VALUE,…", help="Train at each value, such as world.look=0.1,-0.4, and plot scores against it."
)
_JOBS = typer.Option(min=1, help="Runs made at a time, several in processes of their own.")
_MINUTES = typer.Option(min=0, help="Training time of each run, which is then evaluated as it is.")


def command(
    arguments: Annotated[list[str] | None, _RECIPES] = None,
    vary: Annotated[str | None, _VARY] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds per recipe, from its own on; 3 by default.")] = None,
    run: Annotated[Path | None, typer.Option("--run", help="A new directory for the sweep; runs/… by default.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with this sweep instead.")] = None,
    max_minutes: Annotated[float | None, _MINUTES] = None,
    jobs: Annotated[int, _JOBS] = 1,
) -> None:
    """Train several recipes with several seeds. One command makes all runs, and one table has them."""
    if (resume is None) is not bool(arguments):
        raise ConfigError("give recipes to sweep over, or --resume DIR to go on with a sweep, and not both")
    if resume is not None and (vary, seeds, run, max_minutes) != (None, None, None, None):
        raise ConfigError("--vary, --seeds, --run and --max-minutes go with recipes; a resumed sweep has its plan")
    if resume is None:
        overrides = [argument for argument in arguments or () if "=" in argument]
        recipes = [argument for argument in arguments or () if "=" not in argument]
        configs = [(recipe, load_recipe(recipe, overrides)) for recipe in recipes]
        setting = None if vary is None else parse_vary(vary)
        if setting is None:
            refuse_without_effect(*(config for _, config in configs))
        check_new_run(run, *(config for _, config in configs))
        say("loading PyTorch …")
        from mage.training.sweep import begin_sweep

        resume = begin_sweep(configs, seeds or 3, run, max_minutes, setting)
    else:
        read_plan(resume)
    swept, console = open_sweep(resume).resume(jobs=jobs), plain_console()
    summary = swept.summary
    console.print(Group(Text(), full_table(summary, swept.dial)))
    if any(made.state is RunState.OPEN for made in summary.runs):
        console.print(shown(f"go on with  mage sweep --resume {resume}"), soft_wrap=True)
    else:
        console.print(shown(f"\nsaved in    {resume}", "dim"), soft_wrap=True)
    raise typer.Exit(int(any(made.state is RunState.FAILED for made in summary.runs)))
