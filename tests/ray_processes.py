"""Whole runs with workers in processes of their own: started, harmed after a step, and watched to their end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mage.config.load import to_toml
from mage.files import read_lines
from tests.processes import Mage, is_alive, send
from tests.tiny import tiny_config

METRICS = "metrics.jsonl"


def written_recipe(folder: Path, *overrides: str) -> Path:
    """The file of a tiny recipe with overrides."""
    path = folder / "recipe.toml"
    path.write_text(to_toml(tiny_config(*overrides)), encoding="utf-8")
    return path


def whole_run(mage: Mage, recipe: Path, folder: Path) -> Path:
    """The directory of a run that is trained to its end."""
    ended = mage("train", recipe, "--run", folder)
    assert ended.code == 0, ended.said
    return folder


def descendants(pid: int) -> list[int]:
    """All processes below a process."""
    parents = dict(_parents())
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _parents() -> Iterator[tuple[int, int]]:
    """Every process with its parent; each is read once, because it may end meanwhile."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            yield int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue


def after_step(folder: Path, step: int, act: Callable[[int], None], seen: list[int]) -> Callable[[int], None]:
    """Act on a process once a run has completed a step; `seen` gets what is below the process then."""

    def watch(pid: int) -> None:
        while is_alive(pid):
            lines = folder / METRICS
            if lines.exists() and lines.read_text().count("\n") >= step:
                seen.extend(descendants(pid))
                act(pid)
                return
            time.sleep(0.01)

    return watch


def assert_all_end(pids: list[int]) -> None:
    """Wait until none of the processes is left; where a run is killed, two helpers of Ray stay for a minute."""
    assert len(pids) > 4  # Ray's own, and two workers
    deadline = time.monotonic() + 120
    while [pid for pid in pids if is_running(pid)] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [pid for pid in pids if is_running(pid)] == []


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended; one that has may stay listed until its parent takes note."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def assert_death_changes_nothing_but_is_told(mage: Mage, recipe: Path, whole: Path, folder: Path, step: int) -> None:
    """Kill a worker after a step: metrics and trials are those of the whole run, and the death is recorded."""

    def kill_worker(pid: int) -> None:
        workers = [one for one in descendants(pid) if b"ray::Worker" in Path(f"/proc/{one}/cmdline").read_bytes()]
        send(workers[0], signal.SIGKILL)

    ended = mage("train", recipe, "--run", folder, meanwhile=after_step(folder, step, kill_worker, []))
    assert ended.code == 0, ended.said
    for name in (METRICS, "trials.jsonl"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    (event,) = read_lines(folder / "events.jsonl")
    assert "died: it is built again" in event["warning"]
    died = [line for line in read_lines(folder / "workers.jsonl") if line["what"] == "died"]
    assert len(died) == 1
    assert sum(line["workers_rebuilt"] for line in read_lines(folder / "timings.jsonl")) == 1
    assert sum(line["trials_replayed"] for line in read_lines(folder / "timings.jsonl")) == died[0]["trials"]
