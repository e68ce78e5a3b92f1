"""Start a vLLM server for `agent.server`: python -m mage.engines.vllm.serve MODEL --port 8000 --context 1024."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from mage.engines.settings import EngineSettings
from mage.engines.vllm.availability import check_vllm
from mage.engines.vllm.model_files import write_model
from mage.engines.vllm.server_command import server_command
from mage.errors import ConfigError, MageError
from mage.models.device import resolve_placement
from mage.models.load import is_random, load_model
from mage.types import Device, Dtype


def main(words: Sequence[str]) -> int:
    """Write the model with a head of its own to a folder, and serve it from there until the server is ended."""
    parser = argparse.ArgumentParser(
        prog="python -m mage.engines.vllm.serve",
        description=__doc__,
        epilog="Other options are vLLM's, such as --gpu-memory-utilization 0.4.",
        allow_abbrev=False,
    )
    parser.add_argument("model", help="as in agent.model: smollm2, FILE.gguf, a directory or a hub name")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--context", type=int, default=4096, help="as agent.context")
    parser.add_argument("--slots", type=int, default=0, help="as agent.slots")
    parser.add_argument("--lora-rank", type=int, default=0, help="as learner.lora_rank")
    parser.add_argument("--policies", type=int, default=1, help="adapters at once; more than one in a league")
    parser.add_argument("--device", choices=[device.value for device in Device], default=Device.AUTO.value)
    parser.add_argument("--dtype", choices=[dtype.value for dtype in Dtype], default=Dtype.AUTO.value)
    given, options = parser.parse_known_args(words)
    try:
        return _serve(given, options)
    except MageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _serve(given: argparse.Namespace, options: Sequence[str]) -> int:
    check_vllm(())
    if is_random(given.model):
        raise ConfigError(f"{given.model}: its words and weights are made in each run; leave agent.server empty")
    placement = resolve_placement(Device(given.device), Dtype(given.dtype))
    settings = EngineSettings(given.context, given.slots, given.policies, given.lora_rank)
    with TemporaryDirectory(prefix="mage-vllm-served-") as folder:
        write_model(Path(folder), load_model(given.model, dtype=placement.dtype))
        is_cpu = placement.device == Device.CPU
        command, variables = server_command(Path(folder), settings, given.port, dtype=placement.dtype, is_cpu=is_cpu)
        process = subprocess.Popen([*command, *options], env={**os.environ, **variables})
        signal.signal(signal.SIGTERM, lambda number, frame: _end(process, number, frame))
        try:
            return process.wait()
        except KeyboardInterrupt:
            return process.wait()  # the server got it too


def _end(process: subprocess.Popen[bytes], number: int, frame: FrameType | None) -> None:
    process.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
