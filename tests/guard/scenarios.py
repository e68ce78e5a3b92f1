"""What is run in both trees: commands of `mage` in one process and one folder, each a few steps of a tiny model.

The present tree runs the commands of the base with the parts that `renames.COMMANDS` replaces. A scenario whose command
has changed in another way names its `present` commands beside those of the base.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.guard.renames import COMMANDS

_MODEL = "nano(hidden=16,layers=1,heads=2,context=512)"
_KEPT = "checkpoint.every=2 checkpoint.transcripts=1 evaluation.trials=1 evaluation.final_trials=2 --run run"
_TINY = f"agent.model={_MODEL} agent.context=512 batch.groups=2 batch.size=4 steps=3 {_KEPT}"
_SEVEN = "evaluation.splits='[\"rps-seven\"]'"


@dataclass(frozen=True)
class Scenario:
    """Commands for the base, and for the present tree where a replacement of words does not give them."""

    name: str
    base: tuple[str, ...]
    present: tuple[str, ...] | None = None

    def commands(self, *, is_base: bool) -> tuple[str, ...]:
        """The commands for one of the trees, without the word mage."""
        if is_base:
            return self.base
        return self.present or tuple(map(translated, self.base))


def translated(command: str) -> str:
    """A command of the base in the words of the present tree."""
    for old, new in COMMANDS.items():
        end = r"(?![\w.-])" if re.match(r"\w", old[-1]) else ""
        command = re.sub(rf"(?<![\w.-]){re.escape(old)}{end}", new.replace("\\", r"\\"), command)
    return command


SCENARIOS = (
    Scenario(
        "rps",
        (
            f"train rps {_TINY} {_SEVEN} evaluation.every=2",
            "evaluate run --opponents rps-seven --trials 2 --out judged",
            "show run",
        ),
    ),
    Scenario(
        "kuhn",
        (
            f"train kuhn {_TINY}",
            "nashconv run --game kuhn_poker --after aggressive --episodes 2 --trials 2 --out nashconv",
        ),
    ),
    Scenario(
        "rps-league",
        (
            f"train rps-league {_TINY} {_SEVEN} batch.groups=4 steps=4 league.learners=2 league.snapshot_every=1"
            " league.snapshots=2 league.exploit_every=2",
            "league run",
        ),
    ),
    Scenario(
        "rps-notes",
        (
            f"train rps-notes {_TINY} batch.groups=4 steps=5 agent.tutor_steps=2 agent.tutor_fade=2",
            "evaluate run --reflections --trials 2 --out judged",
        ),
    ),
    Scenario(
        "text",
        (
            "trials demo agent.reply=text --run run",
            "trials demo agent.reply=text agent.memory=reflections --run reflections",
            "show run 3",
        ),
    ),
    Scenario(
        "lora",
        (
            f"train rps {_TINY} {_SEVEN} learner.lora_rank=2",
            "export-model run --out model",
        ),
    ),
)
