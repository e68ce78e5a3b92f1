"""Who leaves when there are too many snapshots: the older of the two that pay most alike."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import isinf

from mage.errors import ConfigError
from mage.league.members import Member
from mage.league.state import League


def choose_evictions(league: League, most: int) -> list[tuple[str, str]]:
    """Snapshots to retire so that at most `most` stay, in the order of leaving, each with a one-line reason.

    Again and again the two whose pay-off columns are nearest are found, the earliest born first among equals, and the
    older one goes; where it is the last snapshot of its family, the younger one. Two whom no learner met both are
    further apart than any others. Those born last have only guesses for pay-offs: two of them are compared when no
    other pair is left. The last snapshot of a family always stays, so more than `most` can. Age alone, the obvious
    rule, would keep ten late copies of one habit and lose the early ones that nobody plays any more.
    """
    if most < 0:
        raise ConfigError(f"at most {most} snapshots: takes 0 or more")
    staying = sorted(league.snapshots, key=lambda m: m.born)
    newest = staying[-1].born if staying else 0
    # Sorting is stable: among equal distances the earliest born come first.
    pairs = sorted(
        (
            (league.payoffs.distance(older.id, younger.id), older, younger)
            for older, younger in combinations(staying, 2)
        ),
        key=lambda pair: (pair[1].born == newest, pair[0]),
    )
    leaving: dict[str, str] = {}
    families = Counter(m.family for m in staying)
    while len(staying) - len(leaving) > most:
        choice = _nearest(pairs, leaving, families)
        if choice is None:
            break
        member, reason = choice
        leaving[member.id] = reason
        families[member.family] -= 1
    return list(leaving.items())


def _nearest(
    pairs: list[tuple[float, Member, Member]], leaving: dict[str, str], families: Counter[str]
) -> tuple[Member, str] | None:
    """Who goes next and why, from pairs in the order of their distance; None where all are the last of a family."""
    for distance, older, younger in pairs:
        if older.id in leaving or younger.id in leaving:
            continue
        if families[older.family] > 1:
            age = "younger" if older.born < younger.born else "as old"
            return older, f"{_likeness(distance, younger)}, which is {age}"
        if families[younger.family] > 1:
            return younger, f"{_likeness(distance, older)}, which is older but the last of {older.family}"
    return None


def _likeness(distance: float, other: Member) -> str:
    return f"no learner met {other.id} too" if isinf(distance) else f"pays like {other.id} ({distance:.3f} apart)"
