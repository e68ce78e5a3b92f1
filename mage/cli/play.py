"""`mage play`: a person plays a trial in the terminal."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import msgspec
import typer
from rich.console import Console, Group
from rich.text import Text

from mage.agents.briefing import briefing_of
from mage.cli.options import MaxTurns, Run
from mage.cli.tables import new_run, say_saved
from mage.errors import ConfigError
from mage.evaluation.duel import filled
from mage.opponents.person import Person
from mage.protocols import World
from mage.rollout.group import play_trials
from mage.rollout.tasks import other_seats
from mage.runs.console import plain_console
from mage.runs.drawings import shown
from mage.runs.render import scores_table
from mage.runs.store import RunWriter
from mage.spec import parse_spec
from mage.types import Failure, Task, Trial
from mage.worlds.registry import load_world

_AGAINST = typer.Option(help="An opponent spec; several for games with more seats. None in a world of one seat.")
_LEVEL = typer.Option(help="What is hidden in a world of one seat; drawn by the seed by default.")
_SEED = typer.Option(min=0, help="Fixes the deals and the opponent or level; random by default.")


def command(
    world: Annotated[str, typer.Argument(metavar="WORLD", help="A world spec, such as tic_tac_toe or rps(rounds=5).")],
    against: Annotated[list[str] | None, _AGAINST] = None,
    level: Annotated[str, _LEVEL] = "",
    seat: Annotated[int, typer.Option(min=0, help="Your seat; 0 moves first.")] = 0,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes with the same opponent or level.")] = 3,
    replay_deal: Annotated[bool, typer.Option("--replay-deal", help="Deal the same cards in every episode.")] = False,
    seed: Annotated[int | None, _SEED] = None,
    max_turns: MaxTurns = 1000,
    run: Run = None,
) -> None:
    """Play a trial yourself, in this terminal. Any opponent may sit opposite."""
    loaded = load_world(world)
    task = Task(
        world=str(parse_spec(world)),
        opponents=_opponents(world, loaded.info.num_seats, against or ()),
        seat=seat,
        seed=secrets.randbits(32) if seed is None else seed,
        episodes=episodes,
        replay_deal=replay_deal,
        early_stop=False,
        max_turns=max_turns,
        level=level,
    )
    for other, spec in zip(other_seats(task, loaded.info.num_seats), task.opponents, strict=True):
        loaded.check_opponent(spec, other)
    if level:
        loaded.check_level(level)
    writer = new_run(run, "play", task.world, msgspec.to_builtins(task), task.seed)
    raise typer.Exit(play_in_terminal(task, writer, plain_console()))


def _opponents(world: str, num_seats: int, against: Sequence[str]) -> tuple[str, ...]:
    """The opponents of a person, one for each other seat."""
    if num_seats == 1 and against:
        raise ConfigError(f"--against {against[0]}: {world} has one seat and no opponents")
    if num_seats > 1 and not against:
        raise ConfigError(f"{world} has {num_seats} seats; name an opponent with --against (mage list opponents)")
    return filled(against, num_seats - 1, world) if against else ()


def play_in_terminal(task: Task, writer: RunWriter, console: Console) -> int:
    """Let a person play one trial; finished episodes are saved. Returns the exit code."""
    if sys.stdin.isatty():
        with suppress(ImportError):
            import readline  # noqa: F401, input() then edits lines
    world = load_world(task.world)
    person = Person(_rules(world, task), task, input, console.print)
    try:
        with person.leaving_on_interrupt():
            outcome = asyncio.run(_only_trial(world, task, person))
        if isinstance(outcome, Failure) or outcome.episodes:
            writer.append(outcome)
    finally:
        writer.discard_if_empty()
    if isinstance(outcome, Failure):
        console.print(shown(f"The trial broke off: {outcome.error}: {outcome.message}", "red"))
        return 1
    if len(outcome.episodes) == task.episodes:
        person.tell(outcome.episodes[-1].result.outcomes[task.seat])
    if not outcome.episodes:
        console.print(Text("No episode was finished, so nothing was saved.", "dim"))
        return 0
    console.print(Group(Text(), scores_table(outcome)))
    say_saved(console, writer.path, " 0")
    return 0


def _rules(world: World, task: Task) -> str:
    """The rules, and in a world of one seat what stays the same in the trial."""
    told = briefing_of(world, task)
    if world.info.num_seats > 1 or task.episodes == 1:
        return told.rules
    return f"{told.rules} {told.trial_of(task.episodes)}"


async def _only_trial(world: World, task: Task, person: Person) -> Trial | Failure:
    def seat_person(task: Task, sibling: int) -> Person:
        return person

    outcomes = [outcome async for outcome in play_trials(world, [(task, 0)], seat_person)]
    return outcomes[0]
