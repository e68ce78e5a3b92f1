"""Models that vLLM can serve on a CPU, learners for them, and servers in processes of their own."""

from __future__ import annotations

import copy
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import torch
from transformers import LlamaForCausalLM

from mage.engines.settings import EngineSettings
from mage.engines.vllm.server_command import server_command
from mage.engines.vllm.shared_weights import EXTENSION
from mage.learners.local import LocalLearner
from mage.models.load import LoadedModel, load_model
from mage.weights import PolicyWeights
from tests.engine_made import sharpened
from tests.made import made_settings
from tests.vllm import file_sharing

KINDS = ("tied", "untied", "adapters")
"""Whole models with a tied head and with one of its own, and LoRA."""
MODEL = "nano(heads=2,words=[20])"
LENGTH, RANK, PLACES = 256, 4, 5
SMALL = (f"agent.model={MODEL}", "agent.context=256", "agent.slots=16")
"""Settings of runs."""
TOLERANCE = 1e-5
"""Of log-probabilities and weights."""
_START_S = 400
_LOG = "server.log"


def need_vllm() -> None:
    """Skip the test where vLLM is not installed; fail where it must be."""
    if find_spec("vllm") is None:
        reason = "vLLM is not installed: make test-vllm runs this in an environment with it"
        if os.environ.get("MAGE_VLLM_TESTS") == "required":
            pytest.fail(f"MAGE_VLLM_TESTS=required, but {reason}", pytrace=False)
        pytest.skip(reason)


@cache
def model_of(kind: str) -> LoadedModel:
    """A model with heads of a size that vLLM has a CPU kernel for; its weights are the same each time."""
    tied = load_model(MODEL, seed=7, worlds=("rps", "kuhn_poker", "tic_tac_toe"))
    if kind != "untied":
        return sharpened(tied)
    config = copy.deepcopy(tied.model.config)
    config.tie_word_embeddings = False
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model: Any = LlamaForCausalLM(config)  # type: ignore[no-untyped-call]
    return sharpened(LoadedModel("untied", model.eval(), tied.tokenizer, tied.chat_format))


def settings_of(kind: str, *servers: str) -> EngineSettings:
    num, rank = (PLACES, RANK) if kind == "adapters" else (1, 0)
    return EngineSettings(LENGTH, slots=16, policies=num, adapter_rank=rank, servers=servers)


def learner_of(kind: str, *overrides: str) -> LocalLearner:
    lora = (f"learner.lora_rank={RANK}",) if kind == "adapters" else ()
    return LocalLearner(copy.deepcopy(model_of(kind).model), made_settings("learner.lr=0.01", *lora, *overrides))


def two_weights(kind: str) -> tuple[PolicyWeights, PolicyWeights]:
    """The weights of two policies of one learner."""
    learner = learner_of(kind)
    trained = learner.state().copied().weights
    changed = {name: tensor + 0.1 * tensor.roll(1, -1) + 0.02 for name, tensor in trained.items()}
    if "lm_head.weight" in trained and kind == "tied":
        changed["lm_head.weight"] = changed["model.embed_tokens.weight"]
    return learner.weights(trained), learner.weights(changed)


class Server(NamedTuple):
    """A vLLM server in a process of its own."""

    address: str
    folder: Path
    """Of its model, and its log."""
    process: subprocess.Popen[bytes]


@contextmanager
def servers(folder: Path, *kinds: str) -> Iterator[dict[str, Server]]:
    """Servers of models: of the one whose head is tied, with room for adapters, and of the one that is untied."""
    started: dict[str, Server] = {}
    try:
        for kind in kinds:
            started[kind] = _start(folder / kind, kind)
        for server in started.values():
            wait_for(server)
        yield started
    finally:
        for server in started.values():
            server.process.terminate()
        for server in started.values():
            server.process.wait(60)


def _start(folder: Path, kind: str) -> Server:
    """Start a server: of the tied model as transformers saves it, without its head; of the other by our command."""
    model_of(kind).save(folder)
    port = free_port()
    settings = settings_of("adapters" if kind == "tied" else kind)
    if kind == "tied":
        command, variables = server_command(folder, settings, port, dtype="float32", is_cpu=True)
        command[command.index(EXTENSION)] = file_sharing.EXTENSION
    else:
        options = ["--port", str(port), "--context", str(settings.length), "--slots", str(settings.slots)]
        options += ["--seed", "1"]  # vLLM's own
        command, variables = [sys.executable, "-m", "mage.engines.vllm.serve", str(folder), *options], {}
    return launch(folder, command, port, {**variables, "OMP_NUM_THREADS": "1"})


def launch(folder: Path, command: Sequence[str], port: int, variables: Mapping[str, str]) -> Server:
    """Start the command of a server whose model is in a folder."""
    with (folder / _LOG).open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **variables})
    return Server(f"http://127.0.0.1:{port}", folder, process)


def wait_for(server: Server) -> None:
    """Wait until a server answers."""
    begun = time.monotonic()
    while time.monotonic() - begun < _START_S and server.process.poll() is None:
        try:
            if httpx.get(f"{server.address}/health", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(1.0)
    raise AssertionError(f"the vLLM server did not start:\n{(server.folder / _LOG).read_text()[-3000:]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
