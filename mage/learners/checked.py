"""What a user's learner returns, checked where a run takes it: it would train, play and save with anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import torch

from mage.answers import number, wrong_answer
from mage.errors import PlayError
from mage.plugin_errors import as_numbers, plugin_errors, shown_value
from mage.protocols import Learner, ShardedFiles
from mage.types import Sample
from mage.weights import LearnerState, LowRank, PolicyWeights, Tensor

_Read = list[list[tuple[float, float]]]


def checked_learner(learner: Learner) -> Learner:
    """The learner with checks of what it returns; what it raises is a `PlayError` in one line."""
    with plugin_errors(_name(learner)):
        is_sharded = isinstance(learner, ShardedFiles)  # reads its attributes
    return _CheckedShards(learner) if is_sharded else _CheckedLearner(learner)


class _CheckedLearner:
    """Hands everything on to a user's learner."""

    def __init__(self, learner: Learner) -> None:
        self._learner: Any = learner
        self._name = _name(learner)

    @property
    def num_tokens(self) -> int:
        given = self._get("num_tokens")
        found = _finite([given])
        if found is None:
            raise PlayError(f"{self._name}: num_tokens is {shown_value(given)}; allowed is a number")
        return int(found[0])

    @property
    def has_values(self) -> bool:
        return bool(self._get("has_values"))

    @property
    def weights_file(self) -> str:
        found = self._get("weights_file")
        if not (isinstance(found, str) and found):
            raise PlayError(f"{self._name}: weights_file is {shown_value(found)}; allowed is the name of a file")
        return found

    def update(self, samples: Sequence[Sample]) -> dict[str, float]:
        returned = self._call("update", samples)
        return self._numbers("update", returned, "learner/tokens", "metrics")

    def evaluate_tokens(self, samples: Sequence[Sample]) -> _Read:
        returned = self._call("evaluate_tokens", samples)
        rows = [_pairs(row) for row in _listed(returned)]
        self._check_sizes("evaluate_tokens", returned, rows, samples, "two finite numbers")
        return rows

    def values(self, samples: Sequence[Sample]) -> list[list[float]]:
        returned = self._call("values", samples)
        rows = [_finite(row) or [] for row in _listed(returned)]
        self._check_sizes("values", returned, rows, samples, "a finite number")
        return rows

    def weights(self, trained: Mapping[str, Tensor] | None = None) -> PolicyWeights:
        returned = self._call("weights", *(() if trained is None else (trained,)))
        if not isinstance(returned, PolicyWeights):
            raise wrong_answer(self._name, "weights", returned, "a mage.weights.PolicyWeights")
        self._check_mapping("weights", "model", returned.model, _is_tensor, "tensors")
        self._check_mapping("weights", "adapter", returned.adapter, _is_low_rank, "mage.weights.LowRank")
        if not returned.model:
            raise wrong_answer(self._name, "weights", returned.model, "at least one weight", "model = ")
        return returned

    def state(self) -> LearnerState:
        returned = self._call("state")
        if not isinstance(returned, LearnerState):
            raise wrong_answer(self._name, "state", returned, "a mage.weights.LearnerState")
        self._check_mapping("state", "weights", returned.weights, _is_tensor, "tensors")
        self._check_mapping("state", "tensors", returned.tensors, _is_tensor, "tensors")
        if not returned.weights:
            raise wrong_answer(self._name, "state", returned.weights, "at least one weight", "weights = ")
        return replace(returned, numbers=self._numbers("state", returned.numbers, "num_tokens", "numbers"))

    def restore(self, state: LearnerState) -> None:
        self._call("restore", state)

    def save(self, folder: Path, base: str) -> None:
        self._call("save", folder, base)

    def set_settings(self, settings: Any) -> None:
        self._call("set_settings", settings)

    def _call(self, method: str, *given: object) -> Any:
        with plugin_errors(f"{self._name}: {method}()"):
            return getattr(self._learner, method)(*given)

    def _get(self, attribute: str) -> Any:
        with plugin_errors(f"{self._name}: {attribute}"):
            return getattr(self._learner, attribute)

    def _numbers(self, method: str, given: object, needed: str, field: str) -> dict[str, float]:
        """A mapping from texts to finite numbers, with one that is needed; a whole number stays one."""
        if not (isinstance(given, Mapping) and _has_names(given) and needed in given):
            allowed = f"a mapping from texts to finite numbers, with {needed!r}"
            raise wrong_answer(self._name, method, given, allowed, f"{field} = ")
        found = {name: number(self._name, method, one, f"{field}[{name!r}] = ") for name, one in given.items()}
        return {name: given[name] if type(given[name]) is int else one for name, one in found.items()}

    def _check_mapping(
        self, method: str, field: str, given: object, is_right: Callable[[object], bool], of: str
    ) -> None:
        """Raise unless it maps texts to what is right. Only dicts are read: other mappings may compute their values."""
        allowed = f"a mapping from names to {of}"
        if not (isinstance(given, Mapping) and _has_names(given)):
            raise wrong_answer(self._name, method, given, allowed, f"{field} = ")
        for name, one in given.items() if isinstance(given, dict) else ():
            if not is_right(one):
                raise wrong_answer(self._name, method, one, allowed, f"{field}[{name!r}] = ")

    def _check_sizes(
        self, method: str, returned: object, rows: Sequence[Sequence[object]], samples: Sequence[Sample], what: str
    ) -> None:
        """Raise unless there is a row for each sample, with something for each of its trained tokens."""
        if list(map(len, rows)) != [len(sample.positions) for sample in samples]:
            allowed = f"a list for each of {len(samples)} samples, with {what} for each trained token"
            raise wrong_answer(self._name, method, returned, allowed)


class _CheckedShards(_CheckedLearner):
    """A user's learner of several processes."""

    def numbers(self) -> dict[str, float]:
        return self._numbers("numbers", self._call("numbers"), "num_tokens", "numbers")

    def check_folder(self, folder: Path) -> None:
        self._call("check_folder", folder)

    def save_shards(self, folder: Path) -> None:
        self._call("save_shards", folder)

    def restore_files(self, folder: Path, numbers: Mapping[str, float]) -> None:
        self._call("restore_files", folder, numbers)


def _name(learner: Learner) -> str:
    return f"the learner {type(learner).__name__}"


def _is_tensor(given: object) -> bool:
    return isinstance(given, torch.Tensor)


def _has_names(given: Mapping[Any, Any]) -> bool:
    return all(isinstance(name, str) for name in given)


def _is_low_rank(given: object) -> bool:
    return isinstance(given, LowRank) and _is_tensor(given.a_RI) and _is_tensor(given.b_OR)


def _listed(given: Any) -> Sequence[object]:
    """What is in a sequence, or in an array or a tensor; nothing where it is none of these."""
    listed = given.tolist() if hasattr(given, "tolist") else given
    return listed if isinstance(listed, Sequence) and not isinstance(listed, str | bytes) else ()


def _finite(given: object) -> list[float] | None:
    """A sequence of finite numbers as floats; None where it is none."""
    found = as_numbers(given)
    return found if found is not None and all(map(isfinite, found)) else None


def _pairs(given: object) -> list[tuple[float, float]]:
    """A sequence of pairs of finite numbers; empty where it is none."""
    found = [_finite(pair) or [] for pair in _listed(given)]
    return [(pair[0], pair[1]) for pair in found] if all(len(pair) == 2 for pair in found) else []
