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

_TWO = 'population.split= population.members=\'["copy","beat-last"]\''
_ROCKS = _TWO.replace("copy", "always:rock").replace("beat-last", "memory-one(first=1,map=[0,0,1],on=them)")
_TERMS = (
    "learner.epochs=2 learner.minibatches=2 learner.decay=true learner.divergence=k3 learner.divergence_weight=0.1"
    " learner.weight=token learner.entropy_floor=0.9999 learner.warmup=2"
)
_GROUPS = ("grpo", "gigpo", "rloo", "lamer", "mage")
_PROMPTING = (("react", "both"), ("reflexion", "reflections"), ("linked-notes", "reflections"), ("cases", "history"))


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
            "evaluate run --opponents rps-seven --trials 2 --out evaluated",
            "show run",
        ),
    ),
    Scenario(
        "kuhn",
        (
            f"train kuhn {_TINY}",
            "nashconv run --world kuhn_poker --after aggressive --episodes 2 --trials 2 --out nashconv",
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
        "league-exploit",
        (
            f"train rps-league {_TINY} {_SEVEN} {_ROCKS} batch.groups=6 steps=4 seed=2"
            " league.learners=2 league.exploit_every=2 population.options.share=0.9 league.snapshot_every=3"
            " league.factor=30 learner.lr=0.001",
            "league run",
        ),
    ),
    Scenario(
        "league-replay",
        (
            f"train rps-league {_TINY} {_SEVEN} {_TWO} batch.groups=8 steps=6 league.learners=2 league.snapshot_every=3"
            " batch.replay=0.25 batch.dead=resample",
        ),
    ),
    Scenario("rps-hard", (f"train rps+hard {_TINY} {_SEVEN} {_TWO} batch.groups=4",)),
    Scenario(
        "rps-notes",
        (
            f"train rps-notes {_TINY} batch.groups=4 steps=5 agent.tutor_steps=2 agent.tutor_fade=2",
            "evaluate run --reflections --trials 2 --out evaluated",
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
        "rps-text",
        (
            f"train rps {_TINY} {_SEVEN} agent.reply=text agent.memory=both agent.prefill='<action>' agent.max_tokens=8"
            " agent.reflection_tokens=4 credit.invalid_penalty=0.1 credit.truncated_penalty=0.05"
            " credit.length_penalty=0.01",
        ),
    ),
    Scenario("lora", (f"train rps {_TINY} {_SEVEN} learner.lora_rank=2", "export-model run --out model")),
    Scenario(
        "kuhn-selfplay",
        (
            f"train kuhn-selfplay {_TINY} batch.groups=4 league.nashconv_every=1",
            "nashconv run --world kuhn_poker --trials 2 --out nashconv",
        ),
    ),
    Scenario("rps-cloning", (f"train rps-base+cloning {_TINY} {_SEVEN}",)),
    Scenario("rps-ppo", (f"train rps-base+ppo {_TINY} {_SEVEN} learner.epochs=2 learner.minibatches=2",)),
    Scenario("rps-replay", (f"train rps {_TINY} {_SEVEN} {_TWO} batch.groups=4 batch.replay=0.25 steps=5",)),
    Scenario(
        "tictactoe-even",
        (
            f"train tictactoe-llm {_TINY} device=cpu agent.model={_MODEL.replace('512', '1280')} agent.context=1280"
            " evaluation.splits='[\"tictactoe-weak\"]' evaluation.final_trials=1",
        ),
    ),
    Scenario(
        "resumed",
        (
            f"train rps {_TINY} {_SEVEN} steps=2 {_TERMS}",
            "train --resume run steps=4",
            "train --resume run steps=5 learner.lr=1e-4",
        ),
    ),
    Scenario(
        "methods",
        (
            *(
                f"train rps-base+{name} {_TINY} {_SEVEN} --run {name}"
                for name in ("grpo", "gigpo", "rloo", "lamer", "mage")
            ),
            f"train rps {_TINY} {_SEVEN} --run reinforce credit.estimator=reinforce credit.options={{}}",
            "compare grpo gigpo rloo lamer mage reinforce --out compared --no-plots",
            "cross-play grpo mage uniform copy --world rps(rounds=3) --trials 2 --episodes 2 --out crossplay",
        ),
    ),
    Scenario("sweep", (f"sweep rps rps-wide {_TINY} {_SEVEN} --seeds 2", "compare run --out compared --no-plots")),
    Scenario(
        "players",
        (
            "duel minimax mcts:20 --world tic_tac_toe --trials 4 --run search",
            "duel cfr best-response:conservative --world kuhn_poker --trials 8 --episodes 2 --run solvers",
            "evaluate bayes-optimal --world kuhn_poker --opponents kuhn-scripts --trials 4 --out bayes",
            "cross-play cfr uniform aggressive --world kuhn_poker --trials 4 --out crossplay",
            *(
                f"evaluate scripted:counter --method {method} --memory {memory} --opponents rps-seven --trials 2"
                f" --out {method}"
                for method, memory in _PROMPTING
            ),
        ),
    ),
)
