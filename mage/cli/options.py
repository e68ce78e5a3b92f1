"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Seed = Annotated[int, typer.Option(min=0, help="Fixes every draw.")]
Run = Annotated[Path | None, typer.Option("--run", help="A new directory for the run; runs/… by default.")]
Recipe = typer.Argument(
    metavar="RECIPE",
    help="A shipped recipe, the path of a TOML file, or several with + between them, as in rps+grpo.",
)
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Overrides, such as trial.episodes=5.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved config and stop.")]
MaxTurns = Annotated[int, typer.Option(min=1, help="Moves after which an episode is stopped.")]
Episodes = Annotated[int, typer.Option(min=1, help="Episodes of a trial.")]
World = Annotated[str, typer.Option("--world", "--game", help="A world spec, such as kuhn_poker or rps(rounds=3).")]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Trials under way at once.")]
MaxCalls = Annotated[int | None, typer.Option(min=1, help="Most calls to remote models.")]
