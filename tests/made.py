"""Models and samples made up on the spot, where nothing needs to be played."""

from __future__ import annotations

import math
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from mage.learners.local import LearnerSettings
from mage.learners.settings import learner_settings
from mage.models.device import with_dtype
from mage.seeds import stream
from mage.types import Phase, Sample
from tests.tiny import tiny_config

VOCABULARY = 5000
"""Large enough that rows of the head are picked."""


def made_model(dtype: torch.dtype = torch.float32, kind: type[Any] = LlamaForCausalLM, **changes: Any) -> Any:
    """A small Llama with grouped queries and tied embeddings; the same weights each time."""
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
        "pad_token_id": None,
    }
    model = kind(LlamaConfig(**{**sizes, **changes}))
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn(weight.shape, generator=generator) / math.sqrt(weight.shape[1]))
    return with_dtype(model, dtype).eval()


def made_samples(num: int = 6, length: int = 24, *, reply: int = 3, vocabulary: int = VOCABULARY) -> list[Sample]:
    """Samples of different lengths, longest first: two moves chosen from three ids, and a free reply between them."""
    samples = []
    for number in range(num):
        rng = stream(7, "made", number)
        size = length + 2 * (num - number)
        tokens = tuple(rng.randrange(vocabulary) for _ in range(size))
        start = size // 2
        free = tuple(range(start, start + reply))
        positions = (start - 3, *free, size - 1)
        choices = {p: tuple(sorted({tokens[p], 3 * number, vocabulary - 1 - number})) for p in (start - 3, size - 1)}
        allowed = tuple(choices.get(p) for p in positions)
        samples.append(
            Sample(
                tokens=tokens,
                positions=positions,
                turns=(0, *(1 for _ in free), 2),
                phases=(Phase.PLAY, *(Phase.REFLECT for _ in free), Phase.PLAY),
                logprobs=tuple(-math.log(len(ids) if ids else vocabulary) for ids in allowed),
                advantages=tuple(rng.choice((-1.0, 1.0)) for _ in positions),
                returns=tuple(rng.uniform(-1.0, 1.0) for _ in positions),
                allowed=allowed,
                version=0,
            )
        )
    return samples


def made_settings(*overrides: str) -> LearnerSettings:
    """Settings of a learner, with dotted overrides."""
    return learner_settings(tiny_config(*overrides))
