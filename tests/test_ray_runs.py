"""Whole runs with workers: interrupted and killed ones go on to the same end, and leave no process behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from mage.config.sections import RolloutConfig
from mage.errors import ConfigError
from mage.files import read_lines
from mage.training.workers.ray_cluster import RayCluster
from tests.interrupted import assert_same
from tests.processes import Mage, alone, send
from tests.ray_made import assert_same_trials, assert_same_weights, need_ray, trained
from tests.ray_processes import (
    METRICS,
    after_step,
    assert_all_end,
    assert_death_changes_nothing_but_is_told,
    whole_run,
    written_recipe,
)
from tests.test_plugins import NUMBER, PLAIN

pytestmark = pytest.mark.slow
OVERRIDES = ("steps=60", "checkpoint.every=4", "checkpoint.transcripts=1", "rollout.workers=2", "rollout.chunk=2")


@pytest.fixture(scope="module", autouse=True)
def _with_ray() -> None:
    need_ray()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_recipe(tmp_path_factory.mktemp("recipe"), *OVERRIDES)


@pytest.fixture(scope="module")
def whole(mage: Mage, recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nothing happened to."""
    return whole_run(mage, recipe, tmp_path_factory.mktemp("whole") / "run")


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
    assert_death_changes_nothing_but_is_told(mage, recipe, whole, tmp_path / "run", step=1)


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


@pytest.fixture
def two_nodes() -> Iterator[None]:
    """A cluster of two nodes on this machine, each with a CPU and three GPUs that are not there, which is joined."""
    import ray
    from ray._private import ray_constants
    from ray.cluster_utils import Cluster

    # Two nodes on one machine: else Ray replaces 127.0.0.1 by the host's address and waits for it.
    ray_constants.ENABLE_RAY_CLUSTER = False
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 3})
    try:
        cluster.add_node(num_cpus=1, num_gpus=3)
        ray.init(address=cluster.address, log_to_driver=False)
        assert len(ray.nodes()) == 2
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.usefixtures("two_nodes")
def test_workers_on_two_nodes_play_the_same(tmp_path: Path) -> None:
    wanted = trained(tmp_path / "local", *OVERRIDES, "rollout.workers=0")
    found = trained(tmp_path / "nodes", *OVERRIDES)
    found.setup.match_play.close()
    assert_same_trials(found.groups, wanted.groups)
    assert_same_weights(found.weights, wanted.weights)


@pytest.mark.usefixtures("two_nodes")
def test_gpus_of_two_nodes_are_not_added_up_for_one_worker() -> None:
    RayCluster(RolloutConfig(workers=2, gpus=3)).stop()
    with pytest.raises(ConfigError, match=r"places for 0: 2 machines with 1 CPU and 3 GPUs$"):
        RayCluster(RolloutConfig(workers=1, gpus=4))
