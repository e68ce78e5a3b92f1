"""Reads a run's league into a report: members, ratings, pay-offs and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path

import msgspec
import numpy as np

from mage.errors import RecordError
from mage.files import BAD_JSON, read_lines
from mage.league.members import Member, MemberKind
from mage.league.payoffs import PayoffCell
from mage.league.state import League
from mage.stats import Z95, Estimate

LEAGUE, EVENTS = "league.json", "events.jsonl"


class SavedLeague(msgspec.Struct, frozen=True):
    """The contents of `league.json`."""

    step: int
    league: League


class MemberStanding(msgspec.Struct, frozen=True):
    """A member with its rating."""

    id: str
    kind: MemberKind
    spec: str
    family: str
    born: int
    retired: int | None
    parents: tuple[str, ...]
    rating: Estimate | None
    """In units of score, from `League.ratings`; None without results, or if retired."""
    results: int
    """Number of its results in the pay-off table."""
    drawn: float | None
    """Mean probability that a learner draws it now; None where none can."""


class Payoff(msgspec.Struct, frozen=True):
    """A learner's score in the last episode against a member."""

    row: str
    column: str
    score: Estimate
    results: int
    updated: int
    """Step of the newest result."""


class LeagueEvent(msgspec.Struct, frozen=True):
    """A change to a member, with its reason."""

    step: int
    kind: str = msgspec.field(name="league")
    """snapshot, exploit, evict or rollback."""
    member: str
    parent: str | None = None
    reason: str = ""
    changes: Mapping[str, tuple[float, float]] = {}
    """By config key, old and new value."""


class LeagueReport(msgspec.Struct, frozen=True):
    """The state of a league at a step."""

    step: int
    leader: str
    """The learner with the best rating."""
    diversity: float
    """The effective number of members."""
    members: tuple[MemberStanding, ...]
    payoffs: tuple[Payoff, ...]
    hyper: Mapping[str, Mapping[str, float]]
    """By learner, its current hyper-parameters."""
    drawn: Mapping[str, Mapping[str, float]]
    """By learner, the probability of drawing each member now."""
    events: tuple[LeagueEvent, ...]


def read_league(path: Path) -> LeagueReport:
    """Read the league of a run; raises `RecordError`."""
    saved = _read(path)
    league = saved.league
    ratings, pooled = _ratings(league), league.payoffs.pooled_variance()
    results: Counter[str] = Counter()
    for row, column, cell in _cells(league):
        results.update({row: cell.count, column: cell.count})
    return LeagueReport(
        step=saved.step,
        leader=league.leader().id,
        diversity=league.diversity(),
        members=tuple(
            _standing(league, member, ratings.get(member.id), results[member.id]) for member in league.members
        ),
        payoffs=tuple(
            Payoff(row, column, _estimate(cell.mean, cell.half_width(pooled)), cell.count, cell.updated)
            for row, column, cell in _cells(league)
        ),
        hyper=league.hyper,
        drawn=league.drawn,
        events=tuple(_events(path)),
    )


def _read(path: Path) -> SavedLeague:
    try:
        saved = msgspec.json.decode((path / LEAGUE).read_bytes(), type=SavedLeague)
    except FileNotFoundError:
        raise RecordError(
            f"{path} has no league; a train run with league.learners over 0 writes its own at the first checkpoint"
        ) from None
    except OSError as error:
        raise RecordError(f"cannot read {path / LEAGUE}: {error.strerror or error}") from None
    except BAD_JSON as error:
        raise RecordError(f"{path / LEAGUE} cannot be read: {error}") from None
    known = {member.id for member in saved.league.members}
    strangers = {name for row, column, _ in _cells(saved.league) for name in (row, column)} - known
    if strangers:
        raise RecordError(f"{path / LEAGUE} has pay-offs of {min(strangers)!r}, which is not among its members")
    if not saved.league.learners:
        raise RecordError(f"{path / LEAGUE} has no learner among its members")
    if not all(_is_sound(cell) for _, _, cell in _cells(saved.league)):
        raise RecordError(f"{path / LEAGUE} has a pay-off without observations")
    return saved


def _events(path: Path) -> Iterator[LeagueEvent]:
    for row in read_lines(path / EVENTS):
        if isinstance(row, dict) and "league" in row:
            try:
                yield msgspec.convert(row, LeagueEvent)
            except msgspec.ValidationError as error:
                raise RecordError(f"{path / EVENTS} has an event of the league that cannot be read: {error}") from None


def _cells(league: League) -> Iterator[tuple[str, str, PayoffCell]]:
    for row, columns in league.payoffs.cells.items():
        for column, cell in columns.items():
            yield row, column, cell


def _is_sound(cell: PayoffCell) -> bool:
    return cell.weight > 0 and cell.weight_squares > 0 and cell.count > 0


def _standing(league: League, member: Member, rating: Estimate | None, results: int) -> MemberStanding:
    odds = [of[member.id] for of in league.drawn.values() if member.id in of]
    return MemberStanding(
        id=member.id,
        kind=member.kind,
        spec=member.spec,
        family=member.family,
        born=member.born,
        retired=member.retired,
        parents=member.parents,
        rating=rating,
        results=results,
        drawn=sum(odds) / len(odds) if odds else None,
    )


def _ratings(league: League) -> dict[str, Estimate]:
    """Ratings of all members with results, with intervals.

    Ratings are linear in the cells' means, so their variances follow from those of the cells, which are taken as
    independent; inherited cells of snapshots are not quite.
    """
    values, pooled = league.ratings(), league.payoffs.pooled_variance()
    cells = [(row, column, cell) for row, column, cell in _cells(league) if row in values and column in values]
    rated = {name for row, column, _ in cells for name in (row, column)}
    place = {name: k for k, name in enumerate(values)}
    design_CN = np.zeros((len(cells), len(place)))
    for number, (row, column, _) in enumerate(cells):
        design_CN[number, place[row]], design_CN[number, place[column]] = 1.0, -1.0
    errors_C = np.array([cell.error(pooled) for _, _, cell in cells])
    with np.errstate(invalid="ignore"):  # unknown errors are infinite, and inf x 0 is NaN
        errors_N = np.sqrt((np.linalg.pinv(design_CN) ** 2) @ errors_C**2)
    return {name: _estimate(values[name], Z95 * float(errors_N[place[name]])) for name in values if name in rated}


def _estimate(value: float, half: float) -> Estimate:
    """An estimate; without an interval where its width is not finite."""
    return Estimate(value, value - half, value + half) if isfinite(half) else Estimate(value, None, None)
