"""The command line. Commands import what they need when they run, so that help is instant."""

from __future__ import annotations

import sys
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mage import __version__
from mage.errors import ConfigError, MageError

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(
    help="Train language-model agents that learn while they play.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Seed = Annotated[int, typer.Option(min=0, help="Fixes every draw.")]
Run = Annotated[Path | None, typer.Option("--run", help="A new directory for the run; runs/… by default.")]
Recipe = Annotated[str, typer.Argument(metavar="RECIPE", help="A shipped recipe or the path of a TOML file.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Overrides, such as trial.episodes=5.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved config and stop.")]
MaxTurns = Annotated[int, typer.Option(min=1, help="Moves after which an episode is stopped.")]


class Kind(StrEnum):
    """What can be listed."""

    GAMES = "games"
    OPPONENTS = "opponents"
    RECIPES = "recipes"
    MODELS = "models"
    SPLITS = "splits"


def main() -> None:
    """Run the command line: errors made on purpose are one line, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # A terminal without Unicode still shows everything.
    try:
        app()
    except MageError as error:
        print(f"mage: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"mage {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Train language-model agents that learn while they play."""


@app.command("list")
def list_(
    kind: Kind, everything: Annotated[bool, typer.Option("--all", help="Games: OpenSpiel's own too.")] = False
) -> None:
    """List the games, opponents, recipes, models or splits that exist."""
    from mage.commands import catalogue

    if kind is Kind.GAMES:
        _console().print(catalogue.games(everything))
    elif kind is Kind.OPPONENTS:
        _console().print(catalogue.opponents())
    elif kind is Kind.RECIPES:
        _console().print(catalogue.recipes())
    elif kind is Kind.MODELS:
        _console().print(catalogue.models())
    else:
        _console().print(catalogue.splits())


@app.command()
def play(
    game: Annotated[str, typer.Argument(metavar="GAME", help="A game spec, such as tic_tac_toe or rps(rounds=5).")],
    against: Annotated[list[str], typer.Option(help="An opponent spec; several for games with more seats.")],
    seat: Annotated[int, typer.Option(min=0, help="Your seat; 0 moves first.")] = 0,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes against the same opponent.")] = 3,
    replay_deal: Annotated[bool, typer.Option("--replay-deal", help="Deal the same cards in every episode.")] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Fixes the deals and the opponent; random by default.")
    ] = None,
    max_turns: MaxTurns = 1000,
    run: Run = None,
) -> None:
    """Play a game yourself, in this terminal, against any opponent."""
    import secrets

    from mage.commands.terminal import play_in_terminal, seated_task

    drawn = secrets.randbits(32) if seed is None else seed
    task = seated_task(game, against, seat, episodes, replay_deal, drawn, max_turns)
    raise typer.Exit(play_in_terminal(task, run, _console()))


@app.command()
def duel(
    player: Annotated[
        str, typer.Argument(metavar="A", help="The opponent spec that is judged; it takes every seat in turn.")
    ],
    opponents: Annotated[
        list[str], typer.Argument(metavar="B", help="Who sits opposite: one spec for all seats or one for each.")
    ],
    game: Annotated[str, typer.Option(help="A game spec.")],
    trials: Annotated[int, typer.Option(min=2, help="Trials in each seat.")] = 100,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes in each trial.")] = 1,
    seed: Seed = 0,
    max_turns: MaxTurns = 1000,
    run: Run = None,
) -> None:
    """Let two players meet many times; the table shows means with 95 % intervals."""
    from mage.commands.duel import Duel
    from mage.commands.terminal import run_duel

    plan = Duel(player, tuple(opponents), game, trials, episodes, seed, max_turns)
    raise typer.Exit(run_duel(plan, run, _console()))


@app.command()
def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    trial: Annotated[
        int | None, typer.Argument(metavar="N", min=0, help="The number of a trial; all are listed without it.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most trials to list.")] = 40,
) -> None:
    """List the trials of a run, or read one of them."""
    from mage.commands.terminal import listed_run, one_trial
    from mage.record.store import RunReader

    reader = RunReader(run)
    for sentence in reader.damage:
        print(f"mage: {run}: {sentence}", file=sys.stderr)
    _console().print(listed_run(reader, limit) if trial is None else one_trial(reader, trial))


@app.command()
def trials(
    recipe: Recipe,
    overrides: Overrides = None,
    run: Run = None,
    dry_run: DryRun = False,
) -> None:
    """Play the trials of a recipe, print them and save them; nothing is learned."""
    from mage.config import load_config, to_toml

    config = load_config(recipe, overrides or ())
    if dry_run:
        print(to_toml(config), end="")
        return
    from mage.commands.trials import run_trials

    raise typer.Exit(run_trials(config, run, _console()))


@app.command()
def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A shipped recipe or the path of a TOML file.")
    ] = None,
    overrides: Overrides = None,
    run: Run = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with this run instead.")] = None,
    max_minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop cleanly after the step that passes this time.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Train an agent by a recipe, or go on with a run that was stopped, with some settings changed if you like."""
    from mage.config import load_config, to_toml

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
    _needs_torch()
    from mage.commands.train import resume_training, run_training

    if resume is not None:
        raise typer.Exit(resume_training(resume, given, max_minutes, _console()))
    assert config is not None
    raise typer.Exit(run_training(config, run, Path(str(recipe)).stem, max_minutes, _console()))


@app.command()
def evaluate(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT", help="A run, a checkpoint, a model, scripted:NAME, remote:URL#model or an opponent spec."
        ),
    ] = None,
    overrides: Overrides = None,
    game: Annotated[str | None, typer.Option(help="The game of opponents that are given by their specs.")] = None,
    opponents: Annotated[
        list[str] | None, typer.Option(help="A split or an opponent spec; several of these are judged together.")
    ] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes of a trial.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials per member and seat.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="What a model remembers: none, history, reflections, both.")
    ] = None,
    reply: Annotated[str | None, typer.Option(help="How a model answers: choice or text.")] = None,
    method: Annotated[str | None, typer.Option(help="How a model is prompted: plain, react, …")] = None,
    seat: Annotated[list[int] | None, typer.Option(min=0, help="A seat to play; several may be named.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Fixes the tasks.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="Sampling temperature.")] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Most tokens of a prompt and its answer.")] = None,
    device: Annotated[str | None, typer.Option(help="Where a model runs: cpu, cuda or auto.")] = None,
    reflections: Annotated[
        bool, typer.Option("--reflections", help="Judge what reflections do: kept, removed, or another trial's.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="A new directory for the evaluation.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with this evaluation instead of a new one.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume: play trials that failed once more.")
    ] = False,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Trials under way at once.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=1, help="Most calls to remote models.")] = None,
    max_remote_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of remote models.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0.001, help="Seconds that a remote call may take.")] = None,
) -> None:
    """Judge anybody who can play, beside the no-memory control and the exact references."""
    from mage.commands.evaluate import Means, resume_evaluation, run_evaluation
    from mage.config import parse_override

    means = Means(concurrency, max_calls, max_remote_tokens, timeout)
    named = {
        "trial.episodes": episodes,
        "agent.memory": memory,
        "agent.reply": reply,
        "agent.method": method,
        "trial.seats": seat or None,
        "evaluation.seed": seed,
        "agent.temperature": temperature,
        "agent.context": context,
        "device": device,
    }
    values = {**dict(map(parse_override, overrides or ())), **{k: v for k, v in named.items() if v is not None}}
    if (agent is None) is (resume is None):
        raise ConfigError("give an agent to judge, or --resume DIR to go on with an evaluation, and not both")
    if resume is not None:
        if values or game or opponents or trials or reflections or out:
            raise ConfigError("a resumed evaluation has its plan; only what it may take and --retry-failed go with it")
        raise typer.Exit(resume_evaluation(resume, _console(), retry_failed=retry_failed, means=means))
    if retry_failed:
        raise ConfigError("--retry-failed goes with --resume")
    assert agent is not None
    raise typer.Exit(
        run_evaluation(
            agent,
            _console(),
            game=game,
            opponents=opponents or (),
            trials=trials,
            values=values,
            reflections=reflections,
            out=out,
            means=means,
        )
    )


@app.command("cross-play")
def cross_play(
    arguments: Annotated[
        list[str], typer.Argument(metavar="AGENT… KEY=VALUE…", help="Agents, and overrides for the models among them.")
    ],
    game: Annotated[str, typer.Option(help="A game spec.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of a trial.")] = 3,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each pair, in each order of seats.")] = 100,
    seed: Seed = 0,
    max_turns: MaxTurns = 1000,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="A directory; the same command there goes on.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Trials under way at once.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=1, help="Most calls to remote models.")] = None,
) -> None:
    """Let agents meet each other in both seats: pay-off matrix, Elo, Nash averaging and alpha-rank."""
    from mage.commands.crossplay import CrossPlay, run_cross_play
    from mage.commands.evaluate import Means

    agents, values = _agents_and_values(arguments)
    plan = CrossPlay(agents, game, episodes, trials, seed, max_turns, values)
    raise typer.Exit(run_cross_play(plan, out, Means(concurrency, max_calls), _console()))


@app.command()
def nashconv(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="As for mage evaluate.")],
    game: Annotated[str, typer.Option(help="A game spec, such as kuhn_poker.")],
    overrides: Overrides = None,
    after: Annotated[
        str | None, typer.Option(metavar="AGENT", help="Read the last episode too, after the others against this one.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of a trial.")] = 3,
    trials: Annotated[int, typer.Option(min=1, help="Trials whose memories, or responders, are judged.")] = 100,
    samples: Annotated[
        int, typer.Option(min=1, help="Answers at each information state, where probabilities are not exact.")
    ] = 64,
    responder: Annotated[
        list[str] | None,
        typer.Option(metavar="AGENT", help="Large games: find a lower bound with the best of these, by play."),
    ] = None,
    learn: Annotated[int, typer.Option(min=0, help="Add a responder that learns from so many episodes a seat.")] = 0,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="A new directory for the report.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Calls to a remote model at once.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=1, help="Most calls to remote models.")] = None,
) -> None:
    """Read an agent's policy at every information state, and find what best replies to it gain."""
    from mage.commands.evaluate import Means
    from mage.commands.nashconv import NashConv, run_nash_conv
    from mage.config import parse_override

    values = dict(map(parse_override, overrides or ()))
    plan = NashConv(agent, game, after, episodes, trials, samples, tuple(responder or ()), learn, seed, values)
    raise typer.Exit(run_nash_conv(plan, out, Means(concurrency, max_calls), _console()))


@app.command()
def split(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; its name, less .json, is the split's.")],
    members: Annotated[list[str], typer.Argument(metavar="MEMBER", help="Opponent specs.")],
    game: Annotated[str, typer.Option(help="A game spec.")],
    description: Annotated[str, typer.Option(help="One line on who they are.")] = "",
    held_out: Annotated[bool, typer.Option("--held-out", help="Refuse to train against them.")] = False,
    pool: Annotated[str, typer.Option(help="The split whose members a player may expect; itself by default.")] = "",
    kind: Annotated[str, typer.Option(help="What it asks of an agent, such as seen, harder or switching.")] = "",
    episodes: Annotated[int | None, typer.Option(help="Episodes of a trial; as in training by default.")] = None,
) -> None:
    """Write a split of your own: opponents to judge by, with a hash."""
    from mage.evaluate.splits import write_split

    made = write_split(
        file, game, members, description=description, held_out=held_out, pool=pool, kind=kind, episodes=episodes
    )
    _console().print(f"{file}: {', '.join(made.members)} in {made.game}, hash {made.sha256[:12]}", soft_wrap=True)


@app.command()
def sweep(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="RECIPE… KEY=VALUE…", help="Recipes, and overrides that go for all of them."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds per recipe, from its own on; 3 by default.")] = None,
    run: Annotated[Path | None, typer.Option("--run", help="A new directory for the sweep; runs/… by default.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with this sweep instead.")] = None,
    max_minutes: Annotated[
        float | None, typer.Option(min=0, help="Training time of each run; it is judged where it stands then.")
    ] = None,
) -> None:
    """Train several recipes with several seeds in one process, and summarise them in one table."""
    if (resume is None) is not bool(arguments):
        raise ConfigError("give recipes to sweep over, or --resume DIR to go on with a sweep, and not both")
    if resume is not None and (seeds, run, max_minutes) != (None, None, None):
        raise ConfigError("--seeds, --run and --max-minutes go with recipes; a resumed sweep has its plan")
    _needs_torch()
    from mage.commands.sweep import new_sweep, resume_sweep

    if resume is not None:
        raise typer.Exit(resume_sweep(resume, _console()))
    raise typer.Exit(new_sweep(arguments or [], seeds or 3, run, max_minutes, _console()))


@app.command()
def compare(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="RUN_OR_SWEEP_OR_REPORT…", help="What to compare; NAME=PATH gives a method a name."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="A directory for tables, plots and sources.")
    ] = None,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw plots too; they need matplotlib.")] = True,
) -> None:
    """Put methods side by side: scores beside control, bounds and limits, ties, what training cost, and plots."""
    from mage.commands.compare import run_comparison

    raise typer.Exit(run_comparison(inputs, out, _console(), plots=plots))


@app.command("export-model")
def export_model(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A train run.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="A new directory for the model.")],
    step: Annotated[int | None, typer.Option(min=0, help="The weights after this step; the newest by default.")] = None,
    best: Annotated[bool, typer.Option("--best", help="The best of the weights judged while training.")] = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="The whole model, with the adapter of a LoRA run in it.")
    ] = False,
) -> None:
    """Write a run's weights in Hugging Face layout, with tokenizer, chat template and model card."""
    _needs_torch()
    from mage.commands.export import run_export

    raise typer.Exit(run_export(run, out, step, best, merge, _console()))


def _agents_and_values(arguments: list[str]) -> tuple[tuple[str, ...], dict[str, object]]:
    """Agents apart from overrides, which begin with a dotted key: an agent's own parameters stand in brackets."""
    import re

    from mage.config import parse_override

    given = [argument for argument in arguments if re.match(r"[a-z_]+(\.[a-z_]+)*=", argument)]
    agents = tuple(argument for argument in arguments if argument not in given)
    return agents, dict(map(parse_override, given))


def _needs_torch() -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None or find_spec("transformers") is None:
        raise ConfigError("training needs the extra train: pip install 'mage-rl[train]'")


def _console() -> Console:
    """Where output goes. Nothing in it is read as markup: it may hold words of models."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)
