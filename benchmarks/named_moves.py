"""Which move of the opponent the thoughts of an agent at rock-paper-scissors name: its last one, or its next one?

    mage evaluate RUN --out FOLDER
    python benchmarks/named_moves.py FOLDER

Prints, by split and episode, the share of free-text answers that have a thought, and of those whose thought names a
move of the opponent, and of these how often it is the opponent's last move, its next one, and what the action beats.
Opponents often repeat a move, so the same is printed for the thoughts before which the two differ: naming the next one
there is a prediction, a third by chance.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from one_rule import beaten_by

from mage.evaluation.trial_log import read_arms
from mage.runs.store import RunReader
from mage.types import Trial

NAMED = r"(?:opponent|they)\b[^.,]*?\b({})\b"


class Answer(NamedTuple):
    """An answer, and the opponent's moves before and after it."""

    episode: int
    named: str
    """The move that its thought names first; empty where it names none."""
    beaten: str
    """What beats that move."""
    action: str | None
    last: str | None
    next: str | None
    has_thought: bool


def answers(trial: Trial) -> Iterator[Answer]:
    last: str | None = None
    for number, episode in enumerate(trial.episodes, 1):
        mine, theirs = (
            [turn for turn in episode.turns if (turn.observation.seat == trial.task.seat) is is_mine]
            for is_mine in (True, False)
        )
        for own, other in zip(mine, theirs, strict=False):
            thought, tag, _ = own.text.partition("<action>")
            moves = own.observation.actions
            found = re.search(NAMED.format("|".join(moves)), thought, re.IGNORECASE)
            named = found[1].lower() if found else ""
            has_thought = bool(tag and thought.strip().removeprefix("Thought:").strip())
            yield Answer(number, named, named and beaten_by(named, moves), own.action, last, other.action, has_thought)
            last = other.action


def shares(found: list[Answer]) -> str:
    """How often the named move is the last one, the next one, and beaten."""
    num = max(1, len(found))
    last, then, beaten = (
        sum(hits) / num
        for hits in (
            [one.named == one.last for one in found],
            [one.named == one.next for one in found],
            [one.beaten == one.action for one in found],
        )
    )
    return f"last {last:.2f}, next {then:.2f}, beaten by the action {beaten:.2f} of {len(found)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    found: defaultdict[tuple[str, int], list[Answer]] = defaultdict(list)
    for arm, trial in zip(read_arms(folder), RunReader(folder).trials(), strict=True):
        if arm.arm == "agent" and isinstance(trial, Trial):
            for answer in answers(trial):
                found[arm.split, answer.episode].append(answer)
    for (split, episode), all_of_it in sorted(found.items()):
        naming = [one for one in all_of_it if one.named]
        differing = [one for one in naming if one.last not in (None, one.next)]
        num = len(all_of_it)
        thinking = sum(one.has_thought for one in all_of_it) / num
        print(f"{split}, episode {episode}, {num} answers: {thinking:.2f} think, {len(naming) / num:.2f} name a move")
        print(f"  all: {shares(naming)}\n  where last and next differ: {shares(differing)}")


if __name__ == "__main__":
    main()
