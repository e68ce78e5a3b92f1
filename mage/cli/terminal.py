"""What happens in the terminal: a person's game, a duel with its progress, a look at a run."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from rich.console import Console, Group, RenderableType
from rich.text import Text

from mage.cli.duel import Duel, DuelCounter, check, filled, num_tasks, play
from mage.cli.tables import duel_table, run_header, run_table
from mage.errors import ConfigError
from mage.evaluation.trial_log import read_arms
from mage.opponents.person import Person
from mage.opponents.registry import check_opponent
from mage.rollout.group import play_trials
from mage.runs.console import progress_bar
from mage.runs.credit import read_credit
from mage.runs.drawings import shown
from mage.runs.render import scores_table, transcript
from mage.runs.store import RunReader, RunWriter, new_run_path
from mage.spec import parse_spec
from mage.types import Failure, Task, Trial
from mage.worlds.openspiel.game import load_game
from mage.worlds.openspiel.world import OpenSpielWorld, other_seats

_PATIENCE_S = 1.0
"""How long a duel may take before it shows a bar."""


def seated_task(
    game: str, against: Sequence[str], seat: int, episodes: int, replay_deal: bool, seed: int, max_turns: int
) -> Task:
    """The task a person plays, checked."""
    loaded = load_game(game)
    others = filled(against, loaded.num_seats - 1, game)
    task = Task(loaded.spec, others, seat, seed, episodes, replay_deal, early_stop=False, max_turns=max_turns)
    for other, spec in zip(other_seats(task), others, strict=True):
        check_opponent(spec, loaded, other)
    return task


def play_in_terminal(task: Task, run: Path | None, console: Console) -> int:
    """A person plays one trial here; what was finished is saved. Returns the exit code."""
    if sys.stdin.isatty():
        with suppress(ImportError):
            import readline  # noqa: F401, input() then edits lines
    writer = new_run(run, "play", task.world, msgspec.to_builtins(task), task.seed)
    world = OpenSpielWorld()
    person = Person(world.rules(task), task, input, console.print)
    try:
        with person.leaving_on_interrupt():
            outcome = asyncio.run(_only_trial(world, task, person))
        if isinstance(outcome, Failure) or outcome.episodes:
            writer.append(outcome)
    finally:
        writer.discard_if_empty()
    if isinstance(outcome, Failure):
        console.print(shown(f"The game broke off: {outcome.error}: {outcome.message}", "red"))
        return 1
    if len(outcome.episodes) == task.episodes:
        person.tell(outcome.episodes[-1].result.outcomes[task.seat])
    if not outcome.episodes:
        console.print(Text("No episode was finished, so nothing was saved.", "dim"))
        return 0
    console.print(Group(Text(), scores_table(outcome)))
    say_saved(console, writer.path, " 0")
    return 0


def run_duel(duel: Duel, run: Path | None, console: Console) -> int:
    """Play a duel, save its trials and print its table. Returns the exit code: 1 when a trial failed."""
    check(duel)
    game = load_game(duel.world)
    tally = DuelCounter(game.num_seats)
    writer = new_run(run, "duel", duel.world, msgspec.to_builtins(duel), duel.seed)
    try:
        first_failure = asyncio.run(_play_duel(duel, writer, tally))
    except KeyboardInterrupt:
        console.print(Text("stopped; what was played until then is saved", "yellow"))
        say_saved(console, writer.path, "")
        raise
    finally:
        writer.discard_if_empty()
    console.print(duel_table(duel, game.spec, tally.rows()))
    if first_failure is not None:
        console.print(shown(f"The first failure: {first_failure.error}: {first_failure.message}", "red"))
    say_saved(console, writer.path, " [N]")
    return int(first_failure is not None)


def listed_run(reader: RunReader, limit: int) -> RenderableType:
    """A run and a line for each of its trials."""
    summaries = reader.summaries()
    header = run_header(str(reader.path), reader.info, len(summaries))
    if not summaries:
        return Group(header, Text("There are no trials in it.", "dim"))
    arms = read_arms(reader.path)
    has_splits = len({arm.split for arm in arms}) > 1
    named = [f"{arm.split}: {arm.arm}" if has_splits else arm.arm for arm in arms]
    return Group(header, run_table(summaries, limit, named))


def one_trial(reader: RunReader, number: int) -> RenderableType:
    """The transcript of one trial, with the rules where this version of mage still knows the game, and its credit."""
    outcome = reader.trial(number)
    try:
        rules = OpenSpielWorld().rules(outcome.task)
    except ConfigError:
        rules = None
    return transcript(outcome, f"Trial {number} of {reader.path}", rules, read_credit(reader.path, number))


async def _only_trial(world: OpenSpielWorld, task: Task, person: Person) -> Trial | Failure:
    def seat_person(task: Task, sibling: int) -> Person:
        return person

    outcomes = [outcome async for outcome in play_trials(world, [(task, 0)], seat_person)]
    return outcomes[0]


async def _play_duel(duel: Duel, writer: RunWriter, tally: DuelCounter) -> Failure | None:
    """Play, write and count; returns the first failure."""
    first_failure: Failure | None = None
    bar = progress_bar()
    job = bar.add_task("trials", total=num_tasks(duel))
    started = time.monotonic()
    try:
        async for outcome in play(duel):
            writer.append(outcome)
            tally.add(outcome)
            if first_failure is None and isinstance(outcome, Failure):
                first_failure = outcome
            bar.advance(job)
            if not bar.live.is_started and time.monotonic() - started > _PATIENCE_S:
                bar.start()
    finally:
        bar.stop()
    return first_failure


def new_run(run: Path | None, kind: str, game: str, config: dict[str, object], seed: int) -> RunWriter:
    path = new_run_path(kind, parse_spec(game).name) if run is None else run
    return RunWriter.create(path, kind=kind, config=config, seed=seed)


def say_saved(console: Console, path: Path, number: str) -> None:
    """Where a run lies and how to look at it; long lines are left whole, to be copied."""
    console.print(shown(f"\nsaved in   {path}\nlook with  mage show {path}{number}", "dim"), soft_wrap=True)
