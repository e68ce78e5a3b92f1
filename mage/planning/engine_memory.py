"""Memory of an engine: its copy of the weights, the KV cache by slots and context, and room for an adapter."""

from __future__ import annotations

from mage.config.schema import Config
from mage.engines.settings import (
    CPU_CACHE_BYTES,
    CUDA_CACHE_SHARE,
    LEARNER_BYTES,
    SERVER_CONCURRENCY,
    VLLM_CPU_SLOTS,
    VLLM_CUDA_SLOTS,
    VLLM_INFERENCE_SHARE,
    VLLM_TRAINED_SHARE,
    slots_within,
)
from mage.engines.vllm.cpu_options import CPU_BYTES
from mage.errors import ConfigError
from mage.planning.figures import Basis, MemoryPart
from mage.planning.learner_memory import FLOAT32, Placement
from mage.planning.measured import GIB
from mage.planning.shapes import Shape

_FUSED = (("q_proj", "k_proj", "v_proj"), ("o_proj",), ("gate_proj", "up_proj"), ("down_proj",))
"""Layers that the engine computes as one."""


def engine_length(shape: Shape, config: Config) -> int:
    """Most tokens of a slot."""
    return min(shape.max_position_embeddings, config.agent.context)


def token_bytes(shape: Shape, where: Placement) -> int:
    """Bytes of the keys and values of one token."""
    return shape.num_hidden_layers * 2 * shape.key_width * where.number_bytes


def untied_bytes(shape: Shape, where: Placement) -> int:
    """Bytes of a model for vLLM, which gets a tied head as one of its own."""
    head = shape.vocab_size * shape.hidden_size if shape.tie_word_embeddings else 0
    return where.number_bytes * (shape.parameters + head)


def server_slots(config: Config) -> int:
    """Requests to one vLLM server at once."""
    return min(config.agent.slots or SERVER_CONCURRENCY, SERVER_CONCURRENCY)


def server_parts(shape: Shape, config: Config, where: Placement, cards: int) -> list[MemoryPart]:
    """One card's part of a vLLM server over `cards` cards; each has whole heads of the cache, at least one."""
    slots, servers, heads = server_slots(config), len(config.agent.server), shape.num_key_value_heads
    cache = token_bytes(shape, where) * slots * engine_length(shape, config) * -(-heads // cards) // heads
    each = "" if servers == 1 else f"each of {servers} servers "
    how = f"{each}over {cards} card{'s' * (cards > 1)} (--tensor-parallel-size {cards}); not tried"
    return [
        MemoryPart("server's weights", untied_bytes(shape, where) // cards, Basis.COMPUTED, how),
        MemoryPart("server's KV cache", cache, Basis.COMPUTED, f"{slots} requests at once, {how}"),
    ]


def num_slots(shape: Shape, config: Config, where: Placement, card_bytes: int, *, is_trained: bool) -> int:
    """The slots of an engine; where none are given, those that it would take on an empty card."""
    if config.agent.slots:
        return config.agent.slots
    if config.engine == "vllm":
        return VLLM_CUDA_SLOTS if where.is_cuda else VLLM_CPU_SLOTS
    per_slot = token_bytes(shape, where) * (engine_length(shape, config) + 1)
    if not where.is_cuda:
        return slots_within(CPU_CACHE_BYTES, per_slot)
    is_whole = is_trained and not config.learner.lora_rank
    reserve = LEARNER_BYTES * shape.parameters // config.learner.ranks if is_whole else 0
    free = card_bytes - where.number_bytes * shape.parameters
    return slots_within(int(CUDA_CACHE_SHARE * max(0, free - reserve)), per_slot)


def cache_bytes(shape: Shape, config: Config, where: Placement, slots: int) -> int:
    """Bytes of the KV cache. Every slot has one position more; on a GPU there is one slot more, for padding."""
    return token_bytes(shape, where) * (slots + where.is_cuda) * (engine_length(shape, config) + 1)


def adapter_bytes(shape: Shape, rank: int, where: Placement) -> int:
    """Bytes of the matrices of one adapter in an engine, for all linear layers."""
    layers = shape.linear_layers
    num = 0
    for names in _FUSED:
        width = rank * len(names)
        num += width * (layers[names[0]][0] + sum(layers[name][1] for name in names))
    return num * shape.num_hidden_layers * where.number_bytes


def vllm_parts(
    shape: Shape, config: Config, where: Placement, card_bytes: int, *, is_trained: bool
) -> list[MemoryPart]:
    """vLLM in a process: it takes a share of the card, and what its weights leave of that is the cache."""
    weights = untied_bytes(shape, where)
    cache, how = CPU_BYTES, "vLLM's on a CPU"
    if where.is_cuda:
        share = VLLM_TRAINED_SHARE if is_trained else VLLM_INFERENCE_SHARE * min(1.0, config.rollout.gpus or 1.0)
        cache, how = int(share * card_bytes) - weights, f"what the weights leave of vLLM's {share:.0%} of the card"
        least = weights + token_bytes(shape, where) * engine_length(shape, config)
        if least > share * card_bytes:
            raise ConfigError(
                f"engine = vllm: in a process it gets {share:.0%} of a card, {share * card_bytes / GIB:.1f} GiB; the "
                f"weights with the cache of one trial need {least / GIB:.1f}: take larger cards, or "
                + ("a server over several (agent.server)" if is_trained else "a larger share (rollout.gpus)")
            )
    return [
        MemoryPart("engine's weights", weights, Basis.COMPUTED, "a copy, the head apart from the embeddings"),
        MemoryPart("KV cache", cache, Basis.COMPUTED, how),
    ]


def engine_parts(shape: Shape, config: Config, where: Placement, slots: int) -> list[MemoryPart]:
    """Everything of an engine."""
    length = engine_length(shape, config)
    each = token_bytes(shape, where)
    parts = [
        MemoryPart(
            "engine's weights",
            where.number_bytes * shape.parameters,
            Basis.COMPUTED,
            f"a copy, {where.number_bytes} bytes a parameter",
        ),
        MemoryPart(
            "KV cache",
            cache_bytes(shape, config, where, slots),
            Basis.COMPUTED,
            f"{slots:,} slot{'s' * (slots > 1)} of {length:,} tokens, {each:,} bytes a token",
        ),
    ]
    rank = config.learner.lora_rank
    if rank and where.number_bytes < FLOAT32:
        how = f"matrices of rank {rank} beside the weights"
        parts.append(MemoryPart("engine's adapter", adapter_bytes(shape, rank, where), Basis.COMPUTED, how))
    if where.is_cuda:
        rows = max(4, 1 << (slots - 1).bit_length())
        num = rows * shape.vocab_size * FLOAT32
        parts.append(MemoryPart("engine's logits", num, Basis.COMPUTED, f"{rows:,} rows of {shape.vocab_size:,}"))
    return parts
