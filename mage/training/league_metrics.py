"""Metrics of a league's step: of the league, of each learner, and aggregated over learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.league.matches import PlayedMatch, TaskOrigin
from mage.league.state import League

NASH_CONV = "nash_conv"
_OF_LEARNERS = {
    "entropy/play": "entropy",
    "groups/dead_share": "dead_share",
    "learner/lr": "lr",
    "learner/entropy_bonus": "entropy_bonus",
    NASH_CONV: NASH_CONV,
}
"""Metrics that are logged for each learner, and their names there."""
_SUMS = (
    "learner/tokens",
    "learner/trained_tokens",
    "play/tokens_sampled",
    "play/tokens_in_streams",
    "groups/replacements",
    "groups/replayed",
)


def league_metrics(
    league: League, metrics: Mapping[str, Mapping[str, float]], played: Sequence[PlayedMatch]
) -> dict[str, float]:
    """All metrics of a step, from those by learner; the league is the one after the step's results."""
    return {**_aggregated(metrics), **_by_learner(league, metrics, played)}


def _aggregated(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Metrics aggregated over learners: sums of counts, else means over the learners that have them."""
    keys = dict.fromkeys(key for own in metrics.values() for key in own if key != NASH_CONV)
    found: dict[str, float] = {}
    for key in keys:
        values = [own[key] for own in metrics.values() if key in own]
        found[key] = sum(values) if key in _SUMS else sum(values) / len(values)
    return found


def _by_learner(
    league: League, metrics: Mapping[str, Mapping[str, float]], played: Sequence[PlayedMatch]
) -> dict[str, float]:
    """Metrics of the league and of each learner."""
    found = {
        "league/members": float(len(league.present)),
        "league/snapshots": float(len(league.snapshots)),
        "league/diversity": league.diversity(),
    }
    ratings = league.ratings()
    anchors = {member.id for member in league.anchors}
    for name, own in metrics.items():
        found[f"{name}/rating"] = ratings[name]
        against_anchors = [
            one.score
            for one in played
            if one.learner == name and one.origin is not TaskOrigin.REPLAYED and anchors.issuperset(one.opponents)
        ]
        scores = [score for score in against_anchors if score is not None]
        if scores:
            found[f"{name}/anchors"] = sum(scores) / len(scores)
        for key, value in own.items():
            if key.startswith("score/episode_"):
                found[f"{name}/score_{key.removeprefix('score/episode_')}"] = value
            elif key in _OF_LEARNERS:
                found[f"{name}/{_OF_LEARNERS[key]}"] = value
    return found
