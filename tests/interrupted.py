"""Commands that are killed or run out of room, gone on with, and compared with one that nothing happened to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from signal import SIGKILL
from typing import Any

import msgspec

from mage.config.load import to_toml
from mage.runs.store import RunReader
from tests.processes import is_alive, send
from tests.tiny import MODEL, tiny_config

_SMALL = (
    "steps=4",
    "checkpoint.every=2",
    "checkpoint.transcripts=1",
    "evaluation.every=3",
    "evaluation.trials=1",
    "evaluation.final_trials=1",
    'evaluation.splits=["rps-constants"]',
    "world=rps(rounds=3)",
)
_LEAGUE = (
    "league.learners=2",
    "league.snapshot_every=1",
    "league.snapshots=3",
    "league.exploit_every=2",
    'league.explore=["learner.lr"]',
    "batch.groups=4",
)
_NOT_COMPARED = ("run.json", "sweep.json", "timings.jsonl", "workers.jsonl", "summary.txt", "index.jsonl")
"""Files with times in them, and the index, which follows the trials."""
_TIMES = ("seconds", "created", "versions", "minutes", "took_s", "command")
_LOGPROBS = "logprobs"
"""Of an evaluation: the last bit of some depends on which trials share a pass of the model, and so on what is left."""


class Work:
    """One command: how it is begun in a folder, and how it goes on once the folder has the file `mark`."""

    def __init__(self, command: str, begin: Sequence[str], option: str, mark: str) -> None:
        self._command, self._begin, self._option, self._mark = command, begin, option, mark

    def is_begun(self, folder: Path) -> bool:
        """Whether it can be gone on with; else it is begun anew."""
        return (folder / self._mark).exists()

    def next_command(self, folder: Path) -> list[str]:
        """The command that begins the work, or goes on with it."""
        if self.is_begun(folder):
            return [self._command, "--resume", str(folder)]
        return [self._command, *self._begin, self._option, str(folder)]


def works(folder: Path) -> dict[str, Work]:
    """All kinds of work by name; recipes are written to the folder."""
    recipes = {"train": _SMALL, "league": (*_SMALL, *_LEAGUE), "sweep": (*_SMALL, "steps=2")}
    for name, overrides in recipes.items():
        (folder / f"{name}.toml").write_text(to_toml(tiny_config(*overrides)), encoding="utf-8")
    judged = ["--world", "rps(rounds=3)", "--opponents", "rps-seven", "--trials", "2", "--context", "512"]
    return {
        "train": Work("train", [str(folder / "train.toml")], "--run", "run.json"),
        "league": Work("train", [str(folder / "league.toml")], "--run", "run.json"),
        "sweep": Work("sweep", [str(folder / "sweep.toml"), "--seeds", "2"], "--run", "sweep.json"),
        "evaluate": Work("evaluate", [MODEL, *judged], "--out", "run.json"),
    }


def lasting(folder: Path) -> dict[str, Any]:
    """What must be equal at the end: every file, without times; trials of an evaluation in any order."""
    found: dict[str, Any] = {}
    is_evaluation = (folder / "arms.jsonl").exists()
    for path in folder.rglob("*"):
        if path.is_dir() or path.name in _NOT_COMPARED or "superseded" in path.name or "broken" in path.name:
            continue
        name, content = str(path.relative_to(folder)), path.read_bytes()
        if is_evaluation and path.suffix == ".jsonl":
            lines = [_without(msgspec.json.decode(line), (*_TIMES, _LOGPROBS)) for line in content.splitlines()]
            found[name] = sorted(map(msgspec.json.encode, lines))
        elif path.suffix == ".json":
            found[name] = _without(msgspec.json.decode(content), _TIMES)
        else:
            found[name] = content
    return found


def _without(value: Any, keys: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(inner, keys) for key, inner in value.items() if key not in keys}
    return [_without(inner, keys) for inner in value] if isinstance(value, list) else value


def assert_same(folder: Path, whole: Path) -> None:
    """Compare with a folder of the same work that nothing happened to."""
    found, wanted = lasting(folder), lasting(whole)
    assert sorted(found) == sorted(wanted), found.keys() ^ wanted.keys()
    differ = [name for name in wanted if found[name] != wanted[name]]
    assert not differ, differ
    for run in folder.rglob("run.json"):
        assert RunReader(run.parent).damage == ()


def killed_after(folder: Path, num_changes: int, most_s: float) -> Callable[[int], None]:
    """Kill when something below a folder, or the folder itself, has changed so often, or when so much time is over."""

    def watch(pid: int) -> None:
        begun, seen, left = time.monotonic(), _listing(folder), num_changes
        while left > 0 and time.monotonic() - begun < most_s:
            if not is_alive(pid):
                return
            now = _listing(folder)
            left, seen = left - (now != seen), now
        send(pid, SIGKILL)

    return watch


def _listing(folder: Path) -> frozenset[tuple[str, int]]:
    return frozenset(_sizes(folder))


def _sizes(folder: Path) -> Iterator[tuple[str, int]]:
    try:
        yield str(folder), folder.stat().st_ino
        for path in folder.rglob("*"):
            yield str(path), path.stat().st_size
    except OSError:
        return  # not there yet, or just deleted
