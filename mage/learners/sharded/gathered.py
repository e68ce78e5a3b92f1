"""The tensors of a sharded learner, gathered when they are read, so that no rank needs room for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from torch import Tensor

from mage.weights import GatheredWeights

WINDOW_BYTES = 2**30
"""Bytes that are gathered at a time, or one tensor where that has more."""


class Gathered(GatheredWeights):
    """Whole tensors by name. They are the learner's present ones when they are read; keep none beyond an update.

    Those that follow a tensor in order are gathered with it, so reading all in order takes few messages between ranks.
    """

    def __init__(
        self,
        num_bytes: Mapping[str, int],
        first: Mapping[str, str],
        gather: Callable[[Sequence[str]], Mapping[str, Tensor]],
    ) -> None:
        """`num_bytes` are the sizes by name, and `first` the name under which a tied tensor is gathered."""
        self._num_bytes = num_bytes
        self._first = first
        self._gather = gather
        self._names = list(num_bytes)
        self._window: Mapping[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        first = self._first[name]
        if first not in self._window:
            self._window = {}  # frees memory before more is gathered
            self._window = self._gather(self._following(name))
        return self._window[first]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._num_bytes

    @property
    def num_bytes(self) -> int:
        """Those of all tensors, tied ones under each name."""
        return sum(self._num_bytes.values())

    @property
    def most_bytes(self) -> int:
        """Those of a window, and of a tensor in float32 before it has the model's dtype."""
        largest = max(self._num_bytes.values())
        return min(self.num_bytes, max(WINDOW_BYTES, largest)) + 2 * largest

    def first_name(self, name: str) -> str:
        """The name under which a tied tensor is gathered."""
        return self._first[name]

    def _following(self, name: str) -> list[str]:
        """The names to gather for a tensor and those behind it, tied ones once."""
        found: dict[str, None] = {}
        room = WINDOW_BYTES
        for follower in self._names[self._names.index(name) :]:
            first = self._first[follower]
            if first in found:
                continue
            if found and self._num_bytes[follower] > room:
                break
            found[first] = None
            room -= self._num_bytes[follower]
        return list(found)
