"""The command line and the variables that start a vLLM server for `agent.server`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from mage.engines.settings import EngineSettings
from mage.engines.vllm.cpu_options import CPU_BLOCK, CPU_BYTES, cpu_step_tokens
from mage.engines.vllm.model_files import room_for
from mage.engines.vllm.shared_weights import EXTENSION

SERVER_VARIABLES = {
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
}
"""Weights and adapters may be loaded, and nothing is reported to vLLM's makers."""


def server_command(
    folder: Path, settings: EngineSettings, port: int, *, dtype: str, is_cpu: bool
) -> tuple[list[str], dict[str, str]]:
    """The command that serves the model in a folder on a port of this machine, and its variables."""
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)),
        *("--host", "127.0.0.1", "--port", str(port), "--worker-extension-cls", EXTENSION),
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1", "--generation-config", "vllm"),
        *("--max-model-len", str(settings.length), "--dtype", dtype),
        *("--allowed-origins", "[]"),  # vLLM 0.22 answers pages of all origins in a browser of this machine otherwise
    ]
    if _has_scale_out():
        command.append("--enable-scale-out")
    if settings.slots:
        command += ["--max-num-seqs", str(settings.slots)]
    if settings.adapter_rank:
        rank = str(room_for(settings.adapter_rank))
        command += ["--enable-lora", "--max-lora-rank", rank, "--max-loras", str(settings.policies)]
        command += ["--max-cpu-loras", str(settings.policies + 1)]
    variables = dict(SERVER_VARIABLES)
    if is_cpu:
        command += ["--enforce-eager", "--block-size", str(CPU_BLOCK), "--kv-cache-memory-bytes", str(CPU_BYTES)]
        # Where a prompt is read in parts, vLLM turns its random generator back, which a CPU's cannot do.
        command += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(cpu_step_tokens(settings.length))]
        variables["TORCH_COMPILE_DISABLE"] = "1"  # its first request would take a minute
    return command, variables


def _has_scale_out() -> bool:
    """Whether the installed vLLM has the option --enable-scale-out, and needs it to serve token ids."""
    found = find_spec("vllm")
    if found is None or found.origin is None:
        return True
    options = Path(found.origin).parent.glob("entrypoints/*/cli_args.py")  # read: importing vLLM takes many seconds
    return any("enable_scale_out" in path.read_text() for path in options)
