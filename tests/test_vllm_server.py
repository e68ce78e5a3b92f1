"""The policy server on a vLLM that fails: what it does afterwards. vLLM need not be there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from mage.engines.settings import EngineSettings
from mage.engines.vllm.backend import LoadedAdapter
from mage.engines.vllm.requests import VllmAnswer, VllmRequest
from mage.engines.vllm.server import VllmPolicyServer
from mage.errors import EngineError
from mage.protocols import Sampling
from mage.types import Completion
from mage.weights import LowRank, PolicyWeights
from tests.engine_made import nano, prompts

SETTINGS = EngineSettings(64, adapter_rank=1)


class Failing:
    """A backend that is not checked. While `fails` it loads no base, and its first request is not answered."""

    length = 64
    has_base = False

    def __init__(self) -> None:
        self.fails = True
        self.loaded: list[str] = []
        self.num_asked = self.num_answering = 0

    async def generate(self, request: VllmRequest) -> VllmAnswer:
        self.num_asked += 1
        if self.fails and self.num_asked == 1:
            raise EngineError("the server is gone")
        self.num_answering += 1
        try:
            await asyncio.sleep(0.01)
            return VllmAnswer((0,), (dict.fromkeys(request.params["logprob_token_ids"], -1.0),))
        finally:
            self.num_answering -= 1

    async def generate_on_each(self, request: VllmRequest) -> Mapping[str, VllmAnswer]:
        return {}

    async def load_model(self, weights: Mapping[str, Tensor]) -> None:
        self.loaded.append("base")
        if self.fails:
            raise EngineError("the server is gone")

    async def load_adapter(self, adapter: LoadedAdapter) -> None:
        self.loaded.append("adapter")

    async def drop_adapter(self, adapter: LoadedAdapter) -> None: ...


def weights() -> PolicyWeights:
    model = nano().model.state_dict()
    name = next(name for name in model if name.endswith("q_proj.weight"))
    rows, columns = model[name].shape
    return PolicyWeights(
        model, {name.removesuffix(".weight"): LowRank(torch.zeros(1, columns), torch.zeros(rows, 1), 1.0)}
    )


def test_a_base_that_could_not_be_loaded_is_sent_again() -> None:
    backend = Failing()
    server = VllmPolicyServer(nano(), SETTINGS, backend)
    with pytest.raises(EngineError, match="the server is gone"):
        asyncio.run(server.publish("main", weights(), 0))
    backend.fails = False
    for version in (1, 2):
        asyncio.run(server.publish("main", weights(), version))
    assert backend.loaded == ["base", "base", "adapter", "adapter"]


def test_where_a_request_for_scores_fails_none_of_the_others_is_in_flight() -> None:
    """A publication that follows would load weights below them."""
    backend = Failing()
    server = VllmPolicyServer(nano(), SETTINGS, backend)
    backend.fails = False

    async def score() -> int:
        await server.publish("main", weights(), 0)
        backend.fails = True
        with pytest.raises(EngineError, match="the server is gone"):
            await server.action_logprobs("main", prompts(nano(), 1)[0], [(1, 2), (1, 3), (4, 5), (4, 6)], 1.0)
        return backend.num_answering

    assert asyncio.run(score()) == 0


class Scoring(Failing):
    """A backend that gives a next id the log-probability of its number, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False
        self.asked: list[Mapping[str, Any]] = []
        self.left_out = -1

    async def generate(self, request: VllmRequest) -> VllmAnswer:
        self.asked.append(request.params)
        ids = [token for token in request.params["logprob_token_ids"] if token != self.left_out]
        return VllmAnswer((3,), ({3: _logprob(3), **{token: _logprob(token) for token in ids}},))


def _logprob(token: int) -> float:
    return -5.0 - token % 7


def test_more_ids_than_vllm_names_are_asked_for_in_parts_and_without_its_mask() -> None:
    backend = Scoring()
    server = VllmPolicyServer(nano(), SETTINGS, backend)
    ids = range(5, 305)

    async def score() -> list[float]:
        await server.publish("main", weights(), 0)
        choices = [(token, 1) for token in ids]
        return list(await server.action_logprobs("main", prompts(nano(), 1)[0], choices, 0.5))

    wide = asyncio.run(score())
    assert wide == pytest.approx(
        (2 * torch.tensor([_logprob(token) for token in ids])).log_softmax(0).tolist(), abs=1e-5
    )
    assert [len(params["logprob_token_ids"]) for params in backend.asked] == [128, 128, 47]
    assert {token for params in backend.asked for token in params["logprob_token_ids"]} == set(ids)
    assert not any("allowed_token_ids" in params for params in backend.asked)


def test_an_id_that_vllm_leaves_out_is_an_error_and_never_an_impossible_choice() -> None:
    backend = Scoring()
    server = VllmPolicyServer(nano(), SETTINGS, backend)

    async def play(left_out: int) -> Completion:
        await server.publish("main", weights(), 0)
        backend.left_out = left_out
        return await server.complete("main", prompts(nano(), 1)[0], Sampling(1.0, 4, 0), [(4, 1), (5, 1), (6, 1)])

    assert asyncio.run(play(-1)).tokens in [(4, 1), (5, 1), (6, 1)]
    with pytest.raises(EngineError, match="vLLM gave no log-probability for 1 of the 3 ids that it was asked for"):
        asyncio.run(play(5))
