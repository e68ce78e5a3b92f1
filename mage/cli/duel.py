"""`mage duel`: two players against each other, as means with intervals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mage.aio import run_sync
from mage.cli.options import Episodes, MaxTurns, Run, Seed, World
from mage.cli.tables import new_run, percent, plain_table, plural, say_saved, span
from mage.evaluation.duel import Duel, DuelCounter, DuelRow, check, play
from mage.numbers import signed
from mage.runs.console import plain_console, progress_bar
from mage.runs.drawings import shown
from mage.runs.store import RunWriter
from mage.spec import parse_spec
from mage.stats import Verdict
from mage.types import Failure
from mage.worlds.registry import load_world

_PATIENCE_S = 1.0
"""How long a duel may take before it shows a bar."""
_PLAYER = typer.Argument(metavar="A", help="The opponent spec that is evaluated; it takes every seat in turn.")
_OPPONENTS = typer.Argument(metavar="B", help="Its opponents: one spec for all other seats or one for each.")


def command(
    player: Annotated[str, _PLAYER],
    opponents: Annotated[list[str], _OPPONENTS],
    world: World,
    trials: Annotated[int, typer.Option(min=2, help="Trials in each seat.")] = 100,
    episodes: Episodes = 1,
    seed: Seed = 0,
    max_turns: MaxTurns = 1000,
    run: Run = None,
) -> None:
    """Let two players meet many times. The table shows means with 95 % intervals."""
    duel = Duel(player, tuple(opponents), world, trials, episodes, seed, max_turns)
    check(duel)
    info, console = load_world(duel.world).info, plain_console()
    counter = DuelCounter(info.num_seats, (info.lowest, info.highest))
    writer = new_run(run, "duel", duel.world, msgspec.to_builtins(duel), duel.seed)
    try:
        first_failure = run_sync(_play_duel(duel, writer, counter))
    except KeyboardInterrupt:
        console.print(Text("stopped; what was played until then is saved", "yellow"))
        say_saved(console, writer.path, "")
        raise
    finally:
        writer.discard_if_empty()
    console.print(duel_table(duel, str(parse_spec(duel.world)), counter.rows()))
    if first_failure is not None:
        console.print(shown(f"The first failure: {first_failure.error}: {first_failure.message}", "red"))
    say_saved(console, writer.path, " [N]")
    raise typer.Exit(int(first_failure is not None))


async def _play_duel(duel: Duel, writer: RunWriter, counter: DuelCounter) -> Failure | None:
    """Play, write and count; returns the first failure."""
    first_failure: Failure | None = None
    bar = progress_bar()
    job = bar.add_task("trials", total=duel.trials * load_world(duel.world).info.num_seats)
    started = time.monotonic()
    try:
        async for outcome in play(duel):
            writer.append(outcome)
            counter.add(outcome)
            if first_failure is None and isinstance(outcome, Failure):
                first_failure = outcome
            bar.advance(job)
            if not bar.live.is_started and time.monotonic() - started > _PATIENCE_S:
                bar.start()
    finally:
        bar.stop()
    return first_failure


def duel_table(duel: Duel, game: str, rows: Sequence[DuelRow]) -> RenderableType:
    """How the player did by seat and overall."""
    title = shown(f"{duel.player} against {', '.join(duel.opponents)} at {game}", "bold")
    table = plain_table()
    for name, justify in (("seat", "left"), ("episodes", "right"), ("", "left"), ("mean", "right"), ("95 %", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        seat = "all seats" if row.seat is None else f"seat {row.seat}"
        for index, metrics in enumerate(_metrics(row)):
            heading = (seat, str(row.num_episodes)) if index == 0 else ("", "")
            table.add_row(*heading, *metrics)
        table.add_row()
    notes = [
        f"{duel.trials} trials in each seat, {duel.episodes} {plural('episode', duel.episodes)} each; "
        f"all seats are dealt the same; seed {duel.seed}.",
        _apart(rows[-1]),
    ]
    return Group(title, table, *(shown(note, "dim") for note in notes if note))


def _metrics(row: DuelRow) -> list[tuple[str, str, str]]:
    """The name of each metric, its mean and its interval."""
    metrics = [("score", "–", "needs two trials")]
    if row.score:
        metrics = [("score", signed(row.score.value), span(row.score, signed))]
    for name, rate in zip(Verdict, row.rates or (), strict=False):
        metrics.append((f"{name} rate", percent(rate.value), span(rate, percent)))
    return metrics


def _apart(total: DuelRow) -> str:
    """What was counted apart, because it says nothing about skill."""
    counts = {
        "given up by the player": total.forfeits,
        "given up by an opponent": total.opponent_forfeits,
        "too long and stopped": total.truncations,
    }
    parts = [f"{num} {plural('episode', num)} {what}" for what, num in counts.items() if num]
    parts += [f"{total.failures} {plural('trial', total.failures)} failed"] if total.failures else []
    return f"Not counted above: {', '.join(parts)}." if parts else ""
