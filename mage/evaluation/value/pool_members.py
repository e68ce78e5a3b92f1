"""The pool that a value is about: a world with the opponents or levels that may be hidden in a trial."""

from __future__ import annotations

from collections.abc import Sequence

from mage.errors import ConfigError
from mage.evaluation.exact.pool import Members, normalise_members
from mage.evaluation.plan import named_members
from mage.evaluation.splits import check_members, has_levels
from mage.opponents.registry import MODEL_OPPONENTS
from mage.spec import parse_spec
from mage.worlds.registry import load_world


def pool_members(world: str, opponents: Sequence[str], seat: int, episodes: int) -> Members:
    """Members with weights that sum to 1, of splits, opponent specs or levels that are named.

    Members of splits have the weights of their split, others 1. A world of one seat needs none: then all its levels
    have the world's own weights.
    """
    if not opponents and not has_levels(world):
        seats = load_world(world).info.num_seats
        raise ConfigError(f"{world} has {seats} seats: name opponents, or a split of them, with --opponents")
    members = normalise_members(world, named_members(world, opponents), seat, episodes)
    check_members(load_world(world), [member for member, _ in members if member], [seat])
    if not has_levels(world):
        for member, _ in members:
            if parse_spec(member).name in MODEL_OPPONENTS:
                raise ConfigError(f"{member} is a model: what can be won against it is found by play, not computed")
    return members
