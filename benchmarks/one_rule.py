"""How much of an agent's rock-paper-scissors is one rule: beat the move of the same round of the episode before.

    mage evaluate AGENT --out FOLDER
    python benchmarks/one_rule.py FOLDER

Prints, by split, episode and round, the share of the agent's moves that the rule would have made too. The rule by
itself is a player: `mage evaluate scripted:latest agent.memory=history`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from mage.evaluation.trial_log import read_arms
from mage.runs.store import RunReader
from mage.types import Trial


def beaten_by(move: str, moves: Sequence[str]) -> str:
    """Which of rock, paper and scissors, in this order and whatever their names are, beats a move.

    >>> beaten_by("paper", ("rock", "paper", "scissors"))
    'scissors'
    """
    return moves[(moves.index(move) + 1) % len(moves)]


def by_the_rule(trial: Trial) -> Iterator[tuple[int, int, bool]]:
    """Every move after the first episode: its episode and round, and whether it is the rule's."""
    before: list[str | None] = []
    for number, episode in enumerate(trial.episodes, 1):
        mine, theirs = (
            [turn for turn in episode.turns if (turn.observation.seat == trial.task.seat) is is_mine]
            for is_mine in (True, False)
        )
        for index, (turn, earlier) in enumerate(zip(mine, before, strict=False), 1):
            ruled = None if earlier is None else beaten_by(earlier, turn.observation.actions)
            yield number, index, ruled is not None and turn.action == ruled
        before = [turn.action for turn in theirs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    found: defaultdict[tuple[str, int, int], list[bool]] = defaultdict(list)
    for arm, trial in zip(read_arms(folder), RunReader(folder).trials(), strict=True):
        if arm.arm == "agent" and isinstance(trial, Trial):
            for episode, index, is_ruled in by_the_rule(trial):
                found[arm.split, episode, index].append(is_ruled)
    for (split, episode, index), moves in sorted(found.items()):
        print(f"{split}, episode {episode}, round {index}: {sum(moves) / len(moves):.3f} of {len(moves)} moves")


if __name__ == "__main__":
    main()
