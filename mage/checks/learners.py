"""Contract check for learners; it raises AssertionError with the broken rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from mage.learners.shared import load_state, save_state
from mage.protocols import Learner
from mage.types import Sample
from mage.weights import LearnerState, PolicyWeights

_Read = list[list[tuple[float, float]]]


def check_learner(
    make_learner: Callable[[], Learner], samples: Sequence[Sample], folder: Path, tolerance: float = 0.0
) -> None:
    """Updates change the weights, and a learner restored from memory or files goes on as the one that was not.

    `make_learner` makes equal learners, each with a model of its own. `samples` are a batch whose advantages are not
    all alike, `folder` is an empty directory. `tolerance` bounds the difference of weights that must be equal.
    """
    learner = make_learner()
    before = _Moment(learner, samples)
    _check_read(before.read, samples)
    _check_update(learner, samples, before)
    middle = _Moment(learner, samples)
    folder.mkdir(parents=True, exist_ok=True)
    save_state(folder / "saved", learner, "base")
    assert (folder / "saved" / learner.weights_file).is_file(), f"save wrote no {learner.weights_file}"
    learner.update(samples)
    after = _Moment(learner, samples)
    saved = load_state(folder / "saved", learner)
    _check_published(learner, (middle.state, saved), middle, after, tolerance)
    for source, state in (("a state in memory", middle.state), ("files", saved)):
        other = make_learner()
        other.update(samples[:1])  # it has moved elsewhere, so that restoring must replace everything
        other.restore(state)
        _check_restored(other, samples, middle, source, tolerance)
        other.update(samples)
        gap = _distance(other.state().weights, after.state.weights)
        assert gap <= tolerance, (
            f"after restore from {source}, the next update differs by {gap:.1e} from that of the learner that went on: "
            "part of the state, such as the optimizer's, is lost"
        )
    learner.restore(before.state)
    gap = _distance(learner.state().weights, before.state.weights)
    assert gap <= tolerance, f"restoring the first state leaves weights that differ by {gap:.1e}"


class _Moment:
    """A learner's state at one moment, copied, and what it says of the samples."""

    def __init__(self, learner: Learner, samples: Sequence[Sample]) -> None:
        self.state: LearnerState = learner.state().copied()
        self.merged = _copied(learner.weights())
        self.read = learner.evaluate_tokens(samples)
        self.values = learner.values(samples) if learner.has_values else []
        assert _distance(learner.state().weights, self.state.weights) == 0.0, "evaluating samples changes the weights"


def _check_read(read: _Read, samples: Sequence[Sample]) -> None:
    sizes = [len(sample.positions) for sample in samples]
    assert [len(tokens) for tokens in read] == sizes, "evaluate_tokens gives one pair for each trained token"
    pairs = [pair for tokens in read for pair in tokens]
    assert all(isfinite(x) for pair in pairs for x in pair), "log-probabilities and entropies are finite"
    assert all(logprob <= 1e-6 for logprob, _ in pairs), "log-probabilities are at most 0"
    assert all(entropy >= -1e-6 for _, entropy in pairs), "entropies are at least 0"


def _check_update(learner: Learner, samples: Sequence[Sample], before: _Moment) -> None:
    num_tokens = learner.num_tokens
    metrics = learner.update(samples)
    assert all(isfinite(value) for value in metrics.values()), "metrics of an update are finite numbers"
    assert metrics.get("learner/tokens", 0) > 0, "an update reports its tokens as learner/tokens"
    assert learner.num_tokens == num_tokens + metrics["learner/tokens"], "num_tokens grows by learner/tokens"
    assert learner.state().num_tokens == learner.num_tokens, "the state's numbers have num_tokens"
    assert _distance(learner.state().weights, before.state.weights) > 0.0, "an update changes no weights"
    assert learner.evaluate_tokens(samples) != before.read, "an update changes no log-probabilities"
    if learner.has_values:
        sizes = [len(sample.positions) for sample in samples]
        values = learner.values(samples)
        assert [len(own) for own in values] == sizes, "one value for each trained token"
        assert all(isfinite(value) for own in values for value in own), "values are finite"
        assert values != before.values, "an update changes no values"


def _check_published(
    learner: Learner, states: Sequence[LearnerState], middle: _Moment, after: _Moment, tolerance: float
) -> None:
    """Weights to publish are those of now, or of the state that was asked for."""
    assert _distance(after.merged, middle.merged) > 0.0, "the weights to publish are the same after an update"
    for state, source in zip(states, ("memory", "files, where tied weights stand once"), strict=True):
        gap = _distance(_copied(learner.weights(state.weights)), middle.merged)
        assert gap <= tolerance, f"weights(trained) of a state from {source}: they differ by {gap:.1e}"
    gap = _distance(_copied(learner.weights()), after.merged)
    assert gap == 0.0, "weights(trained) of another state changes the learner's own"


def _check_restored(
    learner: Learner, samples: Sequence[Sample], expected: _Moment, source: str, tolerance: float
) -> None:
    gap = _distance(learner.state().weights, expected.state.weights)
    assert gap <= tolerance, f"restored from {source}, the weights differ by {gap:.1e}"
    assert learner.num_tokens == expected.state.num_tokens, f"restored from {source}, num_tokens is another"
    gaps = [
        abs(a - b)
        for mine, theirs in zip(learner.evaluate_tokens(samples), expected.read, strict=True)
        for one, other in zip(mine, theirs, strict=True)
        for a, b in zip(one, other, strict=True)
    ]
    assert max(gaps) <= tolerance, f"restored from {source}, log-probabilities differ by {max(gaps):.1e}"
    if learner.has_values and tolerance == 0.0:
        assert learner.values(samples) == expected.values, f"restored from {source}, values differ"


def _copied(weights: PolicyWeights) -> dict[str, Any]:
    return {name: tensor.detach().clone() for name, tensor in weights.merged().items()}


def _distance(some: Mapping[str, Any], others: Mapping[str, Any]) -> float:
    """The largest difference of weights of the same names."""
    assert some.keys() == others.keys(), f"weights have other names: {sorted(some.keys() ^ others.keys())[:3]}"
    return max(float((some[name].double() - others[name].double()).abs().max()) for name in some)
