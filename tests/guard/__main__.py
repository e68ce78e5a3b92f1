"""`python -m tests.guard [SCENARIO …] [--base COMMIT] [--keep DIR]`: does the present tree do what the base does?

Weights, trials, metrics, events, reports and tables in files are compared bit for bit, after the renames of renames.py.
Of what is printed the numbers are compared, in their order, and not the words.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter

from tests.guard.compare import Compared, compare_folders
from tests.guard.scenarios import SCENARIOS, Scenario
from tests.guard.trees import ROOT, GuardError, Tree, fill_cache, resolved

BASE = "593a8a9"
_SHOWN, _SHOWN_OF_A_FILE = 10, 2
"""Differences named for each scenario, and for each of its files."""
_ROW = "{:<16} {:>6} {:>8} {:>9} {:>8}  {}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scenarios, print a table, and return the exit code: 1 where something differs."""
    options = _parser().parse_args(arguments)
    unknown = set(options.scenarios) - set(options.names)
    if unknown:
        print(
            f"guard: unknown scenario {', '.join(sorted(unknown))}; known: {', '.join(options.names)}", file=sys.stderr
        )
        return 2
    wanted = [scenario for scenario in SCENARIOS if not options.scenarios or scenario.name in options.scenarios]
    try:
        commit = resolved(options.base)
        print(f"base {commit[:12]}, present tree {ROOT}\n")
        print(_ROW.format("scenario", "files", "tensors", "values", "seconds", "verdict"), flush=True)
        with (
            tempfile.TemporaryDirectory(prefix="mage-guard-") as scratch,
            Tree(ROOT, is_base=False) as tree,
            closing(fill_cache(wanted, commit)) as bases,
        ):
            verdicts = [
                _judge(scenario, base, tree, Path(scratch) / scenario.name, options.keep) for scenario, base in bases
            ]
    except GuardError as error:
        print(f"guard: {error}", file=sys.stderr)
        return 1
    num_red = verdicts.count(False)
    print(
        f"\n{num_red} of {len(verdicts)} scenarios differ" if num_red else f"\nall {len(verdicts)} scenarios are equal"
    )
    return int(num_red > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.guard", description=__doc__.split("\n")[0])
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("scenarios", metavar="SCENARIO", nargs="*", help=f"all by default: {', '.join(names)}")
    parser.add_argument("--base", default=BASE, metavar="COMMIT", help=f"the commit to compare with; {BASE} by default")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy what both trees wrote to this folder")
    parser.set_defaults(names=names)
    return parser


def _judge(scenario: Scenario, base: Path, tree: Tree, present: Path, keep: Path | None) -> bool:
    """Run a scenario with the present tree, compare, and print a row; whether all is equal."""
    begun = perf_counter()
    problems: list[str] = []
    compared = Compared()
    try:
        tree.run(scenario, present)
        compared = compare_folders(base, present)
        problems = compared.differences
        verdict = f"{len(problems)} differences" if problems else "equal"
    except GuardError as error:
        problems, verdict = str(error).splitlines(), "failed"
    took_s = f"{perf_counter() - begun:.1f}"
    counts = (compared.num_files, compared.num_tensors, compared.num_values)
    print(_ROW.format(scenario.name, *counts, took_s, verdict), flush=True)
    for problem in _first(problems) if compared.num_files else problems:
        print(f"    {problem}", flush=True)
    if keep is not None:
        for name, folder in (("base", base), ("present", present)):
            shutil.copytree(folder, keep / scenario.name / name, dirs_exist_ok=True)
    shutil.rmtree(present, ignore_errors=True)
    return not problems


def _first(differences: Sequence[str]) -> list[str]:
    """A few differences, from as many files as possible."""
    by_file: dict[str, list[str]] = {}
    for difference in differences:
        by_file.setdefault(difference.partition(": ")[0], []).append(difference)
    return [told for found in by_file.values() for told in found[:_SHOWN_OF_A_FILE]][:_SHOWN]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the worktree is removed then too
    sys.exit(main())
