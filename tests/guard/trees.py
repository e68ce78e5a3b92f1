"""Run scenarios with one tree: the base commit in a worktree of its own, or the tree as it is."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Self

from tests.guard.scenarios import Scenario

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("torch", "transformers", "safetensors", "tokenizers", "peft", "numpy", "scipy", "open_spiel", "msgspec")
_FIXED = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    **{"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "COLUMNS": "400", "NO_COLOR": "1"},
}
_HASH_SEEDS = {True: "1", False: "2"}
"""Of the base and of the present tree: an order that follows the hashes of strings shows as a difference."""
_SERVER = """
import contextlib, json, os, sys, traceback
import mage
print(mage.__file__, flush=True)
with contextlib.suppress(ImportError):  # slow, and not what is tested
    import peft, transformers.models.llama.modeling_llama

def run(commands):
    from mage.cli import main
    for number, argv in enumerate(commands):
        sys.argv = ["mage", *argv]
        code = 0
        with open(f"said-{number}.txt", "w", encoding="utf-8") as said, contextlib.redirect_stdout(said):
            try:
                main()
            except SystemExit as stop:
                code = stop.code
        if code:
            sys.exit(f"mage {' '.join(argv)} ended with {code}")

for line in sys.stdin:
    folder, log, commands = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        code = 1
        try:
            run(commands)
            code = 0
        except SystemExit as stop:
            print(stop.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class GuardError(Exception):
    """A scenario could not be run."""


class Tree:
    """A tree that scenarios run with: one process imports torch, and forks for each of them."""

    def __init__(self, path: Path, *, is_base: bool) -> None:
        self._path = path
        self._is_base = is_base
        self._server: subprocess.Popen[str] | None = None
        self._scratch = tempfile.TemporaryDirectory(prefix="mage-guard-")
        self._log = Path(self._scratch.name) / "stderr"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
        self._scratch.cleanup()

    def run(self, scenario: Scenario, folder: Path) -> None:
        """Run the commands of a scenario with the code of the tree; what they write and print is in the folder."""
        if self._server is None:
            self._server = self._started()
        folder.mkdir(parents=True)
        commands = [shlex.split(command) for command in scenario.commands(is_base=self._is_base)]
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps([str(folder), str(self._log), commands]) + "\n")
        self._server.stdin.flush()
        if self._answer(self._server) != "0":
            raise GuardError("\n".join(self._log.read_text(encoding="utf-8").strip().splitlines()[-12:]))
        _forget_place(folder)

    def _started(self) -> subprocess.Popen[str]:
        """The process, once it has said which `mage` it imported."""
        with self._log.open("w") as log:
            server = subprocess.Popen(
                [sys.executable, "-c", _SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._scratch.name,
                env=_environment(self._path, self._is_base),
                start_new_session=True,
            )
        imported = Path(self._answer(server)).resolve()
        if not imported.is_relative_to((self._path / "mage").resolve()):
            raise GuardError(f"{imported} was imported, which is not in {self._path}")
        return server

    def _answer(self, server: subprocess.Popen[str]) -> str:
        assert server.stdout is not None
        line = server.stdout.readline().strip()
        if not line:
            raise GuardError(f"the process ended: {self._log.read_text(encoding='utf-8')[-2000:]}")
        return line


def _forget_place(folder: Path) -> None:
    """Where a file names the folder it was written in, let it name the same one in both trees."""
    for path in (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".safetensors"):
        data = path.read_bytes()
        if os.fsencode(folder) in data:
            path.write_bytes(data.replace(os.fsencode(folder), b"/scenario"))


def _environment(tree: Path, is_base: bool) -> dict[str, str]:
    """One thread, no network, lines so long that no table is broken, and this tree before all that is installed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAGE", "PYTHON"))}
    return {**kept, **_FIXED, "PYTHONPATH": str(tree), "PYTHONHASHSEED": _HASH_SEEDS[is_base]}


def resolved(commit: str) -> str:
    """The full name of a commit."""
    return _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").strip()


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The tree of a commit in a temporary worktree, which is removed in any case."""
    scratch = Path(tempfile.mkdtemp(prefix="mage-guard-"))
    tree = scratch / "tree"
    try:
        _git("worktree", "add", "--detach", "--quiet", str(tree), commit)
        yield tree
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        _git("worktree", "prune")


def cached(scenario: Scenario, commit: str) -> Path:
    """Where the base's output of a scenario is kept for the next time."""
    versions = {name: metadata.version(name) for name in _PACKAGES if _is_installed(name)}
    made_by = [commit, scenario.base, _SERVER, _FIXED, sys.version, platform.platform(), _processor(), versions]
    key = hashlib.sha256(json.dumps(made_by).encode()).hexdigest()[:16]
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "mage-guard" / f"{scenario.name}-{key}"


def fill_cache(scenarios: Sequence[Scenario], commit: str) -> Generator[tuple[Scenario, Path]]:
    """Each scenario with the base's output, which is made where there is none yet."""
    if all(cached(scenario, commit).is_dir() for scenario in scenarios):
        yield from ((scenario, cached(scenario, commit)) for scenario in scenarios)
        return
    with checked_out(commit) as path, Tree(path, is_base=True) as tree:
        for scenario in scenarios:
            target = cached(scenario, commit)
            if not target.is_dir():
                _make(scenario, tree, target)
            yield scenario, target


def _make(scenario: Scenario, tree: Tree, target: Path) -> None:
    """A folder gets its name when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        tree.run(scenario, made)
        if not target.is_dir():
            made.rename(target)


def _processor() -> str:
    """The kind of processor: its vector instructions decide how sums are rounded."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise GuardError(f"git {' '.join(arguments)}: {done.stderr.strip() or 'failed'}")
    return done.stdout
