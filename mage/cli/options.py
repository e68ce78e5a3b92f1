"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

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
Imports = Annotated[
    list[str] | None,
    typer.Option("--import", metavar="MODULE_OR_FILE", help="Import this first, because it registers names."),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host", metavar="HOST[:PORT][=VARIABLE]", help="A remote model here may be asked, with the API key."
    ),
]


def import_given(imports: list[str] | None) -> None:
    """Import what `--import` names."""
    if imports:
        from mage.plugins import import_plugins

        import_plugins(imports)


def with_common_options(command: Callable[..., None], *, asks_models: bool) -> Callable[..., None]:
    """The command with the option `--import`, and with `--allow-host` where it may ask remote models."""

    @wraps(command)
    def wrapped(imports: list[str] | None = None, hosts: list[str] | None = None, **values: Any) -> None:
        import_given(imports)
        if not hosts:
            command(**values)
            return
        from mage.models.hosts import allow_hosts

        with allow_hosts(*hosts):
            command(**values)

    hints = get_type_hints(command, include_extras=True)
    own = [given.replace(annotation=hints[given.name]) for given in signature(command).parameters.values()]
    options = {"imports": Imports, **({"hosts": AllowedHosts} if asks_models else {})}
    added = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in options.items()]
    wrapped.__signature__ = Signature([*own, *added])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {**hints, **options}
    return wrapped
