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

from mage.commands.evaluate import Means, say_where_the_key_goes
from mage.commands.terminal import say_saved
from mage.errors import ConfigError, MageError
from mage.evaluate.crossplay import CrossPlayReport, check_meeting, cross_play
from mage.evaluate.journal import Journal, Journaled, progress_bar
from mage.evaluate.metrics import Estimate
from mage.evaluate.nashconv import Named
from mage.evaluate.report import GameReport, game_report, to_json
from mage.evaluate.subject import BAYES, PlayerSubject, Subject
from mage.evaluate.table import interval
from mage.games.openspiel import Game, load_game
from mage.games.world import OpenSpielWorld
from mage.players.table import OPPONENTS, TALKERS, check_opponent
from mage.record.draw import shown
from mage.record.files import write_atomically
from mage.record.store import RUN, fresh_path, read_info
from mage.spec import parse_spec
from mage.waiting import finish

KIND, REPORT = "cross-play", "crossplay.json"
_CAPTION = (
    "Score of the row in an episode against the column, both seats alike, with 95 % intervals over trials. Elo: from "
    "wins, a draw is half a win, the mean is 0. Nash share and score: the agents' equilibrium of highest entropy, and "
    "what each scores against it. Intervals of ratings: trials drawn anew (bootstrap)."
)


class CrossPlay(msgspec.Struct, frozen=True):
    """Who is to meet, and how often."""

    agents: tuple[str, ...]
    game: str
    episodes: int
    trials: int
    seed: int = 0
    max_turns: int = 1000
    values: Mapping[str, object] = {}
    """Settings of all models among the agents, by their dotted keys."""


def run_cross_play(plan: CrossPlay, out: Path | None, means: Means, console: Console) -> int:
    """Play, save and print; the same plan in the same directory goes on where it was stopped. Returns the exit code."""
    path, report = played(plan, out, means)
    console.print(cross_play_table(report.found))
    say_saved(console, path, " [N]")
    return 0


def played(plan: CrossPlay, out: Path | None, means: Means) -> tuple[Path, GameReport[CrossPlayReport]]:
    """Where the trials are, and the report that is written beside them."""
    game = load_game(plan.game)
    subjects = subjects_of(plan.agents, plan.values, game, means)
    agents = named(plan.agents, subjects)
    check_meeting(game, [name for name, _ in agents])
    pinned = msgspec.structs.replace(plan, agents=tuple(subject.agent for subject in subjects))
    journal = _journal(out or fresh_path(KIND, parse_spec(plan.game).name), pinned)

    async def everything(bar: Progress) -> CrossPlayReport:
        for subject in subjects:
            await subject.refresh()
        return await cross_play(
            OpenSpielWorld(),
            agents,
            plan.game,
            episodes=plan.episodes,
            trials=plan.trials,
            seed=plan.seed,
            max_turns=plan.max_turns,
            play=Journaled(journal, game.spec, concurrency=min(map(means.num_trials, subjects)), bar=bar),
        )

    try:
        with journal, progress_bar() as bar, means.spending():
            found = finish(everything(bar))
    except (MageError, KeyboardInterrupt):
        journal.discard_if_empty()
        raise
    report = game_report(found, [subject.describe() for subject in subjects], plan.seed)
    write_atomically(journal.path / REPORT, to_json(report))
    return journal.path, report


def subjects_of(agents: Sequence[str], values: Mapping[str, object], game: Game, means: Means) -> list[Subject]:
    """Who is named, checked against the game; settings of models are kept from players, who have none."""
    say_where_the_key_goes(agents)
    subjects = []
    for agent in agents:
        own = {key: v for key, v in values.items() if not (_is_player(agent) and key.startswith("agent."))}
        subject = means.subject(agent, own)
        if isinstance(subject, PlayerSubject):
            for seat in range(game.num_seats):
                check_opponent(subject.name, game, seat)
        subjects.append(subject)
    return subjects


def named(texts: Sequence[str], subjects: Sequence[Subject]) -> list[Named]:
    """Agents by their names, or as they were given where two have the same."""
    world = OpenSpielWorld()
    names = [subject.name for subject in subjects]
    shown_names = [t if names.count(name) > 1 else name for t, name in zip(texts, names, strict=True)]
    return [(name, subject.seating(world)) for name, subject in zip(shown_names, subjects, strict=True)]


def cross_play_table(report: CrossPlayReport) -> RenderableType:
    """The pay-off matrix, and how the agents stand."""
    letters = [label(number) for number in range(len(report.agents))]
    title = f"{report.game}, {report.num_trials} trials of {report.episodes} episodes in each seat against each other"
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
    table = _table("", *(f"against {letter}" for letter in letters))
    scores = {(cell.row, cell.column): cell.score for cell in report.cells}
    for letter, row in zip(letters, report.agents, strict=True):
        cells = ["0" if (row, column) not in scores else _cell(scores[row, column]) for column in report.agents]
        table.add_row(shown(f"{letter}  {row}"), *cells)
    return table


def _scores(report: CrossPlayReport) -> Table:
    table = _table("", "score", "Elo", "gave up")
    for standing in sorted(report.standings, key=lambda s: _order(s.elo or s.score)):
        elo = _span(standing.elo, "{:+.0f}")
        table.add_row(shown(standing.agent), _cell(standing.score), elo, str(standing.forfeits))
    return table


def _populations(report: CrossPlayReport) -> Table:
    """How they stand as the moves of a game of its own."""
    table = _table("", "Nash score", "Nash share", "alpha-rank")
    for s in sorted(report.standings, key=lambda s: (_order(s.nash_score), _order(s.nash_share or s.alpha_rank))):
        shares = [_span(share, "{:.2f}") for share in (s.nash_share, s.alpha_rank)]
        table.add_row(shown(s.agent), _span(s.nash_score, "{:+.3f}"), *shares)
    return table


def _order(figure: Estimate | None) -> float:
    """Best first; what is equal but for rounding is equal."""
    return -round(figure.value, 6) if figure else 0.0


def _cell(figure: Estimate | None) -> str:
    return "–" if figure is None else interval(figure)


def _span(figure: Estimate | None, form: str) -> str:
    """A rating and from where to where it reaches: ratings do not scatter evenly.

    >>> _span(Estimate(12.4, -3.0, 40.2), "{:+.0f}"), _span(None, "{:+.0f}")
    ('+12 (-3 to +40)', '–')
    """
    if figure is None:
        return "–"
    value, *ends = (form.format(round(v, 6) + 0.0) for v in (figure.value, figure.low, figure.high) if v is not None)
    return f"{value} ({' to '.join(ends)})" if ends else value


def _table(*names: str) -> Table:
    table = Table(header_style="dim", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    return table


def _is_player(agent: str) -> bool:
    """Whether it is a player without a model, as far as its name says."""
    names = {BAYES, *OPPONENTS} - set(TALKERS)
    return any(agent == name or agent.startswith((f"{name}:", f"{name}(")) for name in names)


def _journal(path: Path, plan: CrossPlay) -> Journal:
    """A new journal, or the one in a directory where the same was begun."""
    as_written = msgspec.json.decode(msgspec.json.encode(plan))
    if not (path / RUN).is_file():
        return Journal.create(path, as_written, plan.seed, KIND)
    info = read_info(path)
    if info.kind != KIND or info.config != as_written:
        raise ConfigError(f"{path} holds something else; only the same cross-play goes on there")
    return Journal.reopen(path)
