"""Run a scenario with one tree: the base commit in a worktree of its own, or the tree as it is."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from tests.guard.scenarios import Scenario

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = ("torch", "transformers", "safetensors", "tokenizers", "peft", "numpy", "scipy", "open_spiel", "msgspec")
_HASH_SEEDS = {True: "1", False: "2"}
"""Of the base and of the present tree: an order that follows the hashes of strings shows as a difference."""
_DRIVER = """
import contextlib, json, sys
import mage
print(mage.__file__, flush=True)
from mage.cli import main
for number, argv in enumerate(json.loads(sys.argv[1])):
    sys.argv = ["mage", *argv]
    code = 0
    with open(f"said-{number}.txt", "w", encoding="utf-8") as said, contextlib.redirect_stdout(said):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    if code:
        sys.exit(f"mage {' '.join(argv)} ended with {code}")
"""


class GuardError(Exception):
    """A scenario could not be run."""


def run_scenario(scenario: Scenario, tree: Path, folder: Path, *, is_base: bool) -> None:
    """Run the commands of a scenario with the code of a tree; what they write and print is in the folder."""
    folder.mkdir(parents=True)
    commands = [shlex.split(command) for command in scenario.commands(is_base=is_base)]
    done = subprocess.run(
        [sys.executable, "-c", _DRIVER, json.dumps(commands)],
        cwd=folder,
        env=_environment(tree, is_base),
        capture_output=True,
        text=True,
        check=False,
    )
    imported = Path(done.stdout.partition("\n")[0])
    if done.stdout and not imported.resolve().is_relative_to((tree / "mage").resolve()):
        raise GuardError(f"{imported} was imported, which is not in {tree}")
    if done.returncode:
        raise GuardError("\n".join(done.stderr.strip().splitlines()[-12:]))
    _forget_place(folder)


def _forget_place(folder: Path) -> None:
    """Where a file names the folder it was written in, let it name the same one in both trees."""
    for path in (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".safetensors"):
        data = path.read_bytes()
        if os.fsencode(folder) in data:
            path.write_bytes(data.replace(os.fsencode(folder), b"/scenario"))


def _environment(tree: Path, is_base: bool) -> dict[str, str]:
    """One thread, no network, no terminal, and this tree before all that is installed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAGE", "PYTHON"))}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    fixed = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "COLUMNS": "100", "NO_COLOR": "1"}
    return {**kept, **threads, **fixed, "PYTHONPATH": str(tree), "PYTHONHASHSEED": _HASH_SEEDS[is_base]}


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
    made_by = [commit, scenario.base, _DRIVER, sys.version, platform.platform(), _processor(), versions]
    key = hashlib.sha256(json.dumps(made_by).encode()).hexdigest()[:16]
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "mage-guard" / f"{scenario.name}-{key}"


def fill_cache(scenarios: Sequence[Scenario], commit: str) -> Iterator[tuple[Scenario, Path]]:
    """Each scenario with the base's output, which is made where there is none yet."""
    if all(cached(scenario, commit).is_dir() for scenario in scenarios):
        yield from ((scenario, cached(scenario, commit)) for scenario in scenarios)
        return
    with checked_out(commit) as tree:
        for scenario in scenarios:
            target = cached(scenario, commit)
            if not target.is_dir():
                _make(scenario, tree, target)
            yield scenario, target


def _make(scenario: Scenario, tree: Path, target: Path) -> None:
    """A folder gets its name when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        run_scenario(scenario, tree, made, is_base=True)
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
