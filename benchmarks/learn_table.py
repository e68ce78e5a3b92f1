"""The table of `learn.md` from finished runs: last episode, control and references over training seeds.

mage train rps seed=0 --run a; mage train rps seed=1 --run b; mage train rps seed=2 --run c
python benchmarks/learn_table.py a b c
"""

from __future__ import annotations

import sys
from pathlib import Path

from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.regret import mean_over_seats
from mage.evaluation.suite.report import read_report
from mage.evaluation.suite.report_tables import interval
from mage.files import read_lines
from mage.training.resume_changes import config_of


def main(folders: list[Path]) -> None:
    """Print one row per seed and split, in Markdown."""
    print("| split | seed | episode 1 | episode 2 | episode 3 | without memory | best memoryless | limit | train s |")
    print("|---|---|---|---|---|---|---|---|---|")
    rows = [(report, folder) for folder in folders for report in reports_of(folder)]
    for report, folder in sorted(rows, key=lambda row: row[0].split):
        scores = " | ".join(interval(score) for score in report.agent.scores)
        seconds = list(read_lines(folder / "timings.jsonl"))[-1]["elapsed_s"]
        bounds = " | ".join(str(mean_over_seats(report.references, name)) for name in ("memoryless", "bayes_last"))
        control = interval(report.control.scores[-1])
        print(f"| {report.split} | {config_of(folder).seed} | {scores} | {control} | {bounds} | {seconds:.0f} |")


def reports_of(folder: Path) -> list[SplitReport]:
    """The final evaluation of a run."""
    return list(read_report(folder / "evaluations" / "final.json", SplitReport).reports)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
