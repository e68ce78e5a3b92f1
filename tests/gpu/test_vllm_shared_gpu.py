"""Whole weights go from a learner on the card to a vLLM server in another process without files (CUDA IPC)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from mage.checks.servers import check_publish
from mage.engines.vllm import http_server
from mage.engines.vllm.http_server import HttpVllm
from mage.engines.vllm.server import VllmPolicyServer
from mage.engines.vllm.shared_weights import share
from mage.weights import PolicyWeights
from tests.engine_made import prompts
from tests.gpu.vllm_models import LENGTH, RANK, TOLERANCE, learner_of, model_of, settings_of
from tests.vllm.made import Server, free_port, launch, need_vllm, wait_for

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")

OPTIONS = {"tied": (), "untied": ("--enforce-eager",), "adapters": ("--lora-rank", str(RANK), "--enforce-eager")}
"""The server with the tied head captures graphs, which keep the addresses of weights."""
READER = """
import json, sys
from mage.engines.vllm.shared_weights import opened
print(opened(json.load(sys.stdin)).sum().item())
"""


@pytest.fixture(scope="module", params=OPTIONS)
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Server]]:
    """A kind of model, and its server on the same card."""
    need_vllm()
    kind, folder, port = request.param, tmp_path_factory.mktemp(request.param), free_port()
    model_of(kind).save(folder)
    options = ["--port", str(port), "--context", str(LENGTH), "--slots", "16", "--dtype", "bfloat16"]
    options += ["--gpu-memory-utilization", "0.1", *OPTIONS[kind]]
    server = launch(folder, [sys.executable, "-m", "mage.engines.vllm.serve", str(folder), *options], port, {})
    try:
        wait_for(server)
        yield kind, server
    finally:
        server.process.terminate()
        server.process.wait(60)


@pytest.fixture
def backend(started: tuple[str, Server]) -> Iterator[HttpVllm]:
    kind, server = started
    found = HttpVllm(model_of(kind), settings_of(kind), server.address)
    yield found
    found.close()


def server_of(backend: HttpVllm, kind: str) -> VllmPolicyServer:
    return VllmPolicyServer(model_of(kind), settings_of(kind), backend)


def test_another_process_reads_a_buffer_and_its_memory_is_free_after_it() -> None:
    before = torch.cuda.memory_allocated()
    buffer = torch.full((3_000_000,), 2, dtype=torch.uint8, device="cuda")
    done = subprocess.run(
        [sys.executable, "-c", READER], input=json.dumps(share(buffer)), capture_output=True, text=True
    )
    assert done.stdout.strip() == "6000000", done.stderr
    del buffer
    torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]
    assert torch.cuda.memory_allocated() == before


def test_what_was_shared_is_what_plays(
    backend: HttpVllm, started: tuple[str, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(*_: Any) -> None:
        pytest.fail("weights were written to files")

    monkeypatch.setattr(http_server, "write_weights", written)
    kind = started[0]
    check_publish(server_of(backend, kind), learner_of(kind), model_of(kind).chat_format, tolerance=TOLERANCE)


def test_shared_weights_give_the_log_probabilities_of_the_same_weights_in_files(
    backend: HttpVllm, started: tuple[str, Server]
) -> None:
    kind = started[0]
    given, server, adapter = model_of(kind), server_of(backend, kind), learner_of(kind).weights().adapter
    first = {name: tensor.clone() for name, tensor in given.model.state_dict().items()}
    second = {name: tensor + 0.1 * tensor.roll(1, -1) + 0.02 for name, tensor in first.items()}
    choices = [(token, given.chat_format.end) for token in range(40) if token != given.chat_format.end]

    async def scores(weights: dict[str, torch.Tensor]) -> list[float]:
        await server.publish("main", PolicyWeights(weights, adapter), 0)
        return list(await server.policy("main").action_logprobs(prompts(given, 1)[0], choices))

    shared = [asyncio.run(scores(weights)) for weights in (first, second)]
    before = torch.cuda.memory_allocated()
    again = asyncio.run(scores(first))
    torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]
    assert torch.cuda.memory_allocated() == before, "a publication leaves memory behind"
    assert again == pytest.approx(shared[0], abs=1e-3)
    assert backend.loader._obstacle == ""
    backend.loader._obstacle = "as files, to compare"
    files = [asyncio.run(scores(weights)) for weights in (first, second)]
    for one, other in zip(shared, files, strict=True):
        assert one == pytest.approx(other, abs=1e-3)
    assert shared[0] != pytest.approx(shared[1], abs=0.05)
