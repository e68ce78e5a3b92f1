"""Whole runs with workers: interrupted and killed ones go on to the same end, and leave no process behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from mage.config.load import to_toml
from mage.files import read_lines
from tests.interrupted import assert_same
from tests.processes import Mage, alone, is_alive, send
from tests.ray_made import assert_same_trials, assert_same_weights, need_ray, trained
from tests.test_plugins import NUMBER, PLAIN
from tests.tiny import tiny_config

pytestmark = pytest.mark.slow
METRICS = "metrics.jsonl"
OVERRIDES = ("steps=60", "checkpoint.every=4", "checkpoint.transcripts=1", "rollout.workers=2", "rollout.chunk=2")


@pytest.fixture(scope="module", autouse=True)
def _with_ray() -> None:
    need_ray()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "workers.toml"
    path.write_text(to_toml(tiny_config(*OVERRIDES)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def whole(mage: Mage, recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    ended = mage("train", recipe, "--run", folder)
    assert ended.code == 0, ended.said
    return folder


def descendants(pid: int) -> list[int]:
    """All processes below a process."""
    parents = {int(stat.parent.name): int(stat.read_text().rpartition(")")[2].split()[1]) for stat in _stats()}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _stats() -> Iterator[Path]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            path.read_text()
        except OSError:
            continue
        yield path


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


def test_a_run_that_is_killed_goes_on_to_the_same_end(mage: Mage, recipe: Path, whole: Path, tmp_path: Path) -> None:
    seen: list[int] = []
    folder = tmp_path / "run"
    harm = after_step(folder, 2, partial(send, number=signal.SIGKILL), seen)
    assert mage("train", recipe, "--run", folder, meanwhile=harm).code == -signal.SIGKILL
    assert_all_end(seen)
    ended = mage("train", "--resume", folder)
    assert ended.code == 0, ended.said
    assert_same(folder, whole)


def test_an_interrupted_run_saves_ends_its_workers_and_goes_on_with_another_number_of_them(
    mage: Mage, recipe: Path, whole: Path, tmp_path: Path
) -> None:
    seen: list[int] = []
    folder = tmp_path / "run"
    commands: list[tuple[signal.Signals, tuple[str | Path, ...]]] = [
        (signal.SIGINT, ("train", recipe, "--run", folder)),
        (signal.SIGTERM, ("train", "--resume", folder, "rollout.workers=1")),
    ]
    for sent, command in commands:
        step = (folder / METRICS).read_text().count("\n") + 2 if folder.exists() else 2
        ended = mage(*command, meanwhile=after_step(folder, step, partial(send, number=sent), seen))
        assert ended.code == 0, ended.said
        assert "finishing this step" in ended.said
        assert_all_end(seen)
    assert mage("train", "--resume", folder).code == 0
    for name in (METRICS, "trials.jsonl"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()


def test_a_worker_that_is_killed_changes_nothing_but_is_told(
    mage: Mage, recipe: Path, whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"

    def kill_worker(pid: int) -> None:
        workers = [one for one in descendants(pid) if b"ray::Worker" in Path(f"/proc/{one}/cmdline").read_bytes()]
        send(workers[0], signal.SIGKILL)

    ended = mage("train", recipe, "--run", folder, meanwhile=after_step(folder, 1, kill_worker, []))
    assert ended.code == 0, ended.said
    for name in (METRICS, "trials.jsonl"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    (event,) = read_lines(folder / "events.jsonl")
    assert "died and was built again" in event["warning"]


def test_workers_know_what_was_imported(tmp_path: Path) -> None:
    (tmp_path / "number.py").write_text(NUMBER)
    (tmp_path / "plain.toml").write_text(PLAIN)
    run = tmp_path / "run"
    ended = alone(
        "train", tmp_path / "plain.toml", "--import", tmp_path / "number.py", "--run", run, "rollout.workers=1"
    )
    assert ended.code == 0, ended.said
    assert len(list(read_lines(run / METRICS))) == 3
    assert msgspec.json.decode((run / "run.json").read_bytes())["config"]["rollout"]["workers"] == 1


def test_workers_on_two_nodes_play_the_same(tmp_path: Path) -> None:
    import ray
    from ray._private import ray_constants
    from ray.cluster_utils import Cluster

    wanted = trained(tmp_path / "local", *OVERRIDES, "rollout.workers=0")
    # Two nodes on one machine: else Ray replaces 127.0.0.1 by the host's address and waits for it.
    ray_constants.ENABLE_RAY_CLUSTER = False
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        assert len(ray.nodes()) == 2
        found = trained(tmp_path / "nodes", *OVERRIDES)
        found.setup.match_play.close()
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert_same_trials(found.groups, wanted.groups)
    assert_same_weights(found.weights, wanted.weights)
