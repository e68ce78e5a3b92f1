"""Several learners in one body: one model and one optimizer in memory, and whose weights they hold changes.

What tells learners apart is small beside a model (an adapter, or all of a small model), so it is copied in and out:
one base, one compilation, and as many learners as one likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from mage.errors import RecordError
from mage.files import write_atomically
from mage.learners.local import Learner
from mage.learners.settings import LearnerSettings

OPTIMIZER, NUMBERS = "optimizer.safetensors", "numbers.json"


@dataclass(frozen=True)
class LearnerState:
    """All that a learner is: its weights, its optimizer and its counters. Nobody changes it in place."""

    weights: Mapping[str, Tensor]
    tensors: Mapping[str, Tensor]
    numbers: Mapping[str, float]

    @property
    def num_tokens(self) -> int:
        """Tokens it has learned from."""
        return int(self.numbers["num_tokens"])


class SharedLearner:
    """The minds that take turns in one body. The one that is awake is in the body, and its entry is out of date."""

    def __init__(self, body: Learner, settings: Mapping[str, LearnerSettings]) -> None:
        self.body = body
        self._settings = dict(settings)
        born = _state_of(body)
        self._minds = dict.fromkeys(settings, born)
        self._awake: str | None = None

    def activate(self, name: str) -> Learner:
        """The body with this mind in it."""
        if name != self._awake:
            self._sleep()
            mind = self._minds[name]
            self.body.adjust(self._settings[name])
            self.body.restore(mind.weights, mind.tensors, mind.numbers)
            self._awake = name
        return self.body

    def __getitem__(self, name: str) -> LearnerState:
        self._sleep()
        return self._minds[name]

    def replace(self, name: str, mind: LearnerState) -> None:
        """Let a learner be what another one is or was."""
        self._sleep()
        self._minds[name] = mind

    def adjust(self, name: str, settings: LearnerSettings) -> None:
        """Let a learner learn by other settings."""
        self._sleep()
        self._settings[name] = settings

    @property
    def num_tokens(self) -> int:
        """Tokens that all of them have learned from."""
        asleep = sum(mind.num_tokens for name, mind in self._minds.items() if name != self._awake)
        return asleep + (0 if self._awake is None else self.body.num_tokens)

    def _sleep(self) -> None:
        """Take the mind out of the body."""
        if self._awake is not None:
            self._minds[self._awake] = _state_of(self.body)
            self._awake = None


def _state_of(body: Learner) -> LearnerState:
    tensors, numbers = body.state()
    return LearnerState(_copied(body.trained()), _copied(tensors), dict(numbers))


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def save_state(folder: Path, body: Learner, base: str) -> None:
    """Write the mind that is in the body, as checkpoints have it: a model or an adapter, and the rest beside it."""
    tensors, numbers = body.state()
    folder.mkdir(parents=True, exist_ok=True)
    body.save(folder, base)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / OPTIMIZER)
    write_atomically(folder / NUMBERS, msgspec.json.encode(numbers))


def load_state(folder: Path, body: Learner) -> LearnerState:
    """Read a mind that `save_mind` wrote, for this body."""
    device = next(body.model.parameters()).device
    try:
        weights = load_file(folder / body.weights_file, device=str(device))
        tensors = load_file(folder / OPTIMIZER)
        numbers = msgspec.json.decode((folder / NUMBERS).read_bytes(), type=dict[str, float])
    except (OSError, SafetensorError, msgspec.DecodeError) as error:
        raise RecordError(f"{folder} holds no learner that can be read: {error}") from None
    return LearnerState(weights, tensors, numbers)
