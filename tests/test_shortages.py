"""No room on the disk, limits on files, no memory: one line, and the run goes on to the same end once there is room."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from signal import SIGTERM

import pytest
import torch

from mage.errors import EngineError, PlayError, RecordError, ShortageError
from mage.files import count_lines
from mage.models.load import load_model
from mage.rollout.group import outcomes_of
from mage.shortage import ShortagesAsErrors, shortage_of
from mage.training.run_tokenizer import stored_tokenizer
from mage.types import Failure
from tests.interrupted import Work, assert_same, works
from tests.processes import Mage, when
from tests.recorded import make_task
from tests.tiny import MODEL


@pytest.fixture(scope="module")
def all_works(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Work]:
    return works(tmp_path_factory.mktemp("recipes"))


@pytest.fixture(scope="module")
def whole(mage: Mage, all_works: dict[str, Work], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training run to which nothing happened."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert mage(*all_works["train"].next_command(folder)).code == 0
    return folder


@pytest.fixture
def work(all_works: dict[str, Work]) -> Work:
    return all_works["train"]


def last_line(said: str) -> str:
    """The last line, which is the only one that is no progress."""
    *before, last = said.splitlines()
    assert all(line.startswith(("step ", "evaluated on ", "run ", "alarm ")) for line in before), said
    return last


def ended_well(mage: Mage, work: Work, folder: Path, whole: Path) -> None:
    ended = mage(*work.next_command(folder))
    assert ended.code == 0, ended.said
    assert_same(folder, whole)


# What comes first in a run needs the least: run.json, tokenizer.json, the logs, the weights, the optimizer.
@pytest.mark.parametrize("limit", [1000, 8000, 25_000])
def test_a_limit_on_the_size_of_files(mage: Mage, work: Work, whole: Path, tmp_path: Path, limit: int) -> None:
    folder = tmp_path / "run"
    ended = mage(*work.next_command(folder), limits={"RLIMIT_FSIZE": limit})
    assert ended.code == 2
    told = last_line(ended.said)
    assert told.startswith("mage: ")
    assert "File too large" in told or "a file has reached the largest size that is allowed" in told
    if count_lines(folder / "trials.jsonl"):
        assert told.endswith(f"what was saved stays; go on with: mage train --resume {folder}")
    assert not list(folder.glob("checkpoints/.*")), "what could not be written leaves its room"
    ended_well(mage, work, folder, whole)


@pytest.mark.parametrize("limit", [9, 15])
def test_a_limit_on_open_files(mage: Mage, work: Work, whole: Path, tmp_path: Path, limit: int) -> None:
    folder = tmp_path / "run"
    ended = mage(*work.next_command(folder), limits={"RLIMIT_NOFILE": limit})
    assert ended.code == 2, ended.said
    told = ended.said.splitlines()[-1]
    assert told.startswith("mage: ")
    assert "oo many" in told
    ended_well(mage, work, folder, whole)


def test_a_full_disk(mage: Mage, work: Work, whole: Path, tmp_path: Path) -> None:
    """/dev/full refuses every byte, as a full disk does."""
    folder = tmp_path / "run"
    assert mage(*work.next_command(folder), "--max-minutes", "0").code == 0
    (folder / "timings.jsonl").rename(tmp_path / "timings.jsonl")
    (folder / "timings.jsonl").symlink_to("/dev/full")
    ended = mage(*work.next_command(folder))
    assert ended.code == 2
    assert ended.said == f"mage: the disk is full; what was saved stays; go on with: mage train --resume {folder}\n"
    (folder / "timings.jsonl").unlink()
    shutil.rmtree(folder / "checkpoints" / "step-000001")  # an unbroken run has none of this step
    (folder / "saved.json").unlink()
    ended_well(mage, work, folder, whole)


def test_memory_that_runs_out(mage: Mage, work: Work, whole: Path, tmp_path: Path) -> None:
    """Keys and values of as many slots take 6.5 GB."""
    folder = tmp_path / "run"
    assert mage(*work.next_command(folder), "--max-minutes", "0", "checkpoint.every=1").code == 0
    ended = mage("train", "--resume", folder, "agent.slots=100000", limits={"RLIMIT_AS": 2**30})
    assert ended.said == f"mage: out of memory; what was saved stays; go on with: mage train --resume {folder}\n"
    assert ended.code == 2
    ended = mage("train", "--resume", folder)
    assert ended.code == 0, ended.said
    assert (folder / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


@pytest.mark.slow
def test_a_run_of_a_sweep_that_finds_no_room_is_gone_on_with(
    mage: Mage, all_works: dict[str, Work], tmp_path: Path
) -> None:
    work, folder, whole = all_works["sweep"], tmp_path / "sweep", tmp_path / "whole"
    ended = mage(*work.next_command(folder), limits={"RLIMIT_FSIZE": 25_000})
    assert ended.code == 1, ended.said
    assert all(f"sweep-seed{seed} failed: cannot write to" in ended.said for seed in (0, 1))
    assert "Traceback" not in ended.said
    assert mage(*work.next_command(folder)).code == 0
    assert mage(*work.next_command(whole)).code == 0
    (folder / "ended.jsonl").unlink()  # it has the failures too
    (whole / "ended.jsonl").unlink()
    assert_same(folder, whole)


def test_an_evaluation_that_finds_no_room_is_gone_on_with(
    mage: Mage, all_works: dict[str, Work], tmp_path: Path
) -> None:
    work, folder, whole = all_works["evaluate"], tmp_path / "run", tmp_path / "whole"
    ended = mage(*work.next_command(folder), limits={"RLIMIT_FSIZE": 30_000})
    assert ended.code == 2
    *_, saved, told = ended.said.splitlines()
    assert saved == f"what was played is saved; go on with  mage evaluate --resume {folder}"
    assert told == f"mage: cannot write to {folder}: File too large"
    assert mage(*work.next_command(whole)).code == 0
    ended_well(mage, work, folder, whole)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space"), "the disk is full"),
        (OSError(errno.EMFILE, "Too many"), "too many files are open (ulimit -n)"),
        (OSError(errno.ENOENT, "No such file"), None),
        (OSError("no number"), None),
        (MemoryError(), "out of memory"),
        (RuntimeError("can't start new thread"), "no more threads can be started (memory, or ulimit -u)"),
        (RuntimeError("shapes do not match"), None),
        (Exception("I/O error: File too large (os error 27)"), "a file has reached the largest size that is allowed"),
        (EngineError("the model failed"), None),
        (ShortageError("out of memory"), "out of memory"),
        (None, None),
    ],
)
def test_what_ran_out_is_told_from_other_errors(error: BaseException | None, told: str | None) -> None:
    found = shortage_of(error)
    assert found == told or (told is not None and found is not None and found.startswith(told))


def test_torch_that_cannot_allocate_is_out_of_memory() -> None:
    with pytest.raises(ShortageError) as caught, ShortagesAsErrors(lambda: "less would do"):
        torch.zeros(2**60)
    assert str(caught.value) == "out of memory; less would do"


def test_an_error_of_ours_keeps_its_words() -> None:
    def full() -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise RecordError("cannot write to run") from error

    with pytest.raises(ShortageError) as caught, ShortagesAsErrors(lambda: "make room"):
        full()
    assert str(caught.value) == "cannot write to run; make room"


def test_a_shortage_is_no_failure_of_a_trial(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> int:
        raise PlayError("the trial's own")

    async def no_room() -> int:
        raise MemoryError

    async def play(*makers: Callable[[], Awaitable[int]]) -> list[int | Failure]:
        jobs = [((make_task(), number), make) for number, make in enumerate(makers)]
        return [outcome async for outcome in outcomes_of(jobs, 10)]

    (failure,) = asyncio.run(play(broken))
    assert isinstance(failure, Failure)
    with caplog.at_level(logging.ERROR), pytest.raises(MemoryError):
        asyncio.run(play(no_room, no_room, no_room))
    assert caplog.text == ""


@pytest.mark.parametrize("harm", ["missing", "truncated", "other", "no template"])
def test_a_damaged_tokenizer_is_repaired(mage: Mage, work: Work, whole: Path, tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    (folder / "evaluations" / "final.json").unlink()
    shutil.rmtree(folder / "checkpoints" / "step-000004")
    own = folder / "tokenizer"
    if harm == "missing":
        shutil.rmtree(own)
    elif harm == "no template":
        (own / "chat_template.jinja").unlink()
    elif harm == "other":
        shutil.rmtree(own)
        load_model(MODEL, seed=0, worlds=["kuhn_poker"]).tokenizer.save_pretrained(own)
    else:
        (own / "tokenizer.json").write_bytes((own / "tokenizer.json").read_bytes()[:100])
    assert stored_tokenizer(folder) == folder / "checkpoints" / "step-000003"
    ended = mage("train", "--resume", folder)
    assert ended.code == 0, ended.said
    assert f"{own} was missing or damaged; it was written anew" in ended.said
    assert_same(folder, whole)


def test_a_kill_before_run_json_may_be_begun_anew(mage: Mage, work: Work, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "plugins").mkdir(parents=True)
    for name in ("trials.jsonl", "index.jsonl", ".run.json.77.part", "plugins/world-0123abcd.py"):
        (folder / name).touch()
    shutil.rmtree(folder / "plugins")
    ended_well(mage, work, folder, whole)
    for name in ("trials.jsonl", "plugins/world.py", "notes.txt"):
        other = tmp_path / name.replace("/", "-")
        (other / "plugins").mkdir(parents=True)
        (other / name).write_text("mine", encoding="utf-8")
        ended = mage(*work.next_command(other))
        assert (ended.code, ended.said) == (2, f"mage: {other} is not empty; name a new directory for the run\n")
        assert (other / name).read_text(encoding="utf-8") == "mine"


def test_sigterm_finishes_the_step_and_saves(mage: Mage, work: Work, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    harm = when(lambda: count_lines(folder / "timings.jsonl") >= 1, SIGTERM)
    ended = mage(*work.next_command(folder), "steps=40", "checkpoint.every=100", "evaluation.every=0", meanwhile=harm)
    assert ended.code == 0, ended.said
    assert "finishing this step; interrupt again to stop at once" in ended.said
    assert ended.said.endswith(f"\ngo on with  mage train --resume {folder}\n")
    done = count_lines(folder / "timings.jsonl")
    assert [path.name for path in (folder / "checkpoints").iterdir()] == [f"step-{done:06d}"]


def test_a_second_sigterm_stops_at_once(mage: Mage, work: Work, tmp_path: Path) -> None:
    folder = tmp_path / "run"

    def terminate_twice(pid: int) -> None:
        when(lambda: count_lines(folder / "trials.jsonl") == 1, SIGTERM)(pid)
        when(lambda: "finishing this step" in mage.said(), SIGTERM)(pid)

    ended = mage(*work.next_command(folder), "batch.groups=400", "batch.size=8", meanwhile=terminate_twice)
    assert ended == (130, "finishing this step; interrupt again to stop at once\n")


def test_an_evaluation_that_is_terminated_says_how_to_go_on(
    mage: Mage, all_works: dict[str, Work], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    harm = when(lambda: count_lines(folder / "trials.jsonl") >= 1, SIGTERM)
    ended = mage(*all_works["evaluate"].next_command(folder), "--trials", "50", meanwhile=harm)
    assert ended.code == 130
    assert ended.said.endswith(f"what was played is saved; go on with  mage evaluate --resume {folder}\n")
