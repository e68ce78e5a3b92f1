"""Players without a model on splits of a world of one seat: success in the first and the last episode.

    python benchmarks/sanity_table.py sokoban-seen sokoban-unseen sokoban-harder [--trials 4] [--players uniform expert]

Each row is one `mage evaluate`. 95 % intervals are over tasks: the trials of one task are one cluster, also on splits
of seen tasks, where `mage evaluate` takes the tasks as given.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path

from where import commit

import mage
from mage.evaluation.trial_log import read_arms
from mage.grouped import Units, grouped_share
from mage.runs.store import RunReader
from mage.types import Trial

PLAYERS = ("uniform", "learns-from-failure", "expert")


def successes(player: str, split: str, trials: int) -> dict[str, list[Trial]]:
    """The trials of a player on a split by arm: with memory, and without."""
    found: defaultdict[str, list[Trial]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "evaluation"
        mage.evaluate(player, opponents=[split], trials=trials, folder=path)
        for arm, trial in zip(read_arms(path), RunReader(path).trials(), strict=True):
            if isinstance(trial, Trial):
                found[arm.arm].append(trial)
    return found


def share(trials: list[Trial], episode: int) -> str:
    """The share of trials that succeed in an episode, with its interval."""
    tasks = [trial.task.level for trial in trials]
    done = [float(trial.episodes[episode].result.is_success(trial.task.seat)) for trial in trials]
    value = grouped_share(done, tasks, Units.MEMBERS)
    return f"{value.value:.3f} ({value.low:.3f} to {value.high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("splits", nargs="+")
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--players", nargs="+", default=PLAYERS)
    args = parser.parse_args()
    print(f"commit {commit()}, {args.trials} trials of each task\n")
    print("| split | player | first episode | last episode | last, without memory |\n|---|---|---|---|---|")
    for split in args.splits:
        for player in args.players:
            arms = successes(player, split, args.trials)
            cells = share(arms["agent"], 0), share(arms["agent"], -1), share(arms["control"], -1)
            print(f"| `{split}` | `{player}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
