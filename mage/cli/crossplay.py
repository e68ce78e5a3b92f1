"""`mage cross-play`: let agents meet, write down every trial and one report, and print the pay-off matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase

import msgspec
from rich.console import Console, Group, RenderableType
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from mage.aio import run_sync
from mage.cli.agents import named, subjects_of
from mage.cli.resource_limits import ResourceLimits, at_work
from mage.cli.tables import metrics_table
from mage.cli.terminal import say_saved
from mage.errors import ConfigError
from mage.evaluation.crossplay import CrossPlayReport, check_cross_play, cross_play
from mage.evaluation.suite.report import CROSS_PLAY, WorldReport, to_json, world_report
from mage.evaluation.suite.report_tables import interval
from mage.evaluation.trial_log import LoggedPlay, TrialLog
from mage.files import write_atomically
from mage.runs.drawings import shown
from mage.runs.store import RUN, new_run_path, read_info
from mage.spec import parse_spec
from mage.stats import Estimate
from mage.worlds.openspiel.game import load_game
from mage.worlds.openspiel.world import OpenSpielWorld

KIND = "cross-play"
_CAPTION = (
    "Score of the row in an episode against the column, both seats alike, with 95 % intervals over trials. Elo: from "
    "wins, a draw is half a win, the mean is 0. Nash share and score: the agents' equilibrium of highest entropy, and "
    "what each scores against it. Intervals of ratings: trials drawn anew (bootstrap)."
)


class CrossPlay(msgspec.Struct, frozen=True):
    """Who is to meet, and how often."""

    agents: tuple[str, ...]
    world: str
    episodes: int
    trials: int
    seed: int = 0
    max_turns: int = 1000
    values: Mapping[str, object] = {}
    """Settings of all models among the agents, by their dotted keys."""


def run_cross_play(plan: CrossPlay, out: Path | None, means: ResourceLimits, console: Console) -> int:
    """Play, save and print; the same plan in the same directory goes on where it was stopped. Returns the exit code."""
    path, report = played(plan, out, means)
    console.print(cross_play_table(report.found))
    say_saved(console, path, " [N]")
    return 0


def played(plan: CrossPlay, out: Path | None, means: ResourceLimits) -> tuple[Path, WorldReport[CrossPlayReport]]:
    """Where the trials are, and the report that is written beside them."""
    game = load_game(plan.world)
    eval_agents = subjects_of(plan.agents, plan.values, game, means)
    agents = named(plan.agents, eval_agents)
    check_cross_play(game, [name for name, _ in agents])
    pinned = msgspec.structs.replace(plan, agents=tuple(eval_agent.agent for eval_agent in eval_agents))
    trial_log = _trial_log(out or new_run_path(KIND, parse_spec(plan.world).name), pinned)

    async def everything(bar: Progress) -> CrossPlayReport:
        for eval_agent in eval_agents:
            await eval_agent.refresh()
        return await cross_play(
            OpenSpielWorld(),
            agents,
            plan.world,
            episodes=plan.episodes,
            trials=plan.trials,
            seed=plan.seed,
            max_turns=plan.max_turns,
            play=LoggedPlay(trial_log, game.spec, concurrency=means.num_trials(pinned.agents), bar=bar),
        )

    with at_work(trial_log, means, lambda: f"the same command and  -o {trial_log.path}") as bar:
        found = run_sync(everything(bar))
    report = world_report(found, [eval_agent.describe() for eval_agent in eval_agents], plan.seed)
    write_atomically(trial_log.path / CROSS_PLAY, to_json(report))
    return trial_log.path, report


def cross_play_table(report: CrossPlayReport) -> RenderableType:
    """The pay-off matrix, and how the agents stand."""
    letters = [label(number) for number in range(len(report.agents))]
    length = "1 episode" if report.episodes == 1 else f"{report.episodes} episodes"
    title = f"{report.world}, {report.num_trials} trials of {length} in each seat against each other"
    notes = [
        _CAPTION,
        *(f"No {name.replace('_', '-')}: {why}." for name, why in report.missing.items()),
        f"Not counted: {report.failures} failed trials, {report.truncations} episodes too long and stopped, "
        f"{sum(standing.forfeits for standing in report.standings)} given up.",
    ]
    tables = (_matrix(report, letters), Text(), _scores(report), Text(), _populations(report))
    return Group(shown(title, "bold"), *tables, *(Text(note, "dim") for note in notes))


def label(number: int) -> str:
    """A letter, or two where there are many.

    >>> label(0), label(27)
    ('A', 'AB')
    """
    rest, place = divmod(number, len(ascii_uppercase))
    return (ascii_uppercase[rest - 1] if rest else "") + ascii_uppercase[place]


def _matrix(report: CrossPlayReport, letters: Sequence[str]) -> Table:
    table = metrics_table("", *(f"against {letter}" for letter in letters))
    scores = {(cell.row, cell.column): cell.score for cell in report.cells}
    for letter, row in zip(letters, report.agents, strict=True):
        cells = ["0" if (row, column) not in scores else interval(scores[row, column]) for column in report.agents]
        table.add_row(shown(f"{letter}  {row}"), *cells)
    return table


def _scores(report: CrossPlayReport) -> Table:
    table = metrics_table("", "score", "Elo", "gave up")
    for standing in sorted(report.standings, key=lambda s: _order(s.elo or s.score)):
        elo = _span(standing.elo, "{:+.0f}")
        table.add_row(shown(standing.agent), interval(standing.score), elo, str(standing.forfeits))
    return table


def _populations(report: CrossPlayReport) -> Table:
    """How they stand as the moves of a game of its own."""
    table = metrics_table("", "Nash score", "Nash share", "alpha-rank")
    for s in sorted(report.standings, key=lambda s: (_order(s.nash_score), _order(s.nash_share or s.alpha_rank))):
        shares = [_span(share, "{:.2f}") for share in (s.nash_share, s.alpha_rank)]
        table.add_row(shown(s.agent), _span(s.nash_score, "{:+.3f}"), *shares)
    return table


def _order(figure: Estimate | None) -> float:
    """Best first; what is equal but for rounding is equal."""
    return -round(figure.value, 6) if figure else 0.0


def _span(figure: Estimate | None, form: str) -> str:
    """A rating and from where to where it reaches: ratings do not scatter evenly.

    >>> _span(Estimate(12.4, -3.0, 40.2), "{:+.0f}"), _span(None, "{:+.0f}")
    ('+12 (-3 to +40)', '–')
    """
    if figure is None:
        return "–"
    value, *ends = (form.format(round(v, 6) + 0.0) for v in (figure.value, figure.low, figure.high) if v is not None)
    return f"{value} ({' to '.join(ends)})" if ends else value


def _trial_log(path: Path, plan: CrossPlay) -> TrialLog:
    """A new journal, or the one in a directory where the same was begun."""
    as_written = msgspec.json.decode(msgspec.json.encode(plan))
    if not (path / RUN).is_file():
        return TrialLog.create(path, as_written, plan.seed, KIND)
    info = read_info(path)
    if info.kind != KIND or info.config != as_written:
        raise ConfigError(f"{path} holds something else; only the same cross-play goes on there")
    return TrialLog.reopen(path)
