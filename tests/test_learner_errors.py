"""What a learner of one's own returns is checked where a run takes it: training would go on with anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import mage
from mage.errors import ConfigError, MageError, PlayError
from mage.learners.checked import checked_learner
from mage.learners.load_weights import DivergedError
from mage.learners.local import LocalLearner
from mage.learners.registry import make_learner
from mage.protocols import Learner, ShardedFiles
from mage.types import Sample
from mage.weights import LearnerState, LowRank, PolicyWeights
from tests.made import made_model, made_samples, made_settings
from tests.plugins_engine import SgdLearner
from tests.test_plugins_engine import SHORT

pytestmark = pytest.mark.usefixtures("own_names")

TENSOR = torch.zeros(2)
NUMBERS = {"num_tokens": 3}


class Changing(SgdLearner):
    """A learner of which one method returns something else, or raises it."""

    has_values = True

    def __init__(self, method: str, returned: Any) -> None:
        super().__init__(made_model(), made_settings(), False, False)
        setattr(self, method, lambda *_: self._give(returned))

    def _give(self, returned: Any) -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned


def call(method: str, returned: Any) -> Any:
    """What a run gets from a method of a learner that returns this."""
    learner = checked_learner(cast(Learner, Changing(method, returned)))
    given = {"weights": (), "state": ()}.get(method, (made_samples()[:1],))
    return getattr(learner, method)(*given)


def updated(**metrics: Any) -> dict[str, Any]:
    return {"learner/tokens": 3, **metrics}


METRICS = "a mapping from texts to finite numbers, with 'learner/tokens'"
TENSORS = "a mapping from names to tensors"
POLICY = "a mage.weights.PolicyWeights"
STATE = "a mage.weights.LearnerState"
COUNTERS = "a mapping from texts to finite numbers, with 'num_tokens'"


@pytest.mark.parametrize(
    ("method", "returned", "shown", "allowed"),
    [
        ("update", None, "metrics = None", METRICS),
        ("update", [("learner/tokens", 3)], "metrics = [('learner/tokens', 3)]", METRICS),
        ("update", {"learner/loss": 0.5}, "metrics = {'learner/loss': 0.5}", METRICS),
        ("update", {"learner/tokens": 3, 7: 1.0}, "metrics = {'learner/tokens': 3, 7: 1.0}", METRICS),
        ("update", updated(loss=math.nan), "metrics['loss'] = nan", "a finite number"),
        ("update", updated(loss=-math.inf), "metrics['loss'] = -inf", "a finite number"),
        ("update", updated(loss="0.5"), "metrics['loss'] = '0.5'", "a finite number"),
        ("update", updated(loss=None), "metrics['loss'] = None", "a finite number"),
        ("update", updated(loss=TENSOR), "metrics['loss'] = tensor([0., 0.])", "a finite number"),
        ("weights", None, "None", POLICY),
        ("weights", {"w": TENSOR}, "{'w': tensor([0., 0.])}", POLICY),
        ("weights", PolicyWeights({}), "model = {}", "at least one weight"),
        ("weights", PolicyWeights([TENSOR]), "model = [tensor([0., 0.])]", TENSORS),  # type: ignore[arg-type]
        ("weights", PolicyWeights({"w": [0.0]}), "model['w'] = [0.0]", TENSORS),
        ("weights", PolicyWeights({1: TENSOR}), "model = {1: tensor([0., 0.])}", TENSORS),  # type: ignore[dict-item]
        (
            "weights",
            PolicyWeights({"w": TENSOR}, {"w": TENSOR}),  # type: ignore[dict-item]
            "adapter['w'] = tensor([0., 0.])",
            "a mapping from names to mage.weights.LowRank",
        ),
        (
            "weights",
            PolicyWeights({"w": TENSOR}, None),  # type: ignore[arg-type]
            "adapter = None",
            "a mapping from names to mage.weights.LowRank",
        ),
        ("state", None, "None", STATE),
        ("state", ({"w": TENSOR}, {}, NUMBERS), "({'w': tensor([0., 0.])}, {}, {'num_tokens': 3})", STATE),
        ("state", LearnerState({}, {}, NUMBERS), "weights = {}", "at least one weight"),
        ("state", LearnerState({"w": 0.5}, {}, NUMBERS), "weights['w'] = 0.5", TENSORS),
        ("state", LearnerState({"w": TENSOR}, {"m": None}, NUMBERS), "tensors['m'] = None", TENSORS),
        ("state", LearnerState({"w": TENSOR}, None, NUMBERS), "tensors = None", TENSORS),  # type: ignore[arg-type]
        ("state", LearnerState({"w": TENSOR}, {}, {}), "numbers = {}", COUNTERS),
        (
            "state",
            LearnerState({"w": TENSOR}, {}, {"num_tokens": math.nan}),
            "numbers['num_tokens'] = nan",
            "a finite number",
        ),
    ],
)
def test_what_no_learner_may_return_is_refused(method: str, returned: Any, shown: str, allowed: str) -> None:
    with pytest.raises(PlayError) as refused:
        call(method, returned)
    assert str(refused.value) == f"the learner Changing: {method}() returned {shown}; allowed is {allowed}"


@pytest.mark.parametrize("returned", [None, 5, [], [[0.5]], "values", [None], [[math.nan] * 99]])
@pytest.mark.parametrize(("method", "what"), [("values", "a finite number"), ("evaluate_tokens", "two finite numbers")])
def test_numbers_of_tokens_are_as_many_as_there_are_tokens(method: str, what: str, returned: Any) -> None:
    said = rf"^the learner Changing: {method}\(\) returned .*; allowed is a list for each of 1 samples, with {what} "
    with pytest.raises(PlayError, match=said):
        call(method, returned)


def test_numbers_of_numpy_and_of_tensors_become_floats() -> None:
    num = len(made_samples()[0].positions)
    metrics = call("update", updated(loss=torch.tensor(0.5, requires_grad=True), rate=np.float32(0.25)))
    assert metrics == {"learner/tokens": 3, "loss": 0.5, "rate": 0.25}
    assert [type(value) for value in metrics.values()] == [int, float, float]
    assert call("values", [np.ones(num, np.float32)]) == [[1.0] * num]
    assert call("evaluate_tokens", [torch.zeros(num, 2)]) == [[(0.0, 0.0)] * num]
    state = LearnerState({"w": TENSOR}, {}, cast(Any, {"num_tokens": np.int64(3)}))
    assert call("state", state) == replace(state, numbers={"num_tokens": 3.0})


def test_an_adapter_is_a_policy() -> None:
    weights = PolicyWeights({"w": TENSOR}, {"w": LowRank(TENSOR, TENSOR, 1.0)})
    assert call("weights", weights) is weights


def test_weights_are_asked_for_without_a_state_where_there_is_none() -> None:
    own = SgdLearner(made_model(), made_settings(), False, False)
    vars(own)["weights"] = lambda *given: PolicyWeights(*given or [{"w": TENSOR}])
    learner = checked_learner(own)
    assert learner.weights().model["w"] is TENSOR
    other = torch.ones(2)
    assert learner.weights({"w": other}).model["w"] is other


class Computed(Mapping[str, Any]):
    """Weights that are computed when they are read."""

    def __getitem__(self, name: str) -> Any:
        pytest.fail("it was read")

    def __iter__(self) -> Any:
        return iter(["w"])

    def __len__(self) -> int:
        return 1


def test_weights_that_are_computed_when_they_are_read_are_not_read() -> None:
    weights = PolicyWeights(Computed())
    assert call("weights", weights) is weights


class Raises(SgdLearner):
    """Each of its methods raises an error that was not meant."""

    def __init__(self) -> None:
        super().__init__(None, made_settings(), False, False)
        methods = ("update", "evaluate_tokens", "values", "weights", "state", "restore", "save", "set_settings")
        vars(self).update(dict.fromkeys(methods, self.raise_error))

    def raise_error(self, *given: Any) -> Any:
        raise KeyError("boom")


RAISED = rf"raises KeyError: 'boom' \(at test_learner_errors.py:{Raises.raise_error.__code__.co_firstlineno + 1}\)$"


@pytest.mark.parametrize(
    ("method", "num"),
    [
        *(("update", 1), ("evaluate_tokens", 1), ("values", 1), ("weights", 0), ("state", 0)),
        *(("restore", 1), ("save", 2), ("set_settings", 1)),
    ],
)
def test_where_a_learner_raises_is_said(method: str, num: int) -> None:
    learner = checked_learner(Raises())
    with pytest.raises(PlayError, match=rf"^the learner Raises: {method}\(\) {RAISED}"):
        getattr(learner, method)(*[None] * num)


@pytest.mark.parametrize("error", [DivergedError("too fast"), ConfigError("told"), MemoryError("none")])
def test_errors_on_purpose_and_shortages_stay_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error), match=f"^{error}$"):
        call("update", error)


class Bare(SgdLearner):
    """Does not say what the others say of themselves."""

    def __init__(self, **said: Any) -> None:
        vars(self).update(said)


@pytest.mark.parametrize(
    ("attribute", "given", "said"),
    [
        ("num_tokens", {}, "num_tokens raises AttributeError: 'Bare' object has no attribute 'num_tokens' "),
        ("num_tokens", {"num_tokens": "3"}, "num_tokens is '3'; allowed is a number"),
        ("num_tokens", {"num_tokens": None}, "num_tokens is None; allowed is a number"),
        (
            "weights_file",
            {"num_tokens": 0, "weights_file": None},
            "weights_file is None; allowed is the name of a file",
        ),
    ],
)
def test_what_a_learner_says_of_itself_is_checked(attribute: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(PlayError) as refused:
        getattr(checked_learner(Bare(**given)), attribute)
    assert str(refused.value).startswith(f"the learner Bare: {said}")


class Sharded(SgdLearner):
    """A learner whose files are written by several processes."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.folders: list[Path] = []

    def numbers(self) -> Any:
        return {"num_tokens": "3"}

    def check_folder(self, folder: Path) -> None:
        self.folders.append(folder)

    def save_shards(self, folder: Path) -> None:
        raise KeyError("boom")

    def restore_files(self, folder: Path, numbers: Mapping[str, float]) -> None:
        self.folders.append(folder)


def test_a_learner_of_several_processes_stays_one() -> None:
    own = Sharded(None, made_settings(), False, False)
    learner = checked_learner(own)
    assert isinstance(learner, ShardedFiles)
    assert not isinstance(checked_learner(SgdLearner(None, made_settings(), False, False)), ShardedFiles)
    learner.check_folder(Path("a"))
    learner.restore_files(Path("b"), {})
    assert own.folders == [Path("a"), Path("b")]
    with pytest.raises(PlayError, match=r"numbers\(\) returned numbers\['num_tokens'\] = '3'; allowed is a finite"):
        learner.numbers()
    with pytest.raises(PlayError, match=r"^the learner Sharded: save_shards\(\) raises KeyError: 'boom' "):
        learner.save_shards(Path())


def test_learners_that_come_with_mage_are_not_wrapped() -> None:
    learner = make_learner("local", made_model(), made_settings(), with_values=False, imitates=False)
    assert type(learner) is LocalLearner


class Silent(SgdLearner):
    """Updates without a word."""

    def update(self, samples: Sequence[Sample]) -> Any:
        super().update(samples)


class Nameless(SgdLearner):
    """Publishes tensors alone."""

    def weights(self, trained: Mapping[str, Any] | None = None) -> Any:
        return super().weights(trained).model


class Stateless(SgdLearner):
    """Has nothing to save."""

    def state(self) -> Any:
        return None


class Breaks(SgdLearner):
    """Cannot update."""

    def update(self, samples: Sequence[Sample]) -> Any:
        raise ZeroDivisionError("no samples")


@pytest.mark.parametrize(
    ("learner", "said"),
    [
        (Silent, r"update\(\) returned metrics = None; allowed is a mapping from texts to finite numbers"),
        (Nameless, r"weights\(\) returned OrderedDict\(.*; allowed is a mage.weights.PolicyWeights$"),
        (Stateless, r"state\(\) returned None; allowed is a mage.weights.LearnerState$"),
        (Breaks, r"update\(\) raises ZeroDivisionError: no samples \(at test_learner_errors.py:\d+\)$"),
    ],
)
def test_a_training_ends_in_a_line_where_its_learner_is_wrong(
    learner: Callable[..., Any], said: str, tmp_path: Path
) -> None:
    mage.register_learner("own", learner)
    own = {**SHORT, "learner.kind": "own", "evaluation.splits": [], "steps": 1}
    with pytest.raises(MageError, match=f"^the learner {learner.__name__}: {said}") as refused:
        mage.train("rps", own, folder=tmp_path / "run", quiet=True)
    assert "\n" not in str(refused.value)
