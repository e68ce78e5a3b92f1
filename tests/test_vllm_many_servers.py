"""Several vLLM servers in one run: what is published reaches all and is checked on all. vLLM need not be there."""

from __future__ import annotations

import asyncio
import copy
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mage.checks.servers import check_policy_server, check_publish
from mage.engines.settings import EngineSettings
from mage.engines.vllm.http_server import HttpVllm
from mage.engines.vllm.make import vllm_server
from mage.engines.vllm.many_servers import ManyServers, open_servers
from mage.engines.vllm.server import VllmPolicyServer
from mage.errors import ConfigError, EngineError
from mage.learners.local import LocalLearner
from mage.protocols import Sampling
from mage.types import Completion
from mage.weights import PolicyWeights
from tests.engine_made import choices, nano, prompts
from tests.made import made_settings
from tests.vllm_stub import LENGTH, Stub, stubs

Two = tuple[Stub, Stub]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    with stubs(nano(), tmp_path / "model", 2) as found:
        yield found[0], found[1]


def settings_of(*addresses: str) -> EngineSettings:
    return EngineSettings(LENGTH, servers=addresses)


def server_of(two: Two) -> VllmPolicyServer:
    return vllm_server(nano(), settings_of(*(stub.address for stub in two)))


def weights_of(seed: int) -> PolicyWeights:
    """The weights of the model, changed by a seed; 0 leaves them."""
    torch.manual_seed(seed)
    found = {name: tensor + 0.1 * seed * torch.randn_like(tensor) for name, tensor in nano().model.state_dict().items()}
    if "lm_head.weight" in found and nano().model.config.tie_word_embeddings:
        found["lm_head.weight"] = found["model.embed_tokens.weight"]
    return PolicyWeights(found)


async def texts(server: VllmPolicyServer, num: int) -> list[Completion]:
    engine = server.policy("main")
    asked = enumerate(prompts(nano(), num))
    return list(await asyncio.gather(*(engine.complete(ids, Sampling(1.0, 4, seed), None) for seed, ids in asked)))


def test_the_contract_is_kept(two: Two) -> None:
    settings = settings_of(*(stub.address for stub in two))
    both = ManyServers(open_servers(nano(), settings))
    weights = weights_of(0), weights_of(1)
    check_policy_server(lambda: VllmPolicyServer(nano(), settings, both), weights, nano().chat_format)
    both.close()
    few, many = sorted(len(stub.prompts) for stub in two)
    assert few > 0.3 * many


def test_what_all_play_is_what_the_learner_says(two: Two) -> None:
    learner = LocalLearner(copy.deepcopy(nano().model), made_settings("learner.lr=0.01"))
    check_publish(server_of(two), learner, nano().chat_format, tolerance=1e-4)


def test_weights_are_written_once_and_read_by_all(two: Two) -> None:
    server = server_of(two)
    for number in (0, 1):
        asyncio.run(server.publish("main", weights_of(number), number))
    assert two[0].folders == two[1].folders
    assert len(two[0].folders) == 2
    assert not Path(two[0].folders[0]).exists()
    assert server.metrics()["requests"] == 4, "each publication is checked on each server"


@pytest.mark.parametrize("deaf", [0, 1])
def test_the_server_that_plays_with_other_weights_is_named(two: Two, deaf: int) -> None:
    server = server_of(two)
    asyncio.run(server.publish("main", weights_of(0), 0))
    two[deaf].is_deaf = True
    said = f"^the vLLM server at {two[deaf].address} does not play with the weights that were published for 'main'"
    with pytest.raises(EngineError, match=said):
        asyncio.run(server.publish("main", weights_of(1), 1))
    with pytest.raises(EngineError, match="no policy 'main' was published"):
        asyncio.run(texts(server, 1))


@pytest.mark.parametrize("dead", [0, 1])
def test_a_server_that_dies_is_named(two: Two, dead: int) -> None:
    server = server_of(two)
    asyncio.run(server.publish("main", weights_of(0), 0))
    two[dead].shutdown()
    two[dead].server_close()
    gone = f"^the vLLM server at {two[dead].address} is gone: "
    with pytest.raises(EngineError, match=gone):
        asyncio.run(texts(server, 4))
    with pytest.raises(EngineError, match=gone):
        asyncio.run(server.publish("main", weights_of(1), 1))


def test_a_server_that_dies_while_it_is_looked_at_is_named(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise ConnectionAbortedError  # the connection is closed without an answer

    monkeypatch.setattr(two[1], "info", gone)
    monkeypatch.setattr(two[1], "handle_error", lambda *_: None)
    said = f"^agent.server = {two[1].address}: it does not answer /server_info \\(RemoteProtocolError\\)$"
    with pytest.raises(ConfigError, match=said):
        server_of(two)


def test_requests_are_shared_and_a_longer_prompt_goes_where_it_was_read(two: Two) -> None:
    server = server_of(two)
    opening = prompts(nano(), 1)[0]
    asked = [(*opening, *(number,) * 32) for number in range(8)]

    async def play() -> None:
        await server.publish("main", weights_of(0), 0)
        engine, options = server.policy("main"), choices(nano(), "rock", "paper")
        for prompts_in_turn in (asked, [(*ids, *(5,) * 20) for ids in reversed(asked)]):
            calls = (engine.complete(ids, Sampling(1.0, 4, 0), options) for ids in prompts_in_turn)
            await asyncio.gather(*calls)
        for number in range(8):  # one trial goes on alone
            await engine.complete((*asked[3], *(6,) * 8 * number), Sampling(1.0, 4, 0), options)

    asyncio.run(play())
    length = len(asked[0])
    played = [{ids[:length] for ids in stub.prompts if ids[: len(opening)] == opening} for stub in two]
    assert [len(found) for found in played] == [4, 4], "each trial is on one server"
    assert played[0] | played[1] == set(asked)


@pytest.fixture
def no_collection() -> Iterator[None]:
    """What is free is so by itself, not because the garbage was collected."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_all_are_locked_and_free_again_where_one_is_refused(two: Two) -> None:
    first, second = (stub.address for stub in two)
    both = ManyServers(open_servers(nano(), settings_of(first, second)))
    for stub in two:
        with pytest.raises(ConfigError, match=f"agent.server = {stub.address}: another run uses it"):
            vllm_server(nano(), settings_of(stub.address))
    both.close()
    held = HttpVllm(nano(), settings_of(), second)
    with pytest.raises(ConfigError, match=f"agent.server = {second}: another run uses it"):
        server_of(two)
    HttpVllm(nano(), settings_of(), first).close()
    held.close()
    with pytest.raises(ConfigError, match=f"agent.server = {first}/: it is named twice"):
        vllm_server(nano(), settings_of(first, f"{first}/"))


def test_another_spelling_of_an_address_is_the_same_server(two: Two) -> None:
    held = HttpVllm(nano(), settings_of(), two[0].address)
    local = two[0].address.replace("127.0.0.1", "localhost")
    with pytest.raises(ConfigError, match=f"agent.server = {local}: another run uses it"):
        HttpVllm(nano(), settings_of(), local)
    held.close()
