"""What a plan says: figures, each with how it is known and from what."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mage.planning.shapes import Shape


class Basis(StrEnum):
    """How a figure is known."""

    COMPUTED = "computed"
    """From the sizes of tensors, which are known."""
    MEASURED = "measured"
    """This model was measured in this way."""
    EXTRAPOLATED = "extrapolated"
    """From measurements of other models, other settings or fewer cards."""


class MemoryPart(msgspec.Struct, frozen=True):
    """What takes memory."""

    name: str
    num_bytes: int
    basis: Basis
    source: str


class Card(msgspec.Struct, frozen=True):
    """A card, or on a CPU a process, with what it holds; equal ones are told once."""

    name: str
    count: int
    parts: tuple[MemoryPart, ...]
    start_bytes: int = 0
    """What is held for a moment while the processes start, in place of the parts."""

    @property
    def num_bytes(self) -> int:
        """The most that it holds."""
        return max(self.start_bytes, sum(part.num_bytes for part in self.parts))


class Rate(msgspec.Struct, frozen=True):
    """A speed or a duration."""

    name: str
    value: float
    unit: str
    basis: Basis
    source: str


class PlanReport(msgspec.Struct, frozen=True):
    """The memory of every card and the speed of a step."""

    recipe: str
    shape: Shape
    parameters: int
    trained_parameters: int
    dtype: str
    gpus: int
    gib: float
    cards: tuple[Card, ...]
    rates: tuple[Rate, ...]
    fits: bool
    verdict: str
    notes: tuple[str, ...]
