"""Real `mage` processes that can be killed, forked from one that has imported everything and filled its caches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

_FORK = """
import gc, json, os, resource, sys, tempfile
import transformers.models.llama.modeling_llama, mage.cli.train, mage.training.run
from mage.cli import main
from mage.config.load import load_config
from mage.training.parts import build_parts
tiny = ("agent.model=nano(hidden=16,layers=1,heads=2,context=512)", "agent.context=512", "threads=1")
with tempfile.TemporaryDirectory() as folder:  # caches are filled here once: behaviours of splits, maps of transformers
    build_parts(load_config("rps", tiny)).loaded.model.save_pretrained(folder)
def run(program):
    try:
        exec(program, globals()) if program else main()
    except SystemExit as stop:
        return stop.code or 0
    return 0
gc.freeze()
for line in sys.stdin:
    argv, out, err, limits, cwd, typed, program = json.loads(line)
    child = os.fork()
    if child == 0:
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        for name, limit in limits.items():
            limit += used if name == "RLIMIT_AS" else 0
            resource.setrlimit(getattr(resource, name), (limit, limit))
        for fd, said in ((1, out), (2, err)):
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), fd)
        sys.stdin = open(typed)
        os.dup2(sys.stdin.fileno(), 0)
        os.chdir(cwd)
        sys.argv = ["mage", *argv]
        code = run(program)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)  # Taking the interpreter apart is slow in a fork.
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class RunEnd(NamedTuple):
    """How a process ended and what it said, but for lines about what is being done; a code below zero is a signal."""

    code: int
    said: str


class Mage:
    """Runs one `mage` process after the other."""

    def __init__(self, folder: Path) -> None:
        self._said, self._typed = folder / "said.txt", folder / "typed.txt"
        self._server = subprocess.Popen(
            [sys.executable, "-c", _FORK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=quiet_environment(),
        )

    def __call__(
        self,
        *argv: str | Path,
        meanwhile: Callable[[int], None] | None = None,
        limits: Mapping[str, int] | None = None,
        cwd: Path | None = None,
        typed: str = "",
        err: Path | None = None,
        program: str = "",
    ) -> RunEnd:
        """Run a command to its end; `meanwhile` gets its process id and may do it harm.

        `limits` are those of `resource.setrlimit`, by name; that of its memory counts from what it has at its start.
        `typed` is its standard input. What it says on standard error goes to `err`, where that is given. `program` is
        Python code that is run instead of the command.
        """
        self._said.unlink(missing_ok=True)
        self._typed.write_text(typed, encoding="utf-8")
        said = (str(self._said), str(err or self._said))
        order = [[*map(str, argv)], *said, limits or {}, str(cwd or Path.cwd()), str(self._typed), program]
        self._pipe(self._server.stdin).write(json.dumps(order) + "\n")
        self._pipe(self._server.stdin).flush()
        pid = self._number()
        if meanwhile is not None:
            meanwhile(pid)
        return RunEnd(self._number(), _without_phases(self.said()))

    def said(self) -> str:
        """What the process that runs, or ran last, has said so far."""
        return self._said.read_text(encoding="utf-8") if self._said.exists() else ""

    def close(self) -> None:
        """End the server."""
        self._pipe(self._server.stdin).close()
        self._server.wait()
        self._pipe(self._server.stdout).close()

    def _number(self) -> int:
        return int(self._pipe(self._server.stdout).readline())

    def _pipe(self, pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def quiet_environment(**more: str) -> dict[str, str]:
    """One thread, no looking on the hub, and an order of sets that differs from process to process."""
    return {**os.environ, "PYTHONHASHSEED": "random", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **more}


def alone(*argv: str | Path, **environment: str) -> RunEnd:
    """A process that shares nothing with any other."""
    code = "from mage.cli import main; main()"
    command: Sequence[str] = [sys.executable, "-c", code, *map(str, argv)]
    done = subprocess.run(command, capture_output=True, text=True, env=quiet_environment(**environment), check=False)
    return RunEnd(done.returncode, _without_phases(done.stdout + done.stderr))


def _without_phases(said: str) -> str:
    return "".join(line for line in said.splitlines(keepends=True) if not line.endswith(" …\n"))


def when(condition: Callable[[], bool], sent: signal.Signals, delay_s: float = 0.0) -> Callable[[int], None]:
    """Send a signal when a condition holds, or a while later; nothing once the process has ended."""

    def watch(pid: int) -> None:
        while not condition():
            if not is_alive(pid):
                return
            time.sleep(0.0001)
        time.sleep(delay_s)
        send(pid, sent)

    return watch


def is_alive(pid: int) -> bool:
    """Whether a process has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that has not ended."""
    if is_alive(pid):
        os.kill(pid, number)
