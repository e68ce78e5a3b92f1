"""Commands that train, and take what was trained elsewhere: train, sweep and export-model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mage.cli.options import DryRun, Overrides, Run
from mage.errors import ConfigError


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A shipped recipe, the path of a TOML file, or several with + between them, as in rps+grpo.",
        ),
    ] = None,
    overrides: Overrides = None,
    run: Run = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with this run instead.")] = None,
    max_minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop cleanly after the step that passes this time.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Train an agent by a recipe, or go on with a run. Some settings may be changed on the way."""
    from mage.config.compose import label_of
    from mage.config.load import load_config, to_toml

    given = overrides or []
    if resume is not None and recipe is not None and "=" in recipe:
        given, recipe = [recipe, *given], None
    if (recipe is None) is (resume is None):
        raise ConfigError("give a recipe to train by, or --resume RUN to go on with a run, and not both")
    if resume is not None and (run is not None or dry_run):
        raise ConfigError("--run and --dry-run go with a recipe; a resumed run has its directory and its config")
    config = None if recipe is None else load_config(recipe, given)
    if dry_run and config is not None:
        print(to_toml(config), end="")
        return
    from mage.extras import require

    require("train", "training needs")
    from mage.cli.train import resume_training, run_training
    from mage.runs.console import plain_console

    if resume is not None:
        raise typer.Exit(resume_training(resume, given, max_minutes, plain_console()))
    assert config is not None
    raise typer.Exit(run_training(config, run, label_of(str(recipe)), max_minutes, plain_console()))


def sweep(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE… KEY=VALUE…", help="Recipes such as rps+grpo, and overrides that go for all of them."
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds per recipe, from its own on; 3 by default.")] = None,
    run: Annotated[Path | None, typer.Option("--run", help="A new directory for the sweep; runs/… by default.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with this sweep instead.")] = None,
    max_minutes: Annotated[
        float | None, typer.Option(min=0, help="Training time of each run; it is judged where it stands then.")
    ] = None,
) -> None:
    """Train several recipes with several seeds. One process makes all runs, and one table has them."""
    if (resume is None) is not bool(arguments):
        raise ConfigError("give recipes to sweep over, or --resume DIR to go on with a sweep, and not both")
    if resume is not None and (seeds, run, max_minutes) != (None, None, None):
        raise ConfigError("--seeds, --run and --max-minutes go with recipes; a resumed sweep has its plan")
    from mage.extras import require

    require("train", "training needs")
    from mage.cli.sweep import new_sweep, resume_sweep
    from mage.runs.console import plain_console

    if resume is not None:
        raise typer.Exit(resume_sweep(resume, plain_console()))
    raise typer.Exit(new_sweep(arguments or [], seeds or 3, run, max_minutes, plain_console()))


def export_model(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A train run.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="A new directory for the model.")],
    step: Annotated[int | None, typer.Option(min=0, help="The weights after this step; the newest by default.")] = None,
    best: Annotated[bool, typer.Option("--best", help="The best of the weights judged while training.")] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="The whole model, with the adapter of a LoRA run in it.")
    ] = False,
) -> None:
    """Write a run's weights, to be loaded elsewhere. A Hugging Face directory with tokenizer and model card."""
    from mage.extras import require

    require("train", "training needs")
    from mage.cli.export_model import run_export
    from mage.runs.console import plain_console

    raise typer.Exit(run_export(run, out, step, best, merge, plain_console()))
