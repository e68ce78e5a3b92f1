"""Chunks of which every trial fails: another worker gets them, and a worker that alone fails them is built again.

The cluster is one of this process. What fails is chosen by the test, for a worker and its jobs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mage.errors import ConfigError, EngineError, EngineGoneError
from mage.files import read_lines
from mage.league.matches import MatchJob, PlayedMatch
from mage.training.setup import Setup
from mage.training.workers import pool
from mage.training.workers.blame import doubt
from mage.training.workers.health import WORKERS
from mage.training.workers.order import read_jobs, to_bytes
from mage.training.workers.worker import Worker
from mage.types import Failure
from tests.ray_made import set_up_workers, workers_of

CUDA = "CUDA error: an illegal memory access was encountered"
NUM_TRIALS = 96
ONE, TWO = ("rollout.chunk=1",), ("rollout.chunk=2",)


class BrokenError(RuntimeError):
    """What a broken engine raises."""


class FailingCluster:
    """A cluster whose workers are in this process; one plays at a time, but a worker that fails answers at once."""

    def __init__(self, fails: Callable[[int, Sequence[MatchJob]], str | None]) -> None:
        self._fails = fails
        """The name of the error of all trials, for a worker and its jobs; workers are counted as they are built."""
        self.builds = 0
        self.gives: Callable[[int, int], None] = lambda *_: None
        """Called before a worker gets weights."""
        self.chunks: Counter[bytes] = Counter()
        """How often each chunk was given to a worker."""
        self._playing = asyncio.Lock()

    def put(self, value: object) -> object:
        return value

    def new_actor(self) -> tuple[int, Worker]:
        self.builds += 1
        return self.builds, Worker()

    async def ask(self, actor: tuple[int, Worker], method: str, *values: object, most_s: float | None = None) -> object:
        number, worker = actor
        if method == "publish":
            assert isinstance(values[1], int)
            self.gives(number, values[1])
        if method == "play":
            assert isinstance(values[0], bytes)
            self.chunks[values[0]] += 1
            jobs = read_jobs(values[0])
            if (error := self._fails(number, jobs)) is not None:
                await asyncio.sleep(0)
                return to_bytes([Failure(match.task, sibling, error, CUDA) for match, sibling in jobs])
        async with self._playing:
            return await asyncio.to_thread(getattr(worker, method), *values)

    def kill(self, actor: object) -> None:
        """Do nothing: a worker of this process has no other."""

    def stop(self) -> None:
        """Do nothing: no processes were started."""


def set_up_failing(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    fails: Callable[[int, Sequence[MatchJob]], str | None],
    *overrides: str,
) -> tuple[Setup, FailingCluster, list[str]]:
    """A run with two workers, its cluster, and what the user is told."""
    setup = set_up_workers(folder, "rollout.workers=2", *overrides)
    cluster, told = FailingCluster(fails), list[str]()
    monkeypatch.setattr(pool, "RayCluster", lambda _: cluster)
    setup.match_play.listen(told.append)
    return setup, cluster, told


def played(setup: Setup, steps: int = 1) -> list[list[PlayedMatch]]:
    """The matches of steps, each of `NUM_TRIALS` trials."""

    async def play() -> list[list[PlayedMatch]]:
        found: list[list[PlayedMatch]] = []
        for step in range(steps):
            await setup.match_play.publish(step)
            found.append(await setup.match_play.play(setup.source.draw(step, {"main": 24}), step))
        setup.match_play.close()
        return found

    return asyncio.run(asyncio.wait_for(play(), 120))


def sound(folder: Path, *overrides: str, steps: int = 1) -> list[list[PlayedMatch]]:
    """The same where nothing fails."""
    setup = set_up_workers(folder, "rollout.workers=1", *overrides)
    cluster = FailingCluster(lambda *_: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "RayCluster", lambda _: cluster)
        return played(setup, steps)


def failures(steps: Sequence[Sequence[PlayedMatch]]) -> list[Failure]:
    return [failure for step in steps for match in step for failure in match.group.failures]


def test_a_broken_worker_loses_no_trial_and_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    num = 0

    def fails(worker: int, jobs: Sequence[MatchJob]) -> str | None:
        nonlocal num
        num += worker == 1
        return "BrokenError" if worker == 1 and num > 3 else None

    setup, cluster, told = set_up_failing(tmp_path / "run", monkeypatch, fails, *TWO)
    assert played(setup, 2) == sound(tmp_path / "sound", *TWO, steps=2)
    assert cluster.builds == 3
    (warning,) = told
    assert warning.startswith("worker 1 is broken: it is built again (")
    assert warning.endswith(f" trials in a row failed, and another worker could play them: BrokenError: {CUDA})")
    timings = setup.parts.resources.take()
    assert (timings["workers_rebuilt"], timings["worker_1/deaths"]) == (1, 1)
    assert timings["trials_replayed"] >= 4
    assert timings["worker_1/trials"] + timings["worker_2/trials"] == 2 * NUM_TRIALS
    lines = [(line["worker"], line["what"]) for line in read_lines(tmp_path / "run" / WORKERS)]
    assert lines[2:] == [(1, "broken"), (1, "built")]


def test_a_worker_that_stays_broken_loses_no_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup, cluster, _ = set_up_failing(
        tmp_path / "run", monkeypatch, lambda worker, _: None if worker == 2 else "BrokenError", *TWO
    )
    assert played(setup) == sound(tmp_path / "sound", *TWO)
    assert 2 < cluster.builds <= 2 + NUM_TRIALS / 2


@pytest.mark.parametrize("error", ["KeyError", "EngineError"])
def test_what_fails_on_every_worker_stays_failed_and_costs_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    setup, cluster, told = set_up_failing(
        tmp_path / "run",
        monkeypatch,
        lambda _, jobs: error if jobs[0][0].task.seed % 2 and jobs[0][1] < 2 else None,
        *TWO,
    )
    found = played(setup)
    lost = failures(found)
    assert 0 < len(lost) < NUM_TRIALS
    assert {(failure.error, failure.sibling) for failure in lost} == {(error, 0), (error, 1)}
    assert (cluster.builds, told) == (2, [])
    assert Counter(cluster.chunks.values()) == {2: len(lost) / 2, 1: (NUM_TRIALS - len(lost)) / 2}


@pytest.mark.parametrize("error", ["BrokenError", "PlayError"])
def test_where_everything_fails_it_all_ends_as_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    setup, cluster, told = set_up_failing(tmp_path / "run", monkeypatch, lambda *_: error, *TWO)
    assert len(failures(played(setup))) == NUM_TRIALS
    assert (cluster.builds, told) == (2, [])
    assert set(cluster.chunks.values()) == {1 if error == "PlayError" else 2}, "the fault of a world is its own"


def test_at_most_three_workers_try_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup, cluster, _ = set_up_failing(tmp_path / "run", monkeypatch, lambda *_: "KeyError", *TWO, "rollout.workers=5")
    assert len(failures(played(setup))) == NUM_TRIALS
    assert set(cluster.chunks.values()) == {3}


def test_a_single_trial_that_fails_once_is_replayed_and_costs_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def fails(worker: int, jobs: Sequence[MatchJob]) -> str | None:
        seen.append(worker)
        return "BrokenError" if len(seen) in (9, 40) else None

    setup, cluster, told = set_up_failing(tmp_path / "run", monkeypatch, fails, *ONE)
    assert played(setup) == sound(tmp_path / "sound", *ONE)
    assert (cluster.builds, told, len(seen)) == (2, [], NUM_TRIALS + 2)


def test_a_worker_alone_fails_as_one_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup, cluster, _ = set_up_failing(
        tmp_path / "run",
        monkeypatch,
        lambda *_: "BrokenError" if cluster.chunks.total() > 30 else None,
        *TWO,
        "rollout.workers=1",
    )
    assert len(failures(played(setup))) == NUM_TRIALS - 60
    assert cluster.builds == 1


def test_a_broken_worker_that_takes_no_weights_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup, cluster, told = set_up_failing(
        tmp_path / "run",
        monkeypatch,
        lambda worker, _: "BrokenError" if worker == 1 else None,
        *TWO,
    )
    monkeypatch.setattr("mage.training.workers.blame.MIN_FAILED", 1000)

    def gives(worker: int, version: int) -> None:
        if worker == 1 and version == 1:
            raise EngineError(CUDA)

    cluster.gives = gives
    assert failures(played(setup, 2)) == []
    assert cluster.builds == 3
    assert told == [f"worker 1 died: it is built again (its trials failed, and then: {CUDA})"]


def test_a_worker_whose_engine_has_ended_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(worker: int, jobs: Sequence[MatchJob]) -> str | None:
        if worker == 1:
            raise EngineGoneError("vLLM failed: EngineDeadError()")
        return None

    setup, cluster, told = set_up_failing(tmp_path / "run", monkeypatch, fails, *TWO)
    assert played(setup) == sound(tmp_path / "sound", *TWO)
    assert cluster.builds == 3
    assert told == ["worker 1 died: it is built again, and its 2 trials are replayed (vLLM failed: EngineDeadError())"]


@pytest.mark.parametrize("times", [2, 3])
def test_a_worker_that_cannot_be_built_again_at_once_is_tried_again(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the learner has all of the GPU for a moment; an error of a worker's first build ends the run at once."""
    full = "vLLM cannot serve nano: No available memory for the cache blocks"

    def fails(worker: int, jobs: Sequence[MatchJob]) -> str | None:
        if worker == 1:
            raise EngineGoneError("vLLM failed: EngineDeadError()")
        return None

    def gives(worker: int, version: int) -> None:
        if 3 <= worker < 3 + times:
            raise ConfigError(full)

    setup, cluster, told = set_up_failing(tmp_path / "run", monkeypatch, fails, *TWO)
    cluster.gives = gives
    if times == 3:
        with pytest.raises(EngineError, match=f"worker 1 died 3 times while it was built.*{full}"):
            played(setup)
        return
    assert played(setup) == sound(tmp_path / "sound", *TWO)
    assert told[1:] == [f"worker 1 died while it was built: it is tried again (worker 1: {full})"] * 2
    assert cluster.builds == 5


def test_an_error_of_a_worker_that_was_not_meant_names_it_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup, _, _ = set_up_failing(tmp_path / "run", monkeypatch, lambda *_: None)
    taken: list[int] = []

    def unpacked(weights: object, base: object) -> object:
        taken.append(1)
        raise BrokenError(f"{CUDA}\nCompile with TORCH_USE_CUDA_DSA")

    monkeypatch.setattr("mage.training.workers.worker.unpack", unpacked)
    with pytest.raises(EngineError) as caught:
        played(setup)
    assert str(caught.value).startswith("worker ")
    assert str(caught.value)[8:] == f": BrokenError: {CUDA} Compile with TORCH_USE_CUDA_DSA"
    assert taken
    assert len(workers_of(setup).pids) == 0


def test_one_trial_that_was_played_is_no_reason_to_doubt(tmp_path: Path) -> None:
    (step,) = sound(tmp_path / "sound", *TWO)
    task = step[0].group.task
    lost, of_world = Failure(task, 0, "BrokenError", f"{CUDA}\nmore"), Failure(task, 0, "PlayError", "not legal")
    assert doubt([lost, lost]) == f"BrokenError: {CUDA} more"
    assert doubt([of_world, lost]) == doubt([lost])
    assert doubt([of_world, of_world]) is doubt([lost, (step[0].group.trials[0],)]) is None
