"""Commands that judge: evaluate, cross-play, nashconv, compare and split."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from mage.cli.options import Concurrency, Episodes, MaxCalls, MaxTurns, Overrides, Seed, World
from mage.errors import ConfigError

_OVERRIDE = re.compile(r"[a-z_]+(\.[a-z_]+)*=")
"""How a setting begins; an agent's own parameters stand in brackets."""


def evaluate(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT", help="A run, a checkpoint, a model, scripted:NAME, remote:URL#model or an opponent spec."
        ),
    ] = None,
    overrides: Overrides = None,
    world: Annotated[
        str | None, typer.Option("--world", "--game", help="The world of opponents that are given by their specs.")
    ] = None,
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
    concurrency: Concurrency = None,
    max_calls: MaxCalls = None,
    max_remote_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of remote models.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0.001, help="Seconds that a remote call may take.")] = None,
) -> None:
    """Judge anybody who can play. Beside each score stand the no-memory control and the exact references."""
    from mage.cli.evaluate import resume_evaluation, run_evaluation
    from mage.cli.resource_limits import ResourceLimits
    from mage.config.load import parse_override
    from mage.runs.console import plain_console

    means = ResourceLimits(concurrency, max_calls, max_remote_tokens, timeout)
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
        if values or world or opponents or trials or reflections or out:
            raise ConfigError("a resumed evaluation has its plan; only what it may take and --retry-failed go with it")
        raise typer.Exit(resume_evaluation(resume, plain_console(), retry_failed=retry_failed, means=means))
    if retry_failed:
        raise ConfigError("--retry-failed goes with --resume")
    assert agent is not None
    raise typer.Exit(
        run_evaluation(
            agent,
            plain_console(),
            world=world,
            opponents=opponents or (),
            trials=trials,
            values=values,
            reflections=reflections,
            out=out,
            means=means,
        )
    )


def cross_play(
    arguments: Annotated[
        list[str], typer.Argument(metavar="AGENT… KEY=VALUE…", help="Agents, and overrides for the models among them.")
    ],
    world: World,
    episodes: Episodes = 3,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each pair, in each order of seats.")] = 100,
    seed: Seed = 0,
    max_turns: MaxTurns = 1000,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="A directory; the same command there goes on.")
    ] = None,
    concurrency: Concurrency = None,
    max_calls: MaxCalls = None,
) -> None:
    """Let agents meet each other in both seats. Pay-off matrix, Elo, Nash averaging and alpha-rank come of it."""
    from mage.cli.crossplay import CrossPlay, run_cross_play
    from mage.cli.resource_limits import ResourceLimits
    from mage.config.load import parse_override
    from mage.runs.console import plain_console

    values = dict(parse_override(argument) for argument in arguments if _OVERRIDE.match(argument))
    agents = tuple(argument for argument in arguments if not _OVERRIDE.match(argument))
    plan = CrossPlay(agents, world, episodes, trials, seed, max_turns, values)
    raise typer.Exit(run_cross_play(plan, out, ResourceLimits(concurrency, max_calls), plain_console()))


def nashconv(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="As for mage evaluate.")],
    world: World,
    overrides: Overrides = None,
    after: Annotated[
        str | None, typer.Option(metavar="AGENT", help="Read the last episode too, after the others against this one.")
    ] = None,
    episodes: Episodes = 3,
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
    max_calls: MaxCalls = None,
) -> None:
    """Find what best replies to an agent would gain. Its policy is read at every information state."""
    from mage.cli.nashconv import NashConv, run_nash_conv
    from mage.cli.resource_limits import ResourceLimits
    from mage.config.load import parse_override
    from mage.runs.console import plain_console

    values = dict(map(parse_override, overrides or ()))
    plan = NashConv(agent, world, after, episodes, trials, samples, tuple(responder or ()), learn, seed, values)
    raise typer.Exit(run_nash_conv(plan, out, ResourceLimits(concurrency, max_calls), plain_console()))


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
    """Put methods side by side, in tables and plots. Scores beside control and limits, ties, what training cost."""
    from mage.cli.compare import run_comparison
    from mage.runs.console import plain_console

    raise typer.Exit(run_comparison(inputs, out, plain_console(), plots=plots))


def split(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; its name, less .json, is the split's.")],
    members: Annotated[list[str], typer.Argument(metavar="MEMBER", help="Opponent specs.")],
    world: World,
    description: Annotated[str, typer.Option(help="One line on who they are.")] = "",
    held_out: Annotated[bool, typer.Option("--held-out", help="Refuse to train against them.")] = False,
    pool: Annotated[str, typer.Option(help="The split whose members a player may expect; itself by default.")] = "",
    kind: Annotated[str, typer.Option(help="What it asks of an agent, such as seen, harder or switching.")] = "",
    episodes: Annotated[int | None, typer.Option(help="Episodes of a trial; as in training by default.")] = None,
) -> None:
    """Write a split of your own: opponents to judge by. It gets a hash, which every report carries."""
    from mage.evaluation.splits import write_split
    from mage.runs.console import plain_console

    made = write_split(
        file, world, members, description=description, held_out=held_out, pool=pool, kind=kind, episodes=episodes
    )
    told = f"{file}: {', '.join(made.members)} in {made.world}, hash {made.sha256[:12]}"
    plain_console().print(told, soft_wrap=True)
