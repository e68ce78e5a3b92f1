"""The run directory: exact round trip, and nothing lost but the line being written."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from mage.errors import RecordError
from mage.runs.index import INDEX, TRIALS
from mage.runs.new_directory import new_run_path
from mage.runs.store import RUN, SCHEMA, RunReader, RunWriter
from mage.types import Ending, Failure, Trial
from tests.recorded import betting, failure, guest_trial, make_task, model_trial

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def outcomes() -> list[Trial | Failure]:
    """A bit of everything: hidden cards, boards, tokens, reflections, three seats, a failure, odd characters."""
    return [
        guest_trial(make_task(seed=2**64 - 1)),
        guest_trial(make_task("tic_tac_toe", seed=5, episodes=1)),
        model_trial(make_task(seat=1), betting()),
        failure("[red]\x1b[2J\u2028 näh 🂡"),
        guest_trial(make_task("kuhn_poker(players=3)", ("uniform", "uniform"), seat=2)),
        guest_trial(make_task("leduc_poker", seed=4, episodes=2)),
    ]


def write(path: Path, outcomes: list[Trial | Failure]) -> Path:
    with RunWriter.create(path, kind="test", config={"a": [1, None, "x"]}, seed=7) as writer:
        assert [writer.append(outcome) for outcome in outcomes] == list(range(len(outcomes)))
    return path


def test_round_trip_is_exact(tmp_path: Path, outcomes: list[Trial | Failure]) -> None:
    reader = RunReader(write(tmp_path / "run", outcomes))
    assert list(reader.trials()) == outcomes
    assert [reader.trial(n) for n in (3, 0, 5)] == [outcomes[3], outcomes[0], outcomes[5]]
    assert reader.damage == ()
    assert repr(list(reader.trials())) == repr(outcomes), "equal in type too: 1 is not 1.0, a tuple not a list"


def test_run_json_says_what_was_run(tmp_path: Path) -> None:
    info = RunReader(write(tmp_path / "run", [])).info
    assert (info.schema, info.kind, info.seed, info.config) == (SCHEMA, "test", 7, {"a": [1, None, "x"]})
    assert set(info.versions) == {"mage", "python", "open_spiel"}


def test_summaries_are_thin_and_true(tmp_path: Path, outcomes: list[Trial | Failure]) -> None:
    summaries = RunReader(write(tmp_path / "run", outcomes)).summaries()
    trial = outcomes[2]
    assert isinstance(trial, Trial)
    assert summaries[2].scores == trial.scores
    assert summaries[2].endings == (Ending.FINISHED,) * 3
    assert (summaries[2].agent, summaries[2].seat, summaries[2].opponents) == ("scripted:test", 1, ("uniform",))
    assert summaries[3].error == "PlayError: [red]\x1b[2J\u2028 näh 🂡"
    assert summaries[3].agent is None
    data = (tmp_path / "run" / TRIALS).read_bytes()
    for summary, line in zip(summaries, data.splitlines(keepends=True), strict=True):
        assert data[summary.offset : summary.end] == line


def test_invalid_replies_and_forfeits_are_counted(tmp_path: Path) -> None:
    trial = model_trial(make_task(episodes=2), betting(says="no idea"))
    summary = RunReader(write(tmp_path / "run", [trial])).summaries()[0]
    assert (summary.forfeits, summary.invalid_replies) == (2, 4)
    assert summary.endings == (Ending.FORFEITED, Ending.FORFEITED)


def test_a_cut_at_any_byte_of_the_last_line_loses_that_line_only(tmp_path: Path) -> None:
    outcomes: list[Trial | Failure] = [failure("a"), failure("b"), failure("c")]
    path = write(tmp_path / "run", outcomes)
    trials, index = (path / TRIALS).read_bytes(), (path / INDEX).read_bytes()
    last = trials.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(trials)):
        (path / TRIALS).write_bytes(trials[:end])
        (path / INDEX).write_bytes(index)
        reader = RunReader(path)
        assert list(reader.trials()) == outcomes[:2]
        assert any("shorter" in sentence for sentence in reader.damage)
        assert any("incomplete" in sentence for sentence in reader.damage) == (end > last)
        with RunWriter.reopen(path) as writer:
            assert bool(writer.repairs)
            writer.append(outcomes[2])
        assert list(RunReader(path).trials()) == outcomes
        assert RunReader(path).damage == ()
        assert (path / TRIALS).read_bytes() == trials
        assert (path / INDEX).read_bytes() == index
    broken = sorted(path.glob(f"{TRIALS}.broken-*"), key=lambda p: p.stat().st_size)
    assert [p.read_bytes() for p in broken] == [trials[last:end] for end in range(last + 1, len(trials))]


def test_a_cut_at_any_byte_of_the_index_loses_nothing(tmp_path: Path) -> None:
    outcomes: list[Trial | Failure] = [failure("a"), failure("b")]
    path = write(tmp_path / "run", outcomes)
    index = (path / INDEX).read_bytes()
    whole = RunReader(path).summaries()
    for end in range(len(index)):
        (path / INDEX).write_bytes(index[:end])
        reader = RunReader(path)
        assert reader.summaries() == whole
        assert reader.damage == (), "a lagging index is no damage"


@pytest.mark.parametrize("broken", [None, b"\x00\xff\n", b'{"number":5}\n', b"[]\n"])
def test_a_broken_or_missing_index_is_rebuilt_and_said(
    tmp_path: Path, outcomes: list[Trial | Failure], broken: bytes | None
) -> None:
    path = write(tmp_path / "run", outcomes)
    whole, index = RunReader(path).summaries(), (path / INDEX).read_bytes()
    if broken is None:
        (path / INDEX).unlink()
    else:
        (path / INDEX).write_bytes(index.splitlines(keepends=True)[0] + broken)
    reader = RunReader(path)
    assert reader.summaries() == whole
    assert list(reader.trials()) == outcomes
    assert len(reader.damage) == 1
    assert "rebuilt" in reader.damage[0]
    RunWriter.reopen(path).close()
    assert (path / INDEX).read_bytes() == index


def test_what_a_killed_process_had_not_finished_writing_is_removed(tmp_path: Path) -> None:
    path = write(tmp_path / "run", [failure("a")])
    (path / "snapshots").mkdir()
    unfinished, other = path / "snapshots" / ".numbers.json.77.part", path / "snapshots" / "numbers.json"
    unfinished.write_bytes(b"{")
    other.write_bytes(b"{}")
    RunReader(path)
    assert unfinished.exists(), "reading changes nothing"
    RunWriter.reopen(path).close()
    assert not unfinished.exists()
    assert other.exists()


def test_an_index_of_another_run_is_not_believed(tmp_path: Path) -> None:
    path = write(tmp_path / "run", [failure("a much longer message"), failure("b")])
    other = write(tmp_path / "other", [failure("a")])
    (path / INDEX).write_bytes((other / INDEX).read_bytes())
    reader = RunReader(path)
    assert list(reader.trials()) == [failure("a much longer message"), failure("b")]
    assert "does not fit" in reader.damage[0]


def test_a_line_spoilt_in_the_middle_keeps_the_others_and_their_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "run", [failure("a"), failure("b"), failure("c")])
    lines = (path / TRIALS).read_bytes().splitlines(keepends=True)
    (path / TRIALS).write_bytes(lines[0] + b"\x00" * (len(lines[1]) - 1) + b"\n" + lines[2])
    (path / INDEX).unlink()
    for _ in range(2):
        reader = RunReader(path)
        assert [s.number for s in reader.summaries()] == [0, 2]
        assert reader.trial(2) == failure("c")
        assert any("line 1 " in sentence for sentence in reader.damage)
        with pytest.raises(RecordError, match="no readable trial 1; it has 0 to 2"):
            reader.trial(1)
        RunWriter.reopen(path).close()  # The second round reads the mended index, which has a gap.


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "run"
    writer = RunWriter.create(path, kind="test", config={}, seed=0)
    with pytest.raises(RecordError, match="another process"):
        RunWriter.reopen(path)
    writer.close()
    RunWriter.reopen(path).close()


def test_a_run_cut_back_goes_on_as_if_the_rest_had_never_been_written(tmp_path: Path) -> None:
    early: list[Trial | Failure] = [failure(str(n)) for n in range(3)]
    late: list[Trial | Failure] = [failure(str(n)) for n in range(3, 5)]
    run, whole = write(tmp_path / "run", early), write(tmp_path / "whole", early[:1] + late)
    before = (run / TRIALS).read_bytes().splitlines(keepends=True)
    with (run / TRIALS).open("ab") as file:
        file.write(b'{"half')
    with RunWriter.reopen(run) as writer:
        writer.cut_back(1)
        assert [writer.append(outcome) for outcome in late] == [1, 2]
        with pytest.raises(RecordError, match="being written by another process"):
            RunWriter.reopen(run)
    for name in (TRIALS, INDEX):
        assert (run / name).read_bytes() == (whole / name).read_bytes()
    assert RunReader(run).damage == ()
    assert (run / f"{TRIALS}.superseded").read_bytes() == b"".join(before[1:])
    with RunWriter.reopen(run) as writer:
        writer.cut_back(9)
        assert writer.append(early[0]) == 3


def test_a_run_that_is_being_written_can_be_read(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", kind="test", config={}, seed=0) as writer:
        for n in range(3):
            writer.append(failure(str(n)))
            reader = RunReader(tmp_path / "run")
            assert [t.message for t in reader.trials() if isinstance(t, Failure)] == [str(i) for i in range(n + 1)]


def test_what_is_no_run_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="does not exist"):
        RunReader(tmp_path / "nowhere")
    with pytest.raises(RecordError, match="is not a run"):
        RunReader(tmp_path)
    (tmp_path / RUN).write_bytes(b'{"schema": 99, "unheard": "of"}')
    with pytest.raises(RecordError, match=f"schema version 99; this version of mage reads {SCHEMA}"):
        RunReader(tmp_path)
    (tmp_path / RUN).write_bytes(b"\xff{")
    with pytest.raises(RecordError, match="cannot be read") as caught:
        RunWriter.reopen(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_run_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(RecordError, match="not empty"):
        RunWriter.create(tmp_path, kind="test", config={}, seed=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot create"):
        RunWriter.create(tmp_path / "file" / "run", kind="test", config={}, seed=0)


def test_an_empty_run_is_discarded_and_a_full_one_kept(tmp_path: Path) -> None:
    for name, outcomes in (("empty", []), ("full", [failure()])):
        writer = RunWriter.create(tmp_path / name, kind="test", config={}, seed=0)
        for outcome in outcomes:
            writer.append(outcome)
        writer.discard_if_empty()
    assert [p.name for p in tmp_path.iterdir()] == ["full"]


def test_missing_trials_are_said(tmp_path: Path) -> None:
    path = write(tmp_path / "run", [failure()])
    (path / TRIALS).unlink()
    reader = RunReader(path)
    assert (reader.summaries(), reader.damage) == ((), (f"{TRIALS} is missing; no trial can be read",))


def test_numbers_that_json_cannot_hold_are_refused(tmp_path: Path) -> None:
    trial = guest_trial(make_task(episodes=1))
    episode = trial.episodes[0]
    result = msgspec.structs.replace(episode.result, returns=(float("nan"), 0.0))
    broken = msgspec.structs.replace(trial, episodes=(msgspec.structs.replace(episode, result=result),))
    with RunWriter.create(tmp_path / "run", kind="test", config={}, seed=0) as writer:
        with pytest.raises(RecordError, match="not finite"):
            writer.append(broken)
        with pytest.raises(RecordError, match="Unicode"):
            writer.append(failure("\ud800"))
        writer.append(trial)
    assert list(RunReader(tmp_path / "run").trials()) == [trial]


def test_fresh_paths_are_unique_and_tame(tmp_path: Path) -> None:
    paths = {new_run_path("duel", "../odd name", tmp_path) for _ in range(5)}
    assert len(paths) == 5
    assert all(p.parent == tmp_path and p.is_dir() and " " not in p.name for p in paths)


def test_appending_does_no_more_work_however_long_a_run_is(tmp_path: Path) -> None:
    trial = guest_trial(make_task())
    with RunWriter.create(tmp_path / "run", kind="test", config={}, seed=0) as writer:
        calls = [_num_calls(writer, trial) for _ in range(500)]
    assert calls[-1] == calls[0] < 1000


def _num_calls(writer: RunWriter, trial: Trial) -> int:
    """How many functions are called to append a trial."""
    num = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal num
        num += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        writer.append(trial)
    finally:
        sys.setprofile(None)
    return num
