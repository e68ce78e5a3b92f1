"""Small models on the card that vLLM has kernels for, and learners for them."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch

from mage.engines.settings import EngineSettings
from mage.learners.local import LocalLearner
from mage.models.load import LoadedModel, load_model
from tests.engine_made import LLAMA, QWEN2, QWEN3
from tests.made import made_settings

LENGTH, RANK = 512, 4
SIZES = {
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": LENGTH,
}
KINDS: dict[str, Any] = {
    "tied": (*QWEN2, {"tie_word_embeddings": True}),
    "untied": (*LLAMA, {}),
    "qwen3": (*QWEN3, {"head_dim": 64}),
    "adapters": (*QWEN3, {"head_dim": 64}),
}
"""vLLM 0.22 plays Qwen3 with its second model runner. The last kind is trained with LoRA."""
TOLERANCE = 0.2
"""Of log-probabilities in bfloat16, vLLM's beside the learner's."""


@cache
def model_of(kind: str) -> LoadedModel:
    """A small random model with heads of 64 numbers."""
    make_config, make_model, more = KINDS[kind]
    base = load_model("nano(words=[20])", seed=7, worlds=("rps", "kuhn_poker", "tic_tac_toe"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = make_model(make_config(vocab_size=len(base.tokenizer), **SIZES, **more)).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.normal_(0.0, 0.08) if weight.dim() > 1 else None
    return LoadedModel(kind, model.to("cuda", torch.bfloat16), base.tokenizer, base.chat_format)


def rank_of(kind: str) -> int:
    return RANK if kind == "adapters" else 0


def settings_of(kind: str) -> EngineSettings:
    """For a tenth of the card, where the engine runs in this process."""
    return EngineSettings(LENGTH, slots=16, adapter_rank=rank_of(kind), card_share=0.25)


def learner_of(kind: str) -> LocalLearner:
    lora = f"learner.lora_rank={rank_of(kind)}"
    return LocalLearner(
        copy.deepcopy(model_of(kind).model), made_settings("learner.compile=false", "learner.lr=0.01", lora)
    )
