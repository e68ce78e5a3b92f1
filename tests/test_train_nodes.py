"""Training runs whose ranks `torchrun` has started on two nodes, here on loopback; one of them may die."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from mage.training.checkpoint import checkpoints, read_state
from tests.processes import alone, quiet_environment
from tests.test_train_ranks import SMALL, assert_alike, assert_ended

pytestmark = pytest.mark.slow
DEAD = "it was killed, or its machine cannot be reached any more"


class Nodes:
    """Two nodes with a working directory each, on which torchrun starts the same command."""

    def __init__(self, folder: Path, *argv: str, each: int = 1) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        nodes = ("--nnodes", "2", "--nproc-per-node", str(each), "--master-addr", "127.0.0.1", "--master-port", port)
        own = (sys.executable, "-c", "from mage.cli import main; main()", "train", *argv, f"learner.ranks={2 * each}")
        path = os.pathsep.join(each for each in (str(Path.cwd()), os.environ.get("PYTHONPATH")) if each)
        self._nodes = []
        self.folders = (folder / "first", folder / "second")
        for number, place in enumerate(self.folders):
            place.mkdir(exist_ok=True)
            torchrun = (sys.executable, "-m", "torch.distributed.run", "--node-rank", str(number), *nodes)
            with (place / "said.txt").open("w") as said:
                node = subprocess.Popen(
                    [*torchrun, "--no-python", "--", *own],
                    cwd=place,
                    env=quiet_environment(PYTHONPATH=path),
                    stdout=said,
                    stderr=said,
                )
            self._nodes.append(node)

    def when_saved(self, run: str) -> None:
        """Wait for the second checkpoint of a run."""
        until = time.monotonic() + 120
        while len(checkpoints(self.folders[0] / run / "checkpoints")) < 2:
            assert time.monotonic() < until, self.said(0)
            time.sleep(0.02)

    def processes(self, number: int) -> list[int]:
        """torchrun on a node, and its ranks."""
        pid = self._nodes[number].pid
        return [pid, *map(int, (Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text().split())]

    def codes(self) -> list[int]:
        """How both end, which they do within minutes."""
        return [node.wait(120) for node in self._nodes]

    def kill(self) -> None:
        """End what is left where a test has failed."""
        for number, node in enumerate(self._nodes):
            if node.poll() is None:
                for pid in self.processes(number):
                    os.kill(pid, SIGKILL)
                node.wait()

    def terminate(self, number: int) -> None:
        """Ask torchrun of a node to end."""
        self._nodes[number].send_signal(SIGTERM)

    def said(self, number: int) -> str:
        """What a node has said."""
        return (self.folders[number] / "said.txt").read_text()


Start = Callable[..., Nodes]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts two nodes, which end with the test."""
    with ExitStack() as stack:

        def started(*argv: str, each: int = 1) -> Nodes:
            nodes = Nodes(tmp_path, "rps", *SMALL, *argv, "--run", "run", each=each)
            stack.callback(nodes.kill)
            return nodes

        yield started


@pytest.mark.parametrize("each", [1, 2])
def test_a_run_on_two_nodes_is_that_of_one_process(each: int, start: Start, tmp_path: Path) -> None:
    nodes = start("steps=2", each=each)
    assert nodes.codes() == [0, 0], nodes.said(0) + nodes.said(1)
    assert not (nodes.folders[1] / "run").exists()
    assert alone("train", "rps", *SMALL, "steps=2", "--run", tmp_path / "one").code == 0
    assert_alike(nodes.folders[0] / "run", tmp_path / "one", 2)


def test_a_node_that_dies_ends_the_run_which_goes_on_with_one_process(start: Start) -> None:
    nodes = start()
    nodes.when_saved("run")
    first, second = nodes.processes(0), nodes.processes(1)
    for pid in second:
        os.kill(pid, SIGKILL)
    assert nodes.codes() == [1, -SIGKILL]
    (said,) = [line for line in nodes.said(0).splitlines() if line.startswith("mage:")]
    what = f"rank 1 of 2 on {socket.gethostname()}: {DEAD}"
    assert said == f"mage: {what}; what was saved stays; go on with: mage train --resume run"
    assert_ended([*first, *second])
    run = nodes.folders[0] / "run"
    done = read_state(checkpoints(run / "checkpoints")[-1]).step
    assert alone("train", "--resume", run, "learner.ranks=1", "--max-minutes", "0").code == 0
    assert read_state(checkpoints(run / "checkpoints")[-1]).step == done + 1


def test_ranks_on_other_nodes_end_with_rank_0(start: Start) -> None:
    nodes = start()
    nodes.when_saved("run")
    first, second = nodes.processes(0), nodes.processes(1)
    for pid in first:
        os.kill(pid, SIGKILL)
    assert nodes.codes() == [-SIGKILL, 1]
    said = "mage: rank 1 of 2: rank 0 has ended, or its machine cannot be reached any more"
    assert said in nodes.said(1).splitlines()
    assert_ended([*first, *second])


def test_sigterm_to_the_first_node_saves(start: Start) -> None:
    nodes = start()
    nodes.when_saved("run")
    processes = [*nodes.processes(0), *nodes.processes(1)]
    nodes.terminate(0)
    assert nodes.codes() == [1, 0]  # torchrun says 1 where it was interrupted
    assert "go on with  mage train --resume run" in nodes.said(0)
    assert_ended(processes)
