"""`mage evaluate`: evaluate an agent and print the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.text import Text

from mage.cli.options import Concurrency, MaxCalls, Overrides
from mage.cli.tables import say_saved
from mage.config.load import parse_override
from mage.errors import ConfigError
from mage.evaluation.eval_agent import EvalAgent
from mage.evaluation.plan import EvaluationPlan, EvaluationRequest
from mage.evaluation.resource_limits import ResourceLimits
from mage.evaluation.run import Evaluation, begin_evaluation, resume_evaluation
from mage.evaluation.splits import has_levels
from mage.evaluation.suite.reflection_table import reflections_table
from mage.evaluation.suite.report_tables import evaluation_table, setup_text
from mage.runs.console import plain_console
from mage.runs.drawings import shown

_MOST_NAMES = 4
"""Members of a split that are named above the tables; of more the number is told."""
_AGENT = typer.Argument(
    metavar="AGENT", help="A run, a checkpoint, a model, scripted:NAME, remote:URL#model or an opponent spec."
)
_WORLD = typer.Option("--world", "--game", help="The world of the opponents or levels; one of one seat needs none.")
_OPPONENTS = typer.Option(
    "--opponents", "--level", help="A split, an opponent spec or a level; several specs or levels make one split."
)
_REFLECTIONS = typer.Option("--reflections", help="Evaluate what reflections do: kept, removed, swapped, …")
_WORDS = typer.Option(min=1, help="With --reflections: words of a shortened note; 5 by default.")
_OUT = typer.Option("--out", "-o", metavar="DIR", help="A new directory for the evaluation.")
_RESUME = typer.Option(metavar="DIR", help="Go on with this evaluation instead of a new one.")
_RETRY = typer.Option("--retry-failed", help="With --resume: play trials that failed once more.")


def command(
    agent: Annotated[str | None, _AGENT] = None,
    overrides: Overrides = None,
    world: Annotated[str | None, _WORLD] = None,
    opponents: Annotated[list[str] | None, _OPPONENTS] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes of a trial.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials per member and seat.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory of a model: none, history, reflections, both.")] = None,
    reply: Annotated[str | None, typer.Option(help="How a model answers: choice or text.")] = None,
    method: Annotated[str | None, typer.Option(help="How a model is prompted: plain, react, …")] = None,
    seat: Annotated[list[int] | None, typer.Option(min=0, help="A seat to play; several may be named.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Fixes the tasks.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="Sampling temperature.")] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Most tokens of a prompt and its answer.")] = None,
    device: Annotated[str | None, typer.Option(help="Where a model runs: cpu, cuda or auto.")] = None,
    reflections: Annotated[bool, _REFLECTIONS] = False,
    words: Annotated[int | None, _WORDS] = None,
    out: Annotated[Path | None, _OUT] = None,
    resume: Annotated[Path | None, _RESUME] = None,
    retry_failed: Annotated[bool, _RETRY] = False,
    concurrency: Concurrency = None,
    max_calls: MaxCalls = None,
    max_remote_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of remote models.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0.001, help="Seconds that a remote call may take.")] = None,
) -> None:
    """Evaluate an agent of any kind. Beside each score stand the no-memory control and the exact references."""
    limits = ResourceLimits(concurrency, max_calls, max_remote_tokens, timeout)
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
        raise ConfigError("give an agent to evaluate, or --resume DIR to go on with an evaluation, and not both")
    if resume is not None and (values or world or opponents or trials or reflections or words or out):
        raise ConfigError("a resumed evaluation has its plan; only limits and --retry-failed go with it")
    if resume is None and retry_failed:
        raise ConfigError("--retry-failed goes with --resume")
    if resume is not None:
        evaluation = resume_evaluation(resume, limits, retry_failed=retry_failed)
    else:
        request = EvaluationRequest(str(agent), world, opponents or (), trials, values, reflections, words)
        evaluation = begin_evaluation(request, out, limits)
    print_evaluation(evaluation, plain_console())


def print_evaluation(evaluation: Evaluation, console: Console) -> None:
    """Evaluate and print the tables."""
    if evaluation.plan.reflections:
        table = reflections_table(evaluation.reflections().reports)
    else:
        found = evaluation.scores()
        table = evaluation_table(found.reports, found.seconds)
    console.print(Group(*_headlines(evaluation.eval_agent, evaluation.plan), Text(), table))
    say_saved(console, evaluation.trial_log.path, " [N]")


def _headlines(eval_agent: EvalAgent, plan: EvaluationPlan) -> Iterator[Text]:
    """Which agent was evaluated, and on what."""
    how = eval_agent.config.agent
    told = f", {how.method}, memory {how.memory}, {how.reply} replies" if eval_agent.is_model else ""
    yield shown(f"{eval_agent.name}{told}", "bold")
    for split in plan.splits:
        num = len(split.members)
        what = "levels" if has_levels(split.world) else "opponents"
        names = [member if weight == 1 else f"{member} x{weight}" for member, weight in split.weighted_members]
        members = ", ".join(names) if num <= _MOST_NAMES else f"{num} {what}"
        episodes = plan.tasks(eval_agent, split)[0].episodes
        setup = setup_text(split.world, episodes, plan.seats(eval_agent, split))
        yield shown(f"{split.name}: {members or 'levels drawn by seed'}; {setup}", "dim")
