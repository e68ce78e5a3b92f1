"""`mage split`: write a set of opponents or levels to evaluate on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mage.cli.options import World
from mage.evaluation.splits import write_split
from mage.runs.console import plain_console

_MEMBERS = typer.Argument(metavar="MEMBER", help="Opponent specs, or levels; none: the seeds of tasks draw the level.")


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; its name, less .json, is the split's.")],
    world: World,
    members: Annotated[list[str] | None, _MEMBERS] = None,
    description: Annotated[str, typer.Option(help="One line that describes them.")] = "",
    held_out: Annotated[bool, typer.Option("--held-out", help="Refuse to train on them.")] = False,
    is_test: Annotated[bool, typer.Option("--test", help="Held out, and refused in evaluation.splits too.")] = False,
    kind: Annotated[str, typer.Option(help="What it asks of an agent, such as seen, harder or switching.")] = "",
    episodes: Annotated[int | None, typer.Option(help="Episodes of a trial; as in training by default.")] = None,
) -> None:
    """Write a split of your own: opponents or levels to evaluate on. It gets a hash, which every report carries."""
    made = write_split(
        file,
        world,
        members or (),
        description=description,
        held_out=held_out,
        kind=kind,
        episodes=episodes,
        is_test=is_test,
    )
    told = f"{file}: {', '.join(made.members) or 'levels drawn by seed'} in {made.world}, hash {made.sha256[:12]}"
    plain_console().print(told, soft_wrap=True)
