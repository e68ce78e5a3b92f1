"""What is published is what plays, on the card: graphs keep their addresses, adapters are served beside each other."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from mage.checks.learners import check_learner
from mage.checks.servers import check_policy_server, check_publish
from mage.engines.local.graph_executor import GraphExecutor
from mage.engines.local.server import LocalPolicyServer
from mage.engines.settings import EngineSettings
from mage.learners.local import LocalLearner
from mage.models.load import LoadedModel
from mage.weights import PolicyWeights
from tests.gpu.test_graph_executor import DEVICES, loaded
from tests.made import made_model, made_samples, made_settings

KINDS = {"untied": "llama", "tied": "qwen2", "merged": "llama", "adapters": "qwen3", "tied adapters": "qwen2"}
EAGER = ("learner.compile=false", "learner.lr=0.01")
LORA = ("learner.lora_rank=4",)


def copied(kind: str, device: str, dtype: torch.dtype = torch.float32) -> LoadedModel:
    """A model that may be trained."""
    found = loaded(KINDS[kind], device, dtype)
    return LoadedModel(found.name, copy.deepcopy(found.model), found.tokenizer, found.chat_format)


def server_of(given: LoadedModel, kind: str) -> LocalPolicyServer:
    num, rank = (5, 4) if "adapters" in kind else (1, 4) if kind == "merged" else (3, 0)
    return LocalPolicyServer(given, EngineSettings(512, slots=16, policies=num, adapter_rank=rank))


def learner_of(model: Any, kind: str, *overrides: str) -> LocalLearner:
    lora = LORA if kind == "merged" or "adapters" in kind else ()
    return LocalLearner(model, made_settings(*EAGER, *lora, *overrides))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_log_probabilities_are_those_of_the_published_weights(kind: str, device: str) -> None:
    given = copied(kind, device)
    server = server_of(given, kind)
    if device == "cuda" or "adapters" in kind:
        assert isinstance(server._first._executor, GraphExecutor)
    check_publish(server, learner_of(given.model, kind), given.chat_format, tolerance=5e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_adapters_in_bfloat16_are_served_beside_their_base(device: str) -> None:
    given = copied("adapters", device, torch.bfloat16)
    server = server_of(given, "adapters")
    check_publish(server, learner_of(given.model, "adapters"), given.chat_format, tolerance=0.15)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_server_keeps_the_contract(kind: str, device: str) -> None:
    learner = learner_of(copied(kind, device).model, kind)
    trained = learner.state().copied().weights
    changed = {name: tensor + 0.1 * tensor.roll(1, -1) + 0.02 for name, tensor in trained.items()}
    if kind == "tied":
        changed["lm_head.weight"] = changed["model.embed_tokens.weight"]
    weights = (learner.weights(trained), learner.weights(changed))
    chat_format = loaded(KINDS[kind], device).chat_format
    check_policy_server(lambda: server_of(copied(kind, device), kind), weights, chat_format, tolerance=5e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_engines_of_further_policies_are_where_the_first_one_is(device: str) -> None:
    """Also when the loaded model was moved away to leave its memory to a learner."""
    given = copied("untied", device)
    server = server_of(given, "untied")
    weights = PolicyWeights({name: tensor.clone() for name, tensor in given.model.state_dict().items()})
    given.model.to("cpu")
    for name in ("main", "other"):
        asyncio.run(server.publish(name, weights, 0))
    for name in ("main", "other"):
        served = server._engines[name].served.model
        assert {tensor.device.type for tensor in served.state_dict().values()} == {device}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lora", [(), LORA], ids=["full", "lora"])
def test_the_learner_keeps_the_contract(lora: tuple[str, ...], device: str, tmp_path: Path) -> None:
    def make() -> LocalLearner:
        return LocalLearner(made_model().to(device), made_settings("learner.compile=false", "learner.lr=0.001", *lora))

    # On the card sums are not taken in the same order each time, and Adam's steps are as long as the learning rate.
    check_learner(make, made_samples(), tmp_path, tolerance=0.0 if device == "cpu" else 4e-3)
