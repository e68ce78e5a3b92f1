"""vLLM in this process on the card: what was published is what plays, and none of the allowed ids is lost."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from math import exp
from pathlib import Path

import pytest
import torch

from mage.checks.servers import check_publish
from mage.engines.vllm.in_process import InProcessVllm
from mage.engines.vllm.server import VllmPolicyServer
from mage.protocols import Sampling
from mage.types import Completion
from mage.weights import PolicyWeights
from tests.engine_made import Ids, choices, plain_logprobs, prompts
from tests.gpu.vllm_models import TOLERANCE, learner_of, model_of, settings_of
from tests.ray_made import need_ray
from tests.vllm.made import need_vllm

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")

NUM_IDS = 40
"""Allowed ids of a decision."""
RUN = (
    *("world=rps(rounds=2)", "population.split=", "population.members=[always:rock]", "trial.episodes=2"),
    *("batch.groups=4", "batch.size=4", "evaluation.splits=[population]", "evaluation.final_trials=2", "steps=2"),
    *("agent.model=nano(heads=2,words=[20])", "agent.context=256", "agent.slots=16", "learner.compile=false"),
    *("device=cuda", "dtype=bfloat16", "engine=vllm"),
)


DROPPED = """
import asyncio, gc, torch, weakref
from mage.engines.vllm.in_process import InProcessVllm
from mage.engines.vllm.server import VllmPolicyServer
from mage.protocols import Sampling
from tests.gpu.vllm_models import learner_of, model_of, settings_of

def play(kind):
    server = VllmPolicyServer(model_of(kind), settings_of(kind), InProcessVllm(model_of(kind), settings_of(kind)))
    asyncio.run(server.publish("main", learner_of(kind).weights(), 0))
    asyncio.run(server.policy("main").complete((5, 6), Sampling(1.0, 4, 0), None))
    layers = server._backend._engine.collective_rpc(lambda worker: [*worker.model_runner.get_model().modules()])[0]
    return [weakref.ref(layer) for layer in layers]

def free():
    gc.unfreeze()
    gc.collect()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0] / 2**30

torch.zeros(1, device="cuda")
print("free", free())
for kind in ("untied", "qwen3", "untied"):
    layers = play(kind)
    print("free", free(), sum(layer() is not None for layer in layers), "of", len(layers))
"""


def test_the_memory_of_engines_that_were_dropped_is_free_again() -> None:
    """Each takes a tenth of the card; libraries and workspaces stay."""
    need_vllm()
    done = subprocess.run([sys.executable, "-c", DROPPED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("free")]
    before, *after = [float(line[1]) for line in lines]
    assert len(after) == 3
    assert min(after) > before - 2.0, f"GiB free before, and after each engine: {before}, {after}"
    assert [line[2] for line in lines[1:]] == ["0"] * 3, f"layers of each engine that are alive: {lines}"


@pytest.fixture(scope="module", params=["untied", "qwen3", "adapters"])
def started(request: pytest.FixtureRequest) -> tuple[str, InProcessVllm]:
    """A kind of model, and vLLM for it in this process."""
    need_vllm()
    return request.param, InProcessVllm(model_of(request.param), settings_of(request.param))


@pytest.fixture
def server(started: tuple[str, InProcessVllm]) -> VllmPolicyServer:
    kind, backend = started
    return VllmPolicyServer(model_of(kind), settings_of(kind), backend)


@pytest.fixture
def kind(started: tuple[str, InProcessVllm]) -> str:
    return started[0]


def published(server: VllmPolicyServer, kind: str) -> None:
    asyncio.run(server.publish("main", learner_of(kind).weights(), 0))


def test_what_vllm_plays_is_what_the_learner_says(server: VllmPolicyServer, kind: str) -> None:
    check_publish(server, learner_of(kind), model_of(kind).chat_format, tolerance=TOLERANCE)


def test_all_allowed_ids_are_scored_when_many_are_asked_at_once(server: VllmPolicyServer, kind: str) -> None:
    loaded, asked = model_of(kind), prompts(model_of(kind), 64)
    end = loaded.chat_format.end
    options = [(token, end) for token in range(NUM_IDS + 1) if token != end][:NUM_IDS]
    published(server, kind)

    async def play() -> list[tuple[float, ...]]:
        engine = server.policy("main")
        return list(await asyncio.gather(*(engine.action_logprobs(ids, options) for ids in asked)))

    for ids, found in zip(asked, asyncio.run(play()), strict=True):
        allowed = tuple(token for token, _ in options)
        read = [
            plain_logprobs(loaded.model, ids, Completion((token,), (0.0,), (allowed,), 0, False), 1.0)[0]
            for token in allowed
        ]
        assert sum(map(exp, found)) == pytest.approx(1.0, abs=1e-4)
        assert list(found) == pytest.approx(read, abs=TOLERANCE)


@pytest.mark.parametrize("is_free", [False, True], ids=["choices", "texts"])
def test_log_probabilities_are_those_of_a_plain_pass(server: VllmPolicyServer, kind: str, is_free: bool) -> None:
    loaded, asked = model_of(kind), prompts(model_of(kind), 64)
    options = None if is_free else choices(loaded, "bet", "bet 2", "pass", "rock")
    published(server, kind)

    async def play() -> list[Completion]:
        engine = server.policy("main")
        calls = [engine.complete(ids, Sampling(0.7, 8, seed), options) for seed, ids in enumerate(asked)]
        return list(await asyncio.gather(*calls))

    replies = asyncio.run(play())
    assert len({reply.tokens for reply in replies}) > 2
    for ids, reply in zip(asked, replies, strict=True):
        assert is_free or reply.tokens in (options or ())
        assert list(reply.logprobs) == pytest.approx(plain_logprobs(loaded.model, ids, reply, 0.7), abs=TOLERANCE)


def test_a_base_that_is_another_one_is_published_below_the_adapters(server: VllmPolicyServer, kind: str) -> None:
    first = learner_of(kind).weights()
    other = {name: tensor + 0.1 * tensor.roll(1, -1) for name, tensor in first.model.items()}
    asked: Ids = prompts(model_of(kind), 1)[0]
    options = choices(model_of(kind), "bet", "pass", "rock")

    async def scores(weights: PolicyWeights) -> tuple[float, ...]:
        await server.publish("main", weights, 0)  # compared with a plain pass
        return await server.policy("main").action_logprobs(asked, options)

    found = [asyncio.run(scores(weights)) for weights in (first, PolicyWeights(other, first.adapter), first)]
    assert found[2] == pytest.approx(found[0], abs=1e-3)
    assert found[1] != pytest.approx(found[0], abs=0.02)


def test_an_engine_plays_on_when_another_one_has_started() -> None:
    need_vllm()
    kinds = ("untied", "tied")
    asked = prompts(model_of("untied"), 8)
    servers: list[VllmPolicyServer] = []

    async def texts() -> list[tuple[int, ...]]:
        engine = servers[0].policy("main")
        calls = [engine.complete(ids, Sampling(0.0, 8, seed), None) for seed, ids in enumerate(asked)]
        return [reply.tokens for reply in await asyncio.gather(*calls)]

    found: list[list[tuple[int, ...]]] = []
    for kind in kinds:
        servers.append(
            VllmPolicyServer(model_of(kind), settings_of(kind), InProcessVllm(model_of(kind), settings_of(kind)))
        )
        published(servers[-1], kind)
        found.append(asyncio.run(texts()))
    assert found[0] == found[1]


@pytest.mark.parametrize(("workers", "lora"), [(0, 0), (2, 4)])
def test_a_run_trains(workers: int, lora: int, tmp_path: Path) -> None:
    need_vllm()
    more = [f"learner.lora_rank={lora}"]
    if workers:
        need_ray()
        more += [f"rollout.workers={workers}", "rollout.gpus=0.2"]
    command = ["-c", "from mage.cli import main; main()", "train", "rps", *RUN, *more, "--run", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert {line["step"] for line in metrics} == {1, 2}
    gaps = [line["gap/mean_difference"] for line in metrics if "gap/mean_difference" in line]
    assert len(gaps) == 2
    assert max(gaps) < TOLERANCE
