"""`mage export-model`: a run's weights in Hugging Face layout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mage.extras import require
from mage.runs.console import plain_console
from mage.runs.drawings import shown


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A train run.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="A new directory for the model.")],
    step: Annotated[int | None, typer.Option(min=0, help="The weights after this step; the newest by default.")] = None,
    best: Annotated[bool, typer.Option("--best", help="The best of the weights evaluated while training.")] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="The whole model, with the adapter of a LoRA run in it.")
    ] = False,
) -> None:
    """Write a run's weights, to be loaded elsewhere. A Hugging Face directory with tokenizer and model card."""
    require("train", "training needs")
    from mage.training.export import export_model

    found = export_model(run, out, step=step, best=best, merge=merge)
    said = f"wrote the weights of {run} after step {found} to {out}; its README.md says how to load them"
    plain_console().print(shown(said), soft_wrap=True)
