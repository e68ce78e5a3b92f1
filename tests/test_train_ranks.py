"""Training runs with `learner.ranks`: those of one rank; they can be killed, resumed with other ranks and exported."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from math import isclose
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM, Signals

import pytest
from safetensors.torch import load_file

from mage.errors import ConfigError
from mage.files import read_lines
from mage.learners.registry import LEARNERS
from mage.learners.sharded import cards
from mage.learners.sharded.cards import check_ranks
from mage.training.checkpoint import checkpoints, read_state
from mage.training.start import check_start
from tests.processes import Mage, alone, is_alive, quiet_environment, send
from tests.tiny import MODEL, tiny_config

SMALL = (
    f"agent.model={MODEL}",
    "agent.context=512",
    "batch.groups=2",
    "checkpoint.every=1",
    "checkpoint.keep=400",
    "evaluation.splits=[]",
    "steps=400",
    "learner.decay=false",
    "learner.entropy_start=0.0",
    "learner.entropy_end=0.0",
)
WEIGHTS = "model.safetensors"


def workers_of(pid: int) -> list[int]:
    """The ranks that a process has started."""
    children = (Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text().split()
    return [int(child) for child in children if b"sharded.worker" in (Path("/proc") / child / "cmdline").read_bytes()]


def hit(folder: Path, num: int, sent: Signals, *, is_rank: bool, seen: list[int]) -> Callable[[int], None]:
    """Send a signal to a run, or to one of its other ranks, once it has some checkpoints; `seen` gets the ranks."""

    def watch(pid: int) -> None:
        while is_alive(pid) and len(checkpoints(folder / "checkpoints")) < num:
            time.sleep(0.01)
        seen.extend(workers_of(pid))
        send(seen[0] if is_rank else pid, sent)

    return watch


def assert_ended(workers: list[int]) -> None:
    """The processes end by themselves, and soon."""
    until = time.monotonic() + 20
    while any(map(is_running, workers)):
        assert time.monotonic() < until
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process runs; in a container one that has ended may never be waited for."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def assert_alike(folder: Path, other: Path, num: int) -> None:
    """The metrics of the first steps of two runs are the same to 1e-4."""
    mine, theirs = (list(read_lines(each / "metrics.jsonl"))[:num] for each in (folder, other))
    assert len(mine) == len(theirs) == num
    for line, expected in zip(mine, theirs, strict=True):
        assert line.keys() == expected.keys()
        assert all(isclose(line[key], expected[key], rel_tol=1e-4, abs_tol=1e-4) for key in line), line["step"]


def test_a_run_is_that_of_one_rank_until_a_rank_is_killed_and_goes_on_with_one(mage: Mage, tmp_path: Path) -> None:
    one, two, folder = tmp_path / "one", tmp_path / "two", tmp_path / "model"
    workers: list[int] = []
    harm = hit(two, 2, SIGKILL, is_rank=True, seen=workers)
    ended = mage("train", "rps", *SMALL, "learner.ranks=2", "--run", two, meanwhile=harm)
    assert ended.code == 2
    (said,) = [line for line in ended.said.splitlines() if line.startswith("mage:")]
    what = "rank 1 of 2 was ended by signal 9 (SIGKILL)"
    assert said == f"mage: {what}; what was saved stays; go on with: mage train --resume {two}"
    assert "Traceback" not in ended.said
    assert_ended(workers)
    newest = checkpoints(two / "checkpoints")[-1]
    done = read_state(newest).step
    assert len(list((newest / "optimizer").iterdir())) == 2
    assert mage("train", "--resume", two, "learner.ranks=1", "--max-minutes", "0").code == 0
    assert read_state(checkpoints(two / "checkpoints")[-1]).step == done + 1
    assert mage("train", "rps", *SMALL, f"steps={done + 1}", "--run", one).code == 0
    assert_alike(two, one, done + 1)
    assert mage("export-model", two, "--out", folder, "--step", "2").code == 0
    assert not (folder / "optimizer").exists()
    found, expected = (load_file(path / WEIGHTS) for path in (folder, one / "checkpoints" / "step-000002"))
    assert found.keys() == expected.keys()
    assert all((found[name] - expected[name]).abs().max() < 1e-6 for name in found)


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(SIGINT, 0), (SIGTERM, 0), (SIGKILL, -9)])
def test_other_ranks_end_with_the_run(sent: Signals, code: int, mage: Mage, tmp_path: Path) -> None:
    workers: list[int] = []
    harm = hit(tmp_path / "run", 1, sent, is_rank=False, seen=workers)
    ended = mage("train", "rps", *SMALL, "learner.ranks=2", "--run", tmp_path / "run", meanwhile=harm)
    assert ended.code == code, ended.said
    assert workers
    assert_ended(workers)


@pytest.mark.slow
@pytest.mark.parametrize("is_rank", [False, True])
def test_a_run_killed_while_it_writes_shards_goes_on(is_rank: bool, mage: Mage, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    folder = two / "checkpoints"

    def is_writing() -> bool:
        with suppress(FileNotFoundError):  # a folder that gets its name in this moment
            return len(checkpoints(folder)) > 1 and any(folder.glob(".writing-*/optimizer/*"))
        return False

    def kill(pid: int) -> None:
        workers: list[int] = []
        while is_alive(pid) and not is_writing():
            workers = workers or workers_of(pid)
        send(workers[0] if is_rank else pid, SIGKILL)

    ended = mage("train", "rps", *SMALL, "learner.ranks=2", "--run", two, meanwhile=kill)
    assert ended.code == (2 if is_rank else -SIGKILL), ended.said
    done = read_state(checkpoints(folder)[-1]).step
    assert mage("train", "--resume", two, "--max-minutes", "0").code == 0
    assert read_state(checkpoints(folder)[-1]).step == done + 1
    assert not list(folder.glob(".*"))
    assert mage("train", "rps", *SMALL, f"steps={done + 1}", "--run", one).code == 0
    assert_alike(two, one, done + 1)


@pytest.mark.slow
def test_a_rank_that_finds_no_room_for_its_shard_ends_the_run_in_one_line(mage: Mage, tmp_path: Path) -> None:
    """The weights have 19,800 bytes, the shard of rank 0 has 23,028 and that of rank 1 24,504."""
    command = (
        "train",
        "rps",
        *SMALL,
        "checkpoint.transcripts=0",
        "steps=1",
        "learner.ranks=2",
        "--run",
        tmp_path / "run",
    )
    ended = mage(*command, limits={"RLIMIT_FSIZE": 23_552})
    assert ended.code == 2
    shards = tmp_path / "run" / "checkpoints" / ".writing-step-000001" / "optimizer"
    said = f"mage: {shards} cannot be written: rank 1 of 2: [Errno 27] File too large; what was saved stays; go on with"
    assert ended.said.splitlines()[-1] == f"{said}: mage train --resume {tmp_path / 'run'}"
    assert not list((tmp_path / "run" / "checkpoints").iterdir()), "what could not be written leaves its room"
    assert mage("train", "--resume", tmp_path / "run").code == 0


@pytest.mark.slow
def test_the_first_ten_steps_of_rps_are_those_of_one_rank(mage: Mage, tmp_path: Path) -> None:
    for ranks in (1, 2):
        command = ("train", "rps", "steps=10", "evaluation.splits=[]", f"learner.ranks={ranks}")
        assert mage(*command, "--run", tmp_path / str(ranks)).code == 0
    assert_alike(tmp_path / "1", tmp_path / "2", 10)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("league.learners=2",), "learner.ranks = 2: the learners of a league take turns in one process; leave"),
        (("learner.compile=true",), "learner.ranks = 2: sharded layers are not compiled; set learner.compile = auto"),
        (("learner.kind=mine",), "unknown learner 'mine'"),
    ],
)
def test_what_does_not_go_together_is_refused(overrides: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said}"):
        check_start(tiny_config("learner.ranks=2", *overrides))


def test_a_learner_of_another_kind_is_not_sharded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS._added, "mine", LEARNERS["local"])
    with pytest.raises(ConfigError, match=r"learner\.ranks = 2: learner.kind = mine cannot be sharded; local can"):
        check_start(tiny_config("learner.ranks=2", "learner.kind=mine"))


def test_more_ranks_than_cards_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "num_cards", lambda: 2)
    check_ranks(2, "cuda")
    check_ranks(8, "cpu")
    with pytest.raises(ConfigError, match=r"learner\.ranks = 3: each rank needs a GPU .* there are 2 here"):
        check_ranks(3, "cuda")


def test_torchrun_must_start_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TORCHELASTIC_RUN_ID": "none", "RANK": "0", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    check_start(tiny_config("learner.ranks=4"))
    with pytest.raises(ConfigError, match=r"learner\.ranks = 1: torchrun has started 4; give both the same number"):
        check_start(tiny_config())


def test_a_rank_of_torchrun_ends_at_once() -> None:
    """Threads of gloo that still have tensors while Python shuts down end it by SIGABRT."""
    program = """
import atexit
from mage.learners.sharded import worker
atexit.register(print, "Python shuts down")
worker.follow = worker.serve = lambda *_: None
worker.serve_torchrun()
"""
    done = subprocess.run([sys.executable, "-c", program], env=quiet_environment(), check=True, capture_output=True)
    assert done.stdout == b""


@pytest.mark.slow
def test_torchrun_starts_the_ranks(tmp_path: Path) -> None:
    start = "from mage.cli import main; main()"
    own = (sys.executable, "-c", start, "train", "rps", *SMALL, "steps=2", "learner.ranks=2", "--run", tmp_path / "two")
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python", "--")
    subprocess.run([*torchrun, *own], env=quiet_environment(), check=True, capture_output=True, timeout=120)
    assert alone("train", "rps", *SMALL, "steps=2", "--run", tmp_path / "one").code == 0
    assert_alike(tmp_path / "two", tmp_path / "one", 2)
