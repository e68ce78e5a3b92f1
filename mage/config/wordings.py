"""Wordings of a world: other names for its things and actions, by the seeds 1 to N of its parameter `reworded`."""

from __future__ import annotations

from functools import lru_cache

from mage.seeds import derive
from mage.spec import make_spec, parse_spec, with_parameters

REWORDED = "reworded"
"""The parameter of worlds that gives their wording a seed."""


def wordings_of(world: str, num: int) -> tuple[str, ...]:
    """The world in its wordings 1 to `num`.

    >>> wordings_of("rps", 2)
    ('rps(reworded=1)', 'rps(reworded=2)')
    """
    return tuple(with_parameters(world, {REWORDED: number}) for number in range(1, num + 1))


def drawn_wording(world: str, num: int, seed: int) -> str:
    """The world in the one of its wordings 1 to `num` that the seed of a task draws; as it is where `num` is 0.

    >>> drawn_wording("rps", 9, 5) == drawn_wording("rps", 9, 5) in wordings_of("rps", 9), drawn_wording("rps", 0, 5)
    (True, 'rps')
    """
    return with_parameters(world, {REWORDED: 1 + derive(seed, "wording") % num}) if num else world


@lru_cache(maxsize=4096)
def in_usual_words(world: str) -> str:
    """The world without its wording.

    >>> in_usual_words("rps(reworded=7,rounds=5)")
    'rps(rounds=5)'
    """
    spec = parse_spec(world)
    return str(make_spec(spec.name, *spec.args, **{key: value for key, value in spec.kwargs if key != REWORDED}))
