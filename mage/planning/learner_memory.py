"""Memory of a learner: weights, master weights, gradients, optimizer, LoRA, and the activations of a micro-batch."""

from __future__ import annotations

from math import log
from typing import NamedTuple

from mage.config.sections import LearnerConfig
from mage.errors import ConfigError, listing
from mage.planning.figures import Basis, MemoryPart
from mage.planning.measured import GIB, Learning, measured
from mage.planning.shapes import Shape
from mage.types import Divergence

FLOAT32, BFLOAT16 = 4, 2
MOMENTS = 2 * FLOAT32
"""Bytes of AdamW for a trained parameter."""


class Placement(NamedTuple):
    """Where a model is trained, and in which numbers."""

    is_cuda: bool
    number_bytes: int
    """Bytes of a number of the model."""


def lora_parameters(shape: Shape, config: LearnerConfig) -> int:
    """Parameters of the adapter; 0 without one."""
    layers = shape.linear_layers
    targets = config.lora_targets
    names = list(layers) if targets == "all-linear" else [name.rsplit(".", 1)[-1] for name in targets]
    for name in names:
        if name not in layers:
            raise ConfigError(f"learner.lora_targets: {name!r} cannot be planned for; known: {listing(layers)}")
    each = sum(sum(layers[name]) for name in names)
    return config.lora_rank * each * shape.num_hidden_layers


def trained_parameters(shape: Shape, config: LearnerConfig) -> int:
    """Parameters that are updated."""
    return lora_parameters(shape, config) if config.lora_rank else shape.parameters


def state_parts(shape: Shape, config: LearnerConfig, where: Placement) -> list[MemoryPart]:
    """Everything of a learner but activations, on one rank of `config.ranks`."""
    ranks, number, rounded = config.ranks, where.number_bytes, where.number_bytes < FLOAT32
    sharded = f", over {ranks} ranks" if ranks > 1 else ""
    # The shards of several ranks are float32, and so are their own master weights.
    trained = FLOAT32 if ranks > 1 else number
    master = FLOAT32 if rounded and ranks == 1 else 0

    def part(name: str, num_bytes: int, how: str) -> MemoryPart:
        return MemoryPart(name, num_bytes, Basis.COMPUTED, how + sharded)

    if config.lora_rank:
        num = lora_parameters(shape, config)
        each = trained + master + FLOAT32 + MOMENTS
        parts = [
            part("weights", number * shape.parameters // ranks, f"{number} bytes a parameter, frozen"),
            part("LoRA", each * num // ranks, f"{each} bytes for each of {num:,} parameters: weight, gradient, AdamW"),
        ]
    else:
        num = shape.parameters
        parts = [part("weights", trained * num // ranks, f"{trained} bytes a parameter")]
        if master:
            parts.append(part("master weights", master * num // ranks, f"{master} bytes a parameter, float32"))
        parts.append(part("gradients", FLOAT32 * num // ranks, f"{FLOAT32} bytes a parameter, float32"))
        parts.append(part("optimizer", MOMENTS * num // ranks, f"{MOMENTS} bytes a parameter: two moments of AdamW"))
        if config.divergence is not Divergence.NONE:
            parts.append(part("reference model", number * num // ranks, "a frozen copy, for learner.divergence"))
    if ranks > 1:
        parts.append(_gathered(shape, where, is_trained=not config.lora_rank))
    return parts


def _gathered(shape: Shape, where: Placement, *, is_trained: bool) -> MemoryPart:
    """What a rank holds in full for a moment: two decoder layers and the embeddings."""
    whole = where.number_bytes * (2 * shape.layer_parameters + shape.embedding_parameters)
    gradients = FLOAT32 * (shape.layer_parameters + shape.embedding_parameters) if is_trained else 0
    how = "two layers and the embeddings in full, with gradients; not checked on GPUs"
    return MemoryPart("gathered weights", whole + gradients, Basis.COMPUTED, how)


def is_compiled(config: LearnerConfig, where: Placement) -> bool:
    """Whether decoder layers are compiled."""
    return config.ranks == 1 and (where.is_cuda if config.compile == "auto" else config.compile)


def nearest(shape: Shape, config: LearnerConfig, where: Placement) -> tuple[Learning, bool]:
    """The measurement that is most like a learner, and whether it is of just that."""
    compiled = is_compiled(config, where)

    def distance(one: Learning) -> tuple[bool, bool, float]:
        apart = abs(log(one.model.parameters / shape.parameters))
        return (one.lora_rank > 0) is not (config.lora_rank > 0), one.compiled is not compiled, apart

    found = min(measured().learning, key=distance)
    is_same = where.is_cuda and where.number_bytes == BFLOAT16 and config.ranks == 1
    is_same &= (found.lora_rank, found.compiled) == (config.lora_rank, compiled)
    is_same &= found.model.parameters == shape.parameters and config.lora_targets == "all-linear"
    return found, is_same and not config.gradient_checkpointing


def activation_width(shape: Shape) -> int:
    """Numbers of one position in one layer that a gradient needs, about: what the layer's parts take and give."""
    return 2 * shape.hidden_size + 2 * shape.query_width + 2 * shape.key_width + 3 * shape.intermediate_size


def measured_activation_bytes(one: Learning) -> float:
    """Bytes for each number of `activation_width` in a measurement: its peak without weights, gradients, optimizer."""
    shape = one.model
    each = BFLOAT16 + FLOAT32 + FLOAT32 + MOMENTS
    config = LearnerConfig(lora_rank=one.lora_rank)
    kept = (
        BFLOAT16 * shape.parameters + each * lora_parameters(shape, config)
        if one.lora_rank
        else each * shape.parameters
    )
    return (one.peak_gib * GIB - kept) / (one.token_budget * shape.num_hidden_layers * activation_width(shape))


def position_bytes(shape: Shape, config: LearnerConfig, where: Placement) -> float:
    """Bytes of the activations of one position."""
    one, _ = nearest(shape, config, where)
    layer = measured_activation_bytes(one) * where.number_bytes / BFLOAT16 * activation_width(shape)
    if config.gradient_checkpointing:
        return shape.num_hidden_layers * where.number_bytes * shape.hidden_size + layer
    return shape.num_hidden_layers * layer


def activation_part(shape: Shape, config: LearnerConfig, where: Placement, positions: int) -> MemoryPart:
    """The activations of a micro-batch of so many positions."""
    one, is_same = nearest(shape, config, where)
    num_bytes = int(positions * position_bytes(shape, config, where))
    # When they are freed, gradients in bfloat16 have taken their place.
    gradients = where.number_bytes * trained_parameters(shape, config) if where.number_bytes < FLOAT32 else 0
    basis = Basis.MEASURED if is_same and positions == one.token_budget else Basis.EXTRAPOLATED
    kept = ", inputs of layers alone (gradient_checkpointing, not measured)" if config.gradient_checkpointing else ""
    what = f"{positions:,} positions, from the peak of {one.text}{kept}"
    return MemoryPart("activations", max(num_bytes, gradients // config.ranks), basis, what)
