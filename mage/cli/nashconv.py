"""`mage nashconv`: how exploitable an agent's own policy is, as a report and a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from rich.console import Console, Group, RenderableType
from rich.text import Text

from mage.aio import run_sync
from mage.cli.agents import named, subjects_of
from mage.cli.resource_limits import ResourceLimits
from mage.cli.tables import metrics_table
from mage.errors import ConfigError
from mage.evaluation.exploitability.nashconv import Exploitability, NashConvReport, measure_nash_conv
from mage.evaluation.exploitability.responders import LowerBound, lower_bound
from mage.evaluation.suite.report import WorldReport, to_json, world_report
from mage.evaluation.suite.report_tables import interval
from mage.files import write_atomically
from mage.runs.drawings import shown
from mage.runs.store import check_empty, new_run_path
from mage.stats import Estimate
from mage.worlds.openspiel.game import load_game
from mage.worlds.openspiel.world import OpenSpielWorld

KIND = "nashconv"
EXACT, BOUND = "nashconv.json", "lower-bound.json"
_CAPTION = (
    "NashConv: what best replies to the agent gain, summed over the seats; 0 is an equilibrium. Gain of a seat: what "
    "the best reply there gains against the agent in all others. 95 % intervals over trials."
)


class NashConv(msgspec.Struct, frozen=True):
    """Whose NashConv is asked for, where and after what."""

    agent: str
    world: str
    after: str | None = None
    """Who is met in the episodes before the last; None reads the first episode only."""
    episodes: int = 3
    trials: int = 100
    samples: int = 64
    """Answers that are drawn at each information state where the probabilities are not exact."""
    responders: tuple[str, ...] = ()
    """Who tries to exploit the agent by play; with these a lower bound is found instead."""
    learn: int = 0
    """Episodes in each seat from which one more responder learns."""
    seed: int = 0
    values: Mapping[str, object] = {}


def run_nash_conv(plan: NashConv, out: Path | None, means: ResourceLimits, console: Console) -> int:
    """Find it, save it and print it. Returns the exit code."""
    path, report = found(plan, out, means)
    console.print(nash_conv_table(report.found))
    console.print(shown(f"\nsaved in  {path}", "dim"), soft_wrap=True)
    return 0


def found(
    plan: NashConv, out: Path | None, means: ResourceLimits
) -> tuple[Path, WorldReport[NashConvReport | LowerBound]]:
    """Where the report is, and the report."""
    is_bound = bool(plan.responders or plan.learn)
    if is_bound and plan.after is not None:
        raise ConfigError("a lower bound is found in the first episode; it goes without an opponent before")
    if out is not None:
        check_empty(out)
    texts = (plan.agent, *((plan.after,) if plan.after is not None else ()), *plan.responders)
    eval_agents = subjects_of(texts, plan.values, load_game(plan.world), means)
    agent, *others = named(texts, eval_agents)

    async def find() -> NashConvReport | LowerBound:
        for eval_agent in eval_agents:
            await eval_agent.refresh()
        world, size = OpenSpielWorld(), {"episodes": plan.episodes, "trials": plan.trials, "seed": plan.seed}
        if is_bound:
            return await lower_bound(world, agent, plan.world, others, learn=plan.learn, **size)
        after = others[0] if others else None
        return await measure_nash_conv(world, agent, plan.world, after=after, num_samples=plan.samples, **size)

    with means.spending():
        report = world_report(run_sync(find()), [eval_agent.describe() for eval_agent in eval_agents], plan.seed)
    path = out or new_run_path(KIND, eval_agents[0].file_name)
    path.mkdir(parents=True, exist_ok=True)
    write_atomically(path / (BOUND if is_bound else EXACT), to_json(report))
    return path, report


def nash_conv_table(report: NashConvReport | LowerBound) -> RenderableType:
    """The figures beside what even play and an equilibrium have."""
    return _bound_table(report) if isinstance(report, LowerBound) else _exact_table(report)


def _exact_table(report: NashConvReport) -> RenderableType:
    seats = [f"gain of seat {seat}" for seat in range(len(report.num_states))]
    table = metrics_table("", "NashConv", *seats, "policies")
    empty = [""] * (len(seats) + 1)
    table.add_row("first episode", *_metrics(report.first))
    if report.last is not None:
        table.add_row(f"episode {report.episodes}, after {report.last.opponent}", *_metrics(report.last.reading))
        table.add_row("change", interval(report.last.change), *empty)
    table.add_row("even play", f"{report.uniform:.3f}", *empty)
    if report.cfr is not None:
        table.add_row(f"CFR+, {report.cfr_iterations} iterations", f"{report.cfr:.3f}", *empty)
    title = f"{report.agent} at {report.world}, read at {sum(report.num_states)} information states"
    return Group(shown(title, "bold"), table, *(Text(note, "dim") for note in (_CAPTION, *_notes(report))))


def _notes(report: NashConvReport) -> list[str]:
    """What must be known of figures that are not exact."""
    readings = [report.first, *([report.last.reading] if report.last else [])]
    num_samples = max(reading.num_samples for reading in readings)
    if not num_samples:
        return []
    share = max(reading.forfeits for reading in readings)
    unread = max(reading.unread for reading in readings)
    return [
        f"Estimated from {num_samples} answers at each information state, so it is too high rather than too low. "
        f"{100 * share:.1f} % of them gave up; at {100 * unread:.1f} % of the states all did, and play is taken to be "
        "even there."
    ]


def _bound_table(report: LowerBound) -> RenderableType:
    table = metrics_table("", "responder", "score")
    for response in report.responses:
        table.add_row(f"best in seat {response.seat}", response.responder, interval(response.score))
    for seat, own in enumerate(report.own or ()):
        table.add_row(f"the agent itself in seat {seat}", "", interval(own))
    table.add_row("NashConv is at least", "", interval(report.nash_conv))
    title = f"{report.agent} at {report.world}, first episode, {report.num_trials} trials in each seat"
    note = (
        "What the best of these responders gain, summed over the seats: "
        f"{', '.join(report.responders)}. They were chosen on other trials. {report.failures} trials failed."
    )
    return Group(shown(title, "bold"), table, Text(note, "dim"))


def _metrics(reading: Exploitability) -> list[str]:
    return [_figure(reading.nash_conv), *map(_figure, reading.gains), str(reading.num_trials)]


def _figure(estimate: Estimate) -> str:
    """A figure with its interval, or exact and alone."""
    return f"{estimate.value:.3f}" if estimate.low is None else interval(estimate)
