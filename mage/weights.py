"""What learners hand to engines and to files: the weights of policies and the states of learners."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

Tensor: TypeAlias = Any
"""A tensor of PyTorch, which is not imported here."""


class LowRank(NamedTuple):
    """An adapter's change to the weight of one module: scaling x b_OR x a_RI."""

    a_RI: Tensor
    b_OR: Tensor
    scaling: float


class GatheredWeights(Mapping[str, Tensor]):
    """Tensors that a sharded learner gathers when they are read, some at a time."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Those of all tensors, tied ones under each name."""

    @property
    @abstractmethod
    def most_bytes(self) -> int:
        """Those that are needed at a time, at most."""

    @abstractmethod
    def first_name(self, name: str) -> str:
        """The first name of a tied tensor; the name itself where it is not tied."""


@dataclass(frozen=True)
class PolicyWeights:
    """The weights of a policy: a whole model, or an adapter (LoRA) on a base model.

    Tensors may be those that the learner trains: a copy is needed to keep them.
    """

    model: Mapping[str, Tensor]
    """All weights of the model without the adapter, by the names of its state dict; tied ones under each name.

    A sharded learner gathers them when they are read, so read them in order, and before the next update.
    """
    adapter: Mapping[str, LowRank] = field(default_factory=dict)
    """The adapter's matrices by module; empty where the policy is a whole model."""

    def merged(self) -> Mapping[str, Tensor]:
        """All weights, with the adapter added to them in float32; each is computed when it is read."""
        return _Merged(self.model, self.adapter) if self.adapter else self.model


class _Merged(Mapping[str, Tensor]):
    def __init__(self, model: Mapping[str, Tensor], adapter: Mapping[str, LowRank]) -> None:
        self._model = model
        self._adapter = {f"{name}.weight": factors for name, factors in adapter.items()}

    def __getitem__(self, name: str) -> Tensor:
        weight_OI = self._model[name]
        if name not in self._adapter:
            return weight_OI
        a_RI, b_OR, scaling = self._adapter[name]
        added_OI = scaling * (b_OR.float() @ a_RI.float())
        return (weight_OI.float() + added_OI.to(weight_OI.device)).to(weight_OI.dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self._model)

    def __len__(self) -> int:
        return len(self._model)


@dataclass(frozen=True)
class LearnerState:
    """The state of a learner for an exact continuation. Its tensors may be those that are trained; see `copied`."""

    weights: Mapping[str, Tensor]
    """The trained weights, by the names of the file in which `save` writes them."""
    tensors: Mapping[str, Tensor]
    """All other tensors, such as the optimizer's."""
    numbers: Mapping[str, float]
    """Counters; `num_tokens` is one."""

    @property
    def num_tokens(self) -> int:
        """Tokens that it was trained on."""
        return int(self.numbers.get("num_tokens", 0))

    def copied(self) -> LearnerState:
        """The same state with tensors of its own, which later updates leave alone."""
        weights, tensors = ({n: t.detach().clone() for n, t in x.items()} for x in (self.weights, self.tensors))
        return LearnerState(weights, tensors, dict(self.numbers))
