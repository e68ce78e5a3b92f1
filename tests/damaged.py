"""Commands and pages on damaged files: what they end with. `python -m tests.damaged NUM SEED` damages NUM files.

Allowed are success and an error made on purpose, of one line, that names the file or the folder that it is in.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.config.load import to_toml
from mage.errors import MageError
from mage.evaluation.splits import write_split
from mage.opponents.agent_seat import seat_agent
from mage.protocols import Agent
from mage.rollout.trial import play_trial
from mage.seeds import stream
from mage.types import Task, Trial
from mage.view.read.bounds import Bounds
from mage.worlds.registry import load_world
from tests.league_played import write_league
from tests.mutations import damaged_file
from tests.recorded import make_task
from tests.tiny import tiny_config
from tests.viewed import Viewer, write_run

_COMMON = ("evaluation.final_trials=1", "checkpoint.every=1", "checkpoint.transcripts=1", "world=rps(rounds=2)")


class Outcome(NamedTuple):
    """How a call on damaged files ended."""

    call: str
    kind: str
    """`success`, `one line`, `no name` for a line that names no file, or `crash`."""
    said: str


def make_runs(root: Path) -> Path:
    """A directory of every kind of run, and a model directory, written by the real commands."""
    write_split(root / "two.json", "rps(rounds=2)", ("always:rock", "copy"))
    recipe, adapted = root / "one.toml", root / "lora.toml"
    split = f'evaluation.splits=["{root / "two.json"}"]'
    whole = ("steps=2", "evaluation.every=1", "evaluation.trials=1", "agent.memory=both", "agent.reflection_tokens=4")
    recipe.write_text(to_toml(tiny_config(*_COMMON, *whole, split)), encoding="utf-8")
    adapted.write_text(to_toml(tiny_config(*_COMMON, "steps=1", "learner.lora_rank=2")), encoding="utf-8")
    runs = root / "runs"
    mage.sweep([str(recipe)], seeds=1, folder=runs / "sweep", quiet=True)
    shutil.copytree(runs / "sweep" / "one-seed0", runs / "run")
    mage.train(str(adapted), folder=runs / "adapted", quiet=True)
    mage.evaluate(runs / "run", trials=1, folder=runs / "evaluation")
    mage.cross_play(["always:rock", "copy"], "rps(rounds=2)", trials=1, folder=runs / "cross")
    mage.nashconv("uniform", "kuhn_poker", folder=runs / "nash")
    write_league(runs / "league", steps=20)
    write_run(runs / "games", [_random_trial(task) for task in _GAMES])
    mage.export_model(runs / "run", root / "model")
    return root


_GAMES = (
    make_task("tic_tac_toe"),
    make_task("kuhn_poker"),
    make_task("rps(rounds=2)"),
    make_task("minesweeper(rows=3,columns=3,mines=1)", ()),
    make_task("sokoban", ()),
    make_task("webshop", ()),
    make_task("alfworld(size=small,turns=4)", ()),
    make_task("hidden(doors)", ()),
)


def _random_trial(task: Task) -> Trial:
    """A trial of a random player, in a world of one seat or two."""

    def make_agent(task: Task, sibling: int) -> Agent:
        return seat_agent(load_world(task.world), "uniform", task)

    return asyncio.run(play_trial(load_world(task.world), task, 0, make_agent))


def files(root: Path) -> list[Path]:
    """All files that may be damaged, in a fixed order."""
    found = [*(root / "runs").rglob("*"), *(root / "model").rglob("*")]
    return sorted(path for path in found if path.is_file() and path.suffix not in (".md", ".txt"))


class NoBounds(Bounds):
    """Asks for bounds and computes none: that would start a process for each damaged file."""

    def _start(self) -> None: ...


class Caller:
    """Calls what reads a file, in this process."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root = root
        self._scratch = scratch
        scratch.mkdir(exist_ok=True)
        self._num = 0
        self._ids = {run["name"]: run["id"] for run in Viewer(root / "runs").get("/api/runs")}

    def calls(self, path: Path, number: int) -> Iterator[Outcome]:
        """How everything ends that reads this file, while it has the damage with this number."""
        folder, *rest = path.relative_to(self._root).parts
        if folder == "model":
            yield self._command(path, "evaluate", self._root / "model", *_ON_ONE, "--out", self._new())
            return
        run = self._root / "runs" / rest[0]
        for arguments in self._arguments(run, number, "checkpoints" in rest or "tokenizer" in rest):
            yield self._command(path, *arguments)
        yield from self._pages(path, run.name)

    def _arguments(self, run: Path, number: int, has_weights: bool) -> Iterator[Sequence[object]]:
        if run.name in ("run", "adapted"):
            yield "export-model", run, "--out", self._new()
        if run.name == "adapted":
            yield "export-model", run, "--merge", "--out", self._new()
        if has_weights and run.name in ("run", "adapted") and number % 3 == 0:
            yield "evaluate", run, *_ON_ONE, "--out", self._new()
        if has_weights:
            return
        if run.name != "sweep":
            yield "show", run
            yield "show", run, number % len(_GAMES) if run.name == "games" else 0
            if number % 2:
                yield "export", run, "--out", self._new()
        if run.name == "league":
            yield "league", run
        else:
            yield "compare", run

    def _new(self) -> Path:
        self._num += 1
        return self._scratch / str(self._num)

    def _command(self, path: Path, *arguments: object) -> Outcome:
        done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "100"})
        call = f"mage {arguments[0]}"
        if done.exception is None or isinstance(done.exception, SystemExit):
            is_fine = done.exit_code == 0
            return Outcome(call, "success" if is_fine else "crash", done.output[-300:])
        return self._ended(call, path, done.exception)

    def _pages(self, path: Path, name: str) -> Iterator[Outcome]:
        viewer = Viewer(self._root / "runs")
        yield self._page(viewer, path, "/api/runs")
        if path.name == "run.json":
            yield self._page(viewer, path, "/api/choices")
        base = f"/api/runs/{self._ids[name]}"
        for rest in ("", "/metrics", "/trials", "/trials/0", "/trials/4", "/pairs", "/league", "/evaluations/x"):
            yield self._page(viewer, path, base + rest)
        found = viewer.client.get(base)
        for evaluation in found.json().get("evaluations", ()) if found.status_code == 200 else ():
            yield self._page(viewer, path, f"{base}/evaluations/{evaluation}")

    def _page(self, viewer: Viewer, path: Path, address: str) -> Outcome:
        call = "GET " + "/".join(part for part in address.split("/")[:6] if len(part) != 12)
        try:
            answer = viewer.client.get(address)
        except Exception as error:  # noqa: BLE001
            return self._ended(call, path, error)
        said = json.loads(answer.content, parse_constant=_refuse)
        if answer.status_code == 200:
            return Outcome(call, "success", "")
        if "something went wrong" in said["error"] or "\n" in said["error"]:
            return Outcome(call, "crash", said["error"])
        return Outcome(call, "one line", said["error"])

    def _ended(self, call: str, path: Path, error: BaseException) -> Outcome:
        if not isinstance(error, MageError):
            return Outcome(call, "crash", f"{type(error).__name__}: {str(error)[:300]}")
        said = " ".join(str(error).split())
        folders = [
            str(f) for f in path.parents if f.is_relative_to(self._root) and f.name not in (self._root.name, "runs")
        ]
        named = (path.name, *folders, "tasks could be played")  # the last of a model that loads and plays nonsense
        return Outcome(call, "one line" if any(name in said for name in named) else "no name", said)


_ON_ONE = ("--world", "rps(rounds=2)", "--opponents", "always:rock", "--trials", "1", "--episodes", "1")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def damage(root: Path, scratch: Path, num: int, seed: int) -> Iterator[tuple[str, int, Outcome]]:
    """Damage `num` files, one at a time and every kind in turn, and call all that read them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mage.view.app.Bounds", NoBounds)
        found, caller = files(root), Caller(root, scratch)
        for number in stream(seed, "order").sample(range(num), num):
            path = found[number % len(found)]
            with damaged_file(path, seed, number):
                for outcome in caller.calls(path, number):
                    yield str(path.relative_to(root)), number, outcome


def _hangs(signum: int, frame: object) -> None:
    raise TimeoutError("hangs")


def main() -> None:
    num, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    counts: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, _hangs)
    with TemporaryDirectory() as folder:
        root = make_runs(Path(folder))
        print("made", flush=True)
        signal.alarm(10)
        for name, number, outcome in damage(root, Path(folder) / "out", num, seed):
            signal.alarm(10)
            counts[outcome.kind] += 1
            if outcome.kind in ("crash", "no name"):
                print(outcome.kind, name, number, outcome.call, outcome.said.replace("\n", " | "), flush=True)
        signal.alarm(0)
    print(counts)


if __name__ == "__main__":
    main()
