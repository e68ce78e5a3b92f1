"""What a run leaves behind: vLLM with its layers, server and model are freed, also those of the first run."""

from __future__ import annotations

import subprocess
import sys

from tests.vllm.made import need_vllm

SCRIPT = """
import asyncio, gc, weakref
from mage.engines.vllm.make import vllm_server
from mage.models.load import load_model
from mage.protocols import Sampling
from mage.weights import PolicyWeights
from tests.vllm.made import MODEL, learner_of, settings_of

def play(kind):
    loaded = load_model(MODEL, seed=7, worlds=("rps", "kuhn_poker", "tic_tac_toe"))
    server = vllm_server(loaded, settings_of(kind))

    async def publish():
        await server.publish("main", learner_of(kind).weights(), 0)
        await server.policy("main").complete((5, 6), Sampling(1.0, 4, 0), None)

    asyncio.run(publish())
    layers = server._backend._engine.collective_rpc(lambda worker: [*worker.model_runner.get_model().modules()])[0]
    return [weakref.ref(one) for one in (loaded.model, server, server._backend, server._backend._engine, *layers)]

for kind in ("adapters", "tied"):
    kept = play(kind)
    gc.collect()
    print(kind, len(kept) > 20, sum(one() is not None for one in kept))
"""


def test_the_first_vllm_of_a_process_is_freed_as_every_other() -> None:
    """In a process of its own, which has not imported vLLM."""
    need_vllm()
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [line for line in done.stdout.splitlines() if line.startswith(("adapters", "tied"))]
    assert found == ["adapters True 0", "tied True 0"], done.stdout
