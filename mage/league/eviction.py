"""Chooses snapshots to evict: the older of the two with the most similar pay-offs."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import isinf

from mage.errors import ConfigError
from mage.league.members import Member
from mage.league.state import League


def choose_evictions(league: League, most: int) -> list[tuple[str, str]]:
    """Snapshots to retire so that at most `most` stay, in order of eviction, each with a one-line reason.

    Repeatedly, of the two with the nearest pay-off columns (the earliest born among equals) the older is evicted; the
    younger where the older is the last snapshot of its family. Pairs without a common learner have infinite distance.
    The newest snapshots have only inherited pay-offs: pairs of them come last. The last snapshot of a family always
    stays, so more than `most` may remain. Evicting by age alone would keep ten late copies of one strategy and lose
    the early ones that no member plays any more.
    """
    if most < 0:
        raise ConfigError(f"at most {most} snapshots: takes 0 or more")
    snapshots = sorted(league.snapshots, key=lambda m: m.born)
    newest = snapshots[-1].born if snapshots else 0
    # Sorting is stable: among equal distances the earliest born come first.
    pairs = sorted(
        (
            (league.payoffs.distance(older.id, younger.id), older, younger)
            for older, younger in combinations(snapshots, 2)
        ),
        key=lambda pair: (pair[1].born == newest, pair[0]),
    )
    evicted: dict[str, str] = {}
    families = Counter(m.family for m in snapshots)
    while len(snapshots) - len(evicted) > most:
        choice = _next_eviction(pairs, evicted, families)
        if choice is None:
            break
        member, reason = choice
        evicted[member.id] = reason
        families[member.family] -= 1
    return list(evicted.items())


def _next_eviction(
    pairs: list[tuple[float, Member, Member]], evicted: dict[str, str], families: Counter[str]
) -> tuple[Member, str] | None:
    """The next snapshot to evict and why, from pairs by distance; None where all are the last of a family."""
    for distance, older, younger in pairs:
        if older.id in evicted or younger.id in evicted:
            continue
        if families[older.family] > 1:
            age = "younger" if older.born < younger.born else "as old"
            return older, f"{_likeness(distance, younger)}, which is {age}"
        if families[younger.family] > 1:
            return younger, f"{_likeness(distance, older)}, which is older but the last of {older.family}"
    return None


def _likeness(distance: float, other: Member) -> str:
    return f"no learner met {other.id} too" if isinf(distance) else f"pays like {other.id} ({distance:.3f} apart)"
