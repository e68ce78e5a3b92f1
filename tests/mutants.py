"""Breaks one thing at a time and sees whether the tests notice. `python -m tests.mutants` prints the table.

Each mutant is a textual patch on a copy of the package; the text it replaces must occur exactly once, so that a
mutant never goes stale in silence. The tests named with it run against the copy and stop at the first failure. A
mutant that survives is a hole in the tests. `python -m tests.mutants benchmarks/mutants.md` writes the table down.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.tree import ROOT

COMMAND = "python -m tests.mutants"
_TIMEOUT_S = 600.0


class Mutant(NamedTuple):
    """One thing broken."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """Files of tests that ought to notice, in the order in which they run."""


class Outcome(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    caught_by: str | None
    """The first test that failed; None when all passed."""
    seconds: float


MUTANTS = (
    Mutant(
        "sign of the advantage",
        "mage/learners/micro_loss.py",
        "            advantages_N,\n",
        "            -advantages_N,\n",
        ("tests/test_learner.py",),
    ),
    Mutant(
        "mask shifted by one",
        "mage/learners/samples.py",
        "row = (call.start + index, number,",
        "row = (call.start + index - 1, number,",
        ("tests/test_samples.py",),
    ),
    Mutant(
        "logits read one late",
        "mage/learners/batch.py",
        "before_N=torch.tensor([p - 1 for s",
        "before_N=torch.tensor([p for s",
        ("tests/test_learner.py",),
    ),
    Mutant(
        "next-episode term dropped",
        "mage/credit/returns.py",
        "[mine + share * later for mine, share in",
        "[mine + 0.0 * share * later for mine, share in",
        ("tests/test_returns.py",),
    ),
    Mutant(
        "siblings mixed in the batch",
        "mage/training/loop.py",
        "credited[number].trials, advantages[number], strict=True)",
        "credited[number].trials, advantages[number][::-1], strict=True)",
        ("tests/test_learning.py",),
    ),
    Mutant(
        "siblings mixed between groups",
        "mage/rollout/group.py",
        "outcomes[i * size : (i + 1) * size]",
        "outcomes[i :: len(tasks)]",
        ("tests/test_group.py",),
    ),
    Mutant(
        "stale weights",
        "mage/engines/local/engine.py",
        "        self._executor.load(weights)\n",
        "",
        ("tests/test_learner.py",),
    ),
    Mutant(
        "wrong temperature in the learner",
        "mage/learners/lm_head.py",
        "logits_NV.float() / self.temperature",
        "logits_NV.float()",
        ("tests/test_learner.py",),
    ),
    Mutant(
        "wrong temperature in the engine",
        "mage/engines/local/sampling.py",
        "torch.log_softmax(logits_RA / temperature_R1, dim=1)",
        "torch.log_softmax(logits_RA * temperature_R1, dim=1)",
        ("tests/test_learner.py",),
    ),
    Mutant(
        "allowed set ignored",
        "mage/learners/losses.py",
        "constrained_N = (allowed_NK >= 0).any(dim=1)",
        "constrained_N = (allowed_NK < -1).any(dim=1)",
        ("tests/test_learner.py",),
    ),
    Mutant(
        "baseline including itself",
        "mage/credit/group_baselines.py",
        "origin + (total - (value - origin)) / others)",
        "origin + total / len(values))",
        ("tests/test_estimators.py",),
    ),
    Mutant(
        "statistics not saved",
        "mage/training/recorder.py",
        "            stats=self.stats,\n",
        "            stats=EMPTY,\n",
        ("tests/test_learning.py",),
    ),
    Mutant(
        "reflections untrained",
        "mage/credit/steps.py",
        "trained = return_spec.objective is not Objective.SINGLE and index + 1 < len(episodes)",
        "trained = False",
        ("tests/test_steps.py",),
    ),
    Mutant(
        "reflections left out of the batch",
        "mage/learners/samples.py",
        "        if advantage is not None:\n",
        '        if advantage is not None and turn.phase != "reflect":\n',
        ("tests/test_learning.py",),
    ),
)


def patched(mutant: Mutant, root: Path = ROOT) -> str:
    """The broken file's text. The patch must fit in one place and one only."""
    text = (root / mutant.file).read_text(encoding="utf-8")
    found = text.count(mutant.old)
    assert found == 1, f"{mutant.name}: {mutant.old.strip()!r} occurs {found} times in {mutant.file}, not once"
    return text.replace(mutant.old, mutant.new)


def first_failure(folder: Path, tests: tuple[str, ...]) -> str | None:
    """Run tests against the package in `folder`; the first that fails, or None."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "--tb=no", "-rfE", "-n0", *tests]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {_TIMEOUT_S:.0f} s"
    if done.returncode == 0:
        return None
    match = re.search(r"^(?:FAILED|ERROR) (\S+?\.py\S*)", done.stdout, re.MULTILINE)
    assert match is not None, f"pytest did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return match[1]


def run() -> list[Outcome]:
    """Try all mutants on one copy of the sources, in which the tests pass while nothing is broken."""
    everything = tuple(sorted({test for mutant in MUTANTS for test in mutant.tests}))
    with tempfile.TemporaryDirectory(prefix="mage-mutants-") as name:
        folder = Path(name)
        for part in ("mage", "tests"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        failed = first_failure(folder, everything)
        if failed is not None:
            raise SystemExit(f"nothing is broken, and yet {failed} fails")
        return [try_mutant(mutant, folder) for mutant in MUTANTS]


def try_mutant(mutant: Mutant, folder: Path) -> Outcome:
    """Break the copy, see who notices, and mend it."""
    began = time.perf_counter()
    path = folder / mutant.file
    whole = path.read_text(encoding="utf-8")
    path.write_text(patched(mutant, folder), encoding="utf-8")
    caught_by = first_failure(folder, mutant.tests)
    path.write_text(whole, encoding="utf-8")
    outcome = Outcome(mutant, caught_by, time.perf_counter() - began)
    print(f"{mutant.name}: {caught_by or 'SURVIVED'} ({outcome.seconds:.0f} s)", file=sys.stderr, flush=True)
    return outcome


def table(outcomes: list[Outcome]) -> str:
    """The outcomes in Markdown."""
    rows = [
        f"| {mutant.name} | `{mutant.file}` | {f'`{caught_by}`' if caught_by else '**survived**'} | {seconds:.0f} |"
        for mutant, caught_by, seconds in outcomes
    ]
    return "\n".join(["| broken | file | caught by | seconds |", "|---|---|---|---|", *rows]) + "\n"


def page(outcomes: list[Outcome]) -> str:
    """The page for `benchmarks/`."""
    commit = _git("rev-parse", "--short", "HEAD") + (", with changes" if _git("status", "--porcelain") else "")
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores (shared and noisy)"
    caught = sum(outcome.caught_by is not None for outcome in outcomes)
    return f"""# Mutants

`{COMMAND} benchmarks/mutants.md`. Machine: {machine}, Python {platform.python_version()}. Commit {commit}.

One thing is broken at a time in a copy of the package, and the tests that ought to notice run until the first of them
fails. {caught} of {len(outcomes)} are caught. With nothing broken, the same tests pass. Seconds include the start of
Python and PyTorch.

{table(outcomes)}"""


def _git(*arguments: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    results = run()
    print(table(results), end="")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(page(results), encoding="utf-8")
    sys.exit(any(outcome.caught_by is None for outcome in results))
