"""Time-share one model and optimizer between learners by swapping state.

The state of a learner (an adapter, or all weights of a small model) is copied in and out; the base model and its
compiled functions exist once for any number of learners.
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
    """The state of a learner: weights, optimizer tensors and counters. Never changed in place."""

    weights: Mapping[str, Tensor]
    tensors: Mapping[str, Tensor]
    numbers: Mapping[str, float]

    @property
    def num_tokens(self) -> int:
        """Tokens that it was trained on."""
        return int(self.numbers["num_tokens"])


class SharedLearner:
    """Several learner states that take turns in one `Learner`.

    The state of the active one is in the `Learner`; its stored entry is out of date until the next one is activated.
    """

    def __init__(self, learner: Learner, settings: Mapping[str, LearnerSettings]) -> None:
        self.learner = learner
        self._settings = dict(settings)
        initial = _state_of(learner)
        self._states = dict.fromkeys(settings, initial)
        self._active: str | None = None

    def activate(self, name: str) -> Learner:
        """Load the state of a learner and return the `Learner`."""
        if name != self._active:
            self._deactivate()
            state = self._states[name]
            self.learner.set_settings(self._settings[name])
            self.learner.restore(state.weights, state.tensors, state.numbers)
            self._active = name
        return self.learner

    def __getitem__(self, name: str) -> LearnerState:
        self._deactivate()
        return self._states[name]

    def replace(self, name: str, state: LearnerState) -> None:
        """Replace the state of a learner."""
        self._deactivate()
        self._states[name] = state

    def set_settings(self, name: str, settings: LearnerSettings) -> None:
        """Change the settings of a learner."""
        self._deactivate()
        self._settings[name] = settings

    @property
    def num_tokens(self) -> int:
        """Tokens that all learners together were trained on."""
        inactive = sum(state.num_tokens for name, state in self._states.items() if name != self._active)
        return inactive + (0 if self._active is None else self.learner.num_tokens)

    def _deactivate(self) -> None:
        """Store the state of the active learner."""
        if self._active is not None:
            self._states[self._active] = _state_of(self.learner)
            self._active = None


def _state_of(learner: Learner) -> LearnerState:
    tensors, numbers = learner.state()
    return LearnerState(_copied(learner.trained()), _copied(tensors), dict(numbers))


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def save_state(folder: Path, learner: Learner, base: str) -> None:
    """Write a learner's state to a folder: the model or adapter in checkpoint format, the optimizer and counters."""
    tensors, numbers = learner.state()
    folder.mkdir(parents=True, exist_ok=True)
    learner.save(folder, base)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / OPTIMIZER)
    write_atomically(folder / NUMBERS, msgspec.json.encode(numbers))


def load_state(folder: Path, learner: Learner) -> LearnerState:
    """Read a state that `save_state` wrote, for this learner's model."""
    device = next(learner.model.parameters()).device
    try:
        weights = load_file(folder / learner.weights_file, device=str(device))
        tensors = load_file(folder / OPTIMIZER)
        numbers = msgspec.json.decode((folder / NUMBERS).read_bytes(), type=dict[str, float])
    except (OSError, SafetensorError, msgspec.DecodeError) as error:
        raise RecordError(f"{folder} holds no learner that can be read: {error}") from None
    return LearnerState(weights, tensors, numbers)
