"""What an estimator returns, checked: training would go on with any numbers, and a checkpoint could not be read."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, TypeGuard

import msgspec

from mage.credit.estimators.base import Advantages, Estimator
from mage.credit.group_baselines import TrialAdvantages
from mage.credit.running_stats import Stats
from mage.credit.steps import CreditGroup
from mage.errors import PlayError
from mage.plugin_errors import as_numbers, plugin_errors, shown_value


def checked_estimate(
    name: str, estimator: Estimator, groups: Sequence[CreditGroup], stats: Stats
) -> tuple[Advantages, Stats]:
    """The advantages of a step as floats and the statistics for the next; a PlayError where they are none."""
    what = f"estimator {name!r}"
    with plugin_errors(what):
        returned: Any = estimator.estimate(groups, stats)
    if not (isinstance(returned, tuple | list) and len(returned) == 2):
        raise PlayError(f"{what} returned {shown_value(returned)}; allowed is a pair of advantages and statistics")
    own = _parts(what, returned[0], len(groups), "groups", "")
    advantages = tuple(_of_group(what, number, *pair) for number, pair in enumerate(zip(groups, own, strict=True)))
    if not _can_be_kept(returned[1]):
        raise PlayError(
            f"{what} returned the statistics {shown_value(returned[1])}; "
            "allowed is a mage.credit.running_stats.Stats of finite numbers"
        )
    return advantages, returned[1]


def _of_group(what: str, number: int, group: CreditGroup, given: object) -> TrialAdvantages:
    found = _parts(what, given, len(group.trials), "trials", f" for group {number}")
    trials: list[tuple[float, ...]] = []
    for index, (steps, own) in enumerate(zip(group.trials, found, strict=True)):
        where = f" for trial {index} of group {number}"
        advantages = as_numbers(own)
        if advantages is None or not all(map(isfinite, advantages)):
            raise PlayError(f"{what} returned {shown_value(own)}{where}; allowed are {len(steps)} finite numbers")
        _refuse_other_length(what, len(advantages), len(steps), "numbers", where)
        trials.append(tuple(advantages))
    return tuple(trials)


def _parts(what: str, given: Any, num: int, kind: str, where: str) -> list[object]:
    """What is in a sequence, or the rows of an array, of which there must be `num`."""
    try:
        parts = list(given)
    except TypeError:
        raise PlayError(
            f"{what} returned {shown_value(given)}{where}; allowed are {num} {kind}, as many as it got"
        ) from None
    _refuse_other_length(what, len(parts), num, kind, where)
    return parts


def _refuse_other_length(what: str, found: int, num: int, kind: str, where: str) -> None:
    if found != num:
        raise PlayError(f"{what} returned {found} {kind}{where}; allowed are {num}, as many as it got")


def _can_be_kept(stats: object) -> TypeGuard[Stats]:
    """Whether a checkpoint reads statistics back as they are; JSON has no nan, and no numbers of NumPy."""
    try:
        return isinstance(stats, Stats) and msgspec.json.decode(msgspec.json.encode(stats), type=Stats) == stats
    except (TypeError, msgspec.MsgspecError):
        return False
