"""The policy server on a vLLM that fails or ignores publications: what it does. vLLM need not be there."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from math import pi, sqrt
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mage.engines.settings import EngineSettings
from mage.engines.vllm.backend import LoadedAdapter
from mage.engines.vllm.make import vllm_server
from mage.engines.vllm.probe import Probe
from mage.engines.vllm.requests import VllmAnswer, VllmRequest
from mage.engines.vllm.server import VllmPolicyServer
from mage.errors import ConfigError, EngineError
from mage.learners.local import LocalLearner
from mage.models.load import LoadedModel, load_model
from mage.protocols import Sampling
from mage.types import Completion
from mage.weights import LowRank, PolicyWeights
from tests.engine_made import nano, prompts
from tests.made import made_samples, made_settings
from tests.vllm_stub import LENGTH, stubs

SETTINGS = EngineSettings(64, adapter_rank=1)


class Failing:
    """A backend that is not checked. While `fails` it loads no base, and its first request is not answered."""

    length = 64

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


def rounded() -> LoadedModel:
    return load_model("nano", seed=0, worlds=("rps", "kuhn_poker"), dtype="bfloat16")


def learner_of(loaded: LoadedModel, rate: str) -> LocalLearner:
    return LocalLearner(copy.deepcopy(loaded.model), made_settings(f"learner.lr={rate}"))


@pytest.mark.parametrize(("rate", "noise", "most"), [("0.001", 0.0, 20), ("0.001", 0.03, 20), ("0.01", 0.03, 2)])
def test_in_bfloat16_a_server_that_ignores_publications_is_noticed(
    rate: str, noise: float, most: int, tmp_path: Path
) -> None:
    loaded = rounded()
    learner = learner_of(loaded, rate)
    samples = made_samples(7, vocabulary=loaded.model.config.vocab_size)
    with stubs(loaded, tmp_path, 1) as (stub,):
        stub.noise = noise
        server = vllm_server(loaded, EngineSettings(LENGTH, servers=(stub.address,)))
        asyncio.run(server.publish("main", learner.weights(), 0))
        stub.is_deaf = True

        def learn() -> None:
            for version in range(1, most + 1):
                learner.update(samples)
                asyncio.run(server.publish("main", learner.weights(), version))

        with pytest.raises(EngineError, match=r"not play with .* 'main': log-probabilities show -?\d% of what has"):
            learn()


class Rounding(Failing):
    """A backend that plays with what it gets, rounded as `noise` says."""

    noise = 0.05

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__()
        self.model = copy.deepcopy(loaded.model)
        self.draw = torch.Generator().manual_seed(1)

    async def load_model(self, weights: Mapping[str, Tensor]) -> None:
        self.model.load_state_dict(weights)

    @torch.no_grad()
    async def generate_on_each(self, request: VllmRequest) -> Mapping[str, VllmAnswer]:
        logits_V = self.model(torch.tensor([request.prompt])).logits[0, -1].float()
        logits_V += self.noise * sqrt(pi / 2) * torch.randn(logits_V.shape, generator=self.draw)
        found = logits_V.log_softmax(0).tolist()
        return {"vLLM": VllmAnswer((0,), ({token: found[token] for token in request.params["logprob_token_ids"]},))}


def test_in_bfloat16_rounding_is_never_taken_for_old_weights() -> None:
    """Publications that change nothing, little or much, on a vLLM with more rounding than was measured."""
    loaded = rounded()
    server = VllmPolicyServer(loaded, EngineSettings(64), Rounding(loaded))
    draw = torch.Generator().manual_seed(0)
    exact = {name: tensor.float() for name, tensor in loaded.model.state_dict().items()}
    for version in range(300):
        rate = (0.0, 0.0003, 0.003, 0.03)[version % 4]
        for tensor in exact.values():
            tensor += rate * tensor.std() * torch.randn(tensor.shape, generator=draw)
        exact["lm_head.weight"] = exact["model.embed_tokens.weight"]
        weights = PolicyWeights({name: tensor.bfloat16() for name, tensor in exact.items()})
        asyncio.run(server.publish("main", weights, version))
    assert server.metrics()["requests"] == 300, "one request a publication"


def test_what_a_probe_takes_for_clear() -> None:
    """Rounding of the plain pass alone, with none in vLLM's, decides nothing; a change beside it does."""
    probe = Probe(rounded())
    draw = torch.Generator().manual_seed(0)
    shape = (len(probe.prompts), len(probe.allowed))

    def normal(size: float) -> torch.Tensor:
        return size * torch.randn(shape, generator=draw, dtype=torch.float64)

    def answer(logits_BK: torch.Tensor) -> list[dict[int, float]]:
        return [dict(zip(probe.allowed, row, strict=True)) for row in (logits_BK - 3.0).tolist()]

    exact_BK = normal(1.0)
    for rounding in (0.02, 0.1, 0.3):
        probe.accept(f"{rounding}", exact_BK + normal(rounding), [])
        assert probe.share(f"{rounding}", exact_BK + normal(rounding), answer(exact_BK)) is None
        changed_BK = exact_BK + normal(6 * rounding)
        new, old = (probe.share(f"{rounding}", changed_BK, answer(each)) for each in (changed_BK, exact_BK))
        assert new == pytest.approx(1.0, abs=0.1)
        assert old == pytest.approx(0.0, abs=0.1)
        probe.accept(f"{rounding}", changed_BK, [new, None])
        assert probe.share(f"{rounding}", changed_BK, answer(changed_BK)) is not None
        probe.accept(f"{rounding}", changed_BK, [new])
        assert probe.share(f"{rounding}", changed_BK, answer(changed_BK)) is None


@pytest.mark.parametrize("version", ["0.22.1", "0.28.0"])
def test_an_older_server_without_our_extension_is_refused_for_adapters(version: str, tmp_path: Path) -> None:
    with stubs(nano(), tmp_path, 1) as (stub,):
        stub.version, stub.adapters = version, {"max_loras": 1, "max_lora_rank": 8}
        vllm_server(nano(), EngineSettings(LENGTH, servers=(stub.address,)))._backend.close()  # type: ignore[attr-defined]
        given = EngineSettings(LENGTH, adapter_rank=4, servers=(stub.address,))
        if version == "0.28.0":
            assert vllm_server(nano(), given).limits.policies == 1
            return
        with pytest.raises(
            ConfigError, match=r"vLLM 0\.22 cannot load the weights below adapters without --worker-ext"
        ):
            vllm_server(nano(), given)
