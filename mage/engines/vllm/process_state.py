"""What vLLM changes and keeps in the process that it runs in: contained, set back and freed."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from weakref import WeakSet, finalize

import torch

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Variables that vLLM is run with here: one process, threads as they are, and nothing is reported to its makers."""
_RESTORED = ("LD_PRELOAD", "LOCAL_WORLD_SIZE")
"""Variables that vLLM sets for processes of its own, and that would reach ours."""


@contextmanager
def contained() -> Iterator[None]:
    """Keep vLLM from changing this process: threads, variables, and what is printed."""
    os.environ.update(_ENVIRONMENT)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    kept = {name: os.environ.get(name) for name in _RESTORED}
    set_num_threads = torch.set_num_threads
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads = set_num_threads
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def imported(*names: str) -> list[Any]:
    """What vLLM has under some names; the first time they are imported, which takes long.

    That is done in a thread of its own. Something in the first import keeps the frames of its stack for ever, and on
    ours they would hold the server, its engine and the learner's model, which then could never be freed.
    """

    def load() -> list[Any]:
        vllm = import_module("vllm")
        return [getattr(vllm, name) for name in names]

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(load).result()


def forget_earlier_engines() -> None:
    """Set back what vLLM keeps for a whole process, and what an engine leaves there for the next one."""
    from vllm.compilation.breakable_cudagraph import BreakableCUDAGraphWrapper
    from vllm.compilation.cuda_graph import CUDAGraphWrapper
    from vllm.compilation.monitor import set_cudagraph_capturing_enabled
    from vllm.model_executor.layers import rotary_embedding
    from vllm.platforms import current_platform

    gc.unfreeze()  # vLLM froze engines that were dropped since
    # An engine that starts on the first model runner deletes the graphs of all that are in these sets.
    CUDAGraphWrapper._all_instances = WeakSet()
    BreakableCUDAGraphWrapper._all_instances = WeakSet()
    # torch refuses to capture into a pool whose graphs are all gone where some of its memory is still used.
    type(current_platform)._global_graph_pool = None
    # Its first model runner forbids graphs when it is done; the second one, for Qwen3 in 0.22, does not allow them.
    set_cudagraph_capturing_enabled(True)
    # Models share the layer for rotary positions. Publishing makes its cosines a part of the state dict, and an engine
    # that begins with random weights then overwrites them.
    rotary_embedding._ROPE_DICT.clear()


def let_go() -> None:
    """Remove what vLLM 0.22 registers with torch's compiler and never takes back: it keeps the engine for ever."""
    from torch._dynamo import convert_frame

    convert_frame._bytecode_hooks.clear()


def free_with(owner: object, engine: Any) -> None:
    """Free, with its owner, what torch's compiler keeps of an engine: CUDA graphs, and layers with the KV cache."""
    from vllm.compilation.breakable_cudagraph import BreakableCUDAGraphWrapper
    from vllm.compilation.cuda_graph import CUDAGraphWrapper

    # Only this engine's are in the sets: they were new ones when the engine began, and no other one has begun since.
    graphs = (CUDAGraphWrapper._all_instances, BreakableCUDAGraphWrapper._all_instances)
    finalize(owner, _free, engine.collective_rpc(_layers_of)[0], graphs).atexit = False


def _layers_of(worker: Any) -> Any:
    return worker.vllm_config.compilation_config.static_forward_context


def _free(layers: dict[str, Any], graphs: Iterable[WeakSet[Any]]) -> None:
    layers.clear()
    for wrapper in [wrapper for wrappers in graphs for wrapper in wrappers]:
        wrapper.clear_graphs()
