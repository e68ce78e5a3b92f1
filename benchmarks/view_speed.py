"""How quick the viewer is with a run of many trials: python -m benchmarks.view_speed [NUM_TRIALS]

Makes a directory with one run of so many trials of a scripted model and one train run of 2,000 steps, starts
`mage view` on it as a process of its own, and measures from outside: the start, the list of runs, the first and a later
page of trials, a trial, the curves, and the memory of the server.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from mage.config.schema import Config
from mage.evaluation.suite.report import installed_versions, machine_name
from mage.files import JsonLines
from mage.rollout.trial import play_trial
from mage.runs.store import RunWriter
from mage.training.build import scripted_world_and_agent
from mage.types import Task

NUM_TRIALS = 10_000
NUM_STEPS = 2_000
REPEATS = 20


def make_runs(root: Path, num_trials: int, num_steps: int = NUM_STEPS) -> None:
    """A run of many trials, each of its own seed, and a train run with all figures of every step."""
    world, make_agent = scripted_world_and_agent(Config())
    task = Task("rps(rounds=3)", ("copy",), 0, 1, 3, replay_deal=False, early_stop=False, max_turns=1000)
    trial = asyncio.run(play_trial(world, task, 0, make_agent))
    config = Config(trials=num_trials).model_dump(mode="json")
    with RunWriter.create(root / "many", kind="trials", config=config, seed=0) as writer:
        for seed in range(num_trials):
            writer.append(msgspec.structs.replace(trial, task=msgspec.structs.replace(task, seed=seed)))
    train = Config(steps=num_steps).model_dump(mode="json")
    with RunWriter.create(root / "long", kind="train", config=train, seed=0) as writer:
        writer.append(trial)
    metrics = JsonLines(root / "long" / "metrics.jsonl")
    for step in range(1, num_steps + 1):
        values = {f"learner/value_{k}": step / (k + 1) for k in range(40)}
        metrics.append({"step": step, **{f"score/episode_{k}": step / num_steps for k in (1, 2, 3)}, **values})
    metrics.close()


class Server:
    """`mage view` as a process of its own, after the given Python code; a context manager that ends it."""

    def __init__(self, root: Path, code: str = "") -> None:
        began = time.perf_counter()
        program = f"{code}\nfrom mage.cli import main; main()"
        command = [sys.executable, "-c", program, "view", str(root), "--no-browser"]
        self._process = subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        found = re.search(r"http://\S+", self._process.stdout.readline())
        assert found is not None, "mage view says where it is"
        self.link = found[0]
        """What it prints: the address with the token."""
        self.url, _, self.token = self.link.partition("/?token=")
        self.get("/")
        self.start_s = time.perf_counter() - began

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def get(self, path: str) -> bytes:
        """What the server answers."""
        with self.open(path) as answer:
            content: bytes = answer.read()
        return content

    def open(self, path: str) -> Any:
        """The response to a request with the token."""
        request = urllib.request.Request(self.url + path, headers={"X-Mage-Token": self.token})
        return urllib.request.urlopen(request, timeout=60)

    def json(self, path: str) -> Any:
        """The same as a value."""
        return json.loads(self.get(path))

    def timed(self, path: str) -> float:
        """Seconds that one answer takes."""
        began = time.perf_counter()
        self.get(path)
        return time.perf_counter() - began

    @property
    def memory_mb(self) -> float:
        """The most memory that the process has had, as Linux tells it."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else float("nan")

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid


def has_torch(pid: int) -> bool:
    """Whether torch is loaded in a process, as Linux tells it."""
    return "libtorch" in Path(f"/proc/{pid}/maps").read_text()


def measured(root: Path, num_trials: int) -> dict[str, float]:
    """All figures, in seconds and megabytes."""
    with Server(root) as server:
        metrics = {"start": server.start_s, "list of runs, first": server.timed("/api/runs")}
        ids = {run["name"]: run["id"] for run in server.json("/api/runs")}
        many, long = f"/api/runs/{ids['many']}", f"/api/runs/{ids['long']}"
        metrics["list of trials, first"] = server.timed(f"{many}/trials")
        metrics["trial, first"] = server.timed(f"{many}/trials/{num_trials - 1}")
        metrics["curves, first"] = server.timed(f"{long}/metrics?points=2000")
        later = {
            "list of runs": "/api/runs",
            "list of trials": f"{many}/trials?offset={num_trials // 2}",
            "list of trials, filtered": f"{many}/trials?opponent=copy&seat=0",
            "trial": f"{many}/trials/{num_trials // 3}",
            "curves": f"{long}/metrics?keys=score/episode_3",
        }
        for name, path in later.items():
            metrics[name] = median(server.timed(path) for _ in range(REPEATS))
        metrics["memory_mb"] = server.memory_mb
        assert not has_torch(server.pid), "nobody has played a model"
    return metrics


def main() -> None:
    """Make the directory, measure and print."""
    num_trials = int(sys.argv[1]) if len(sys.argv) > 1 else NUM_TRIALS
    with tempfile.TemporaryDirectory() as folder:
        make_runs(Path(folder), num_trials)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        print(f"{num_trials} trials, {NUM_STEPS} steps, {size / 1e6:.0f} MB on file")
        print(f"{machine_name()}; {', '.join(f'{name} {version}' for name, version in installed_versions().items())}")
        for name, value in measured(Path(folder), num_trials).items():
            print(f"{name:28}{value:8.0f} MB" if name == "memory_mb" else f"{name:28}{1000 * value:8.1f} ms")


if __name__ == "__main__":
    main()
