"""Tokens of a trial in the chat format of SmolLM2: how large a context a world of one seat needs.

    python benchmarks/trial_tokens.py "alfworld(size=small,turns=10,list_actions=false)" [--players uniform expert]

Players without a model choose the actions (`choice`, memory `history`); the prompts are those of training.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics

from transformers import PreTrainedTokenizerFast
from where import commit

from mage.agents.chat_format import TemplateFormat
from mage.agents.language import AgentSettings
from mage.agents.tutor import Tutor
from mage.models.smollm2 import converted
from mage.opponents.agent_seat import seat_agent
from mage.protocols import Agent, ChatFormat
from mage.rollout.trial import play_trial
from mage.training.teacher import taught_agent_factory
from mage.types import Memory, ReplyMode, Task
from mage.worlds.registry import load_world


def tokens(spec: str, player: str, episodes: int, seed: int, chat_format: ChatFormat) -> int:
    """The tokens of one trial."""
    world = load_world(spec)

    def teacher(task: Task, sibling: int) -> Agent:
        return seat_agent(world, player, task)

    how = AgentSettings("tokens", Memory.HISTORY, ReplyMode.CHOICE, 1.0, 60, 60, retries=0, context=1_000_000)
    make_agent = taught_agent_factory(world, chat_format, how, teacher, Tutor("", 0, 0), 0)
    trial = asyncio.run(play_trial(world, Task(spec, (), 0, seed, episodes, False, False, 1000), 0, make_agent))
    return max(map(len, trial.streams))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="+")
    parser.add_argument("--players", nargs="+", default=("uniform", "expert"))
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--episodes", type=int, default=3)
    args = parser.parse_args()
    chat_format = TemplateFormat(PreTrainedTokenizerFast.from_pretrained(converted()))
    print(f"commit {commit()}, {args.trials} trials of {args.episodes} episodes\n")
    print("| world | player | tokens a trial: median | most |\n|---|---|---|---|")
    for spec in args.worlds:
        for player in args.players:
            found = [tokens(spec, player, args.episodes, seed, chat_format) for seed in range(args.trials)]
            print(f"| `{spec}` | `{player}` | {statistics.median(found):,.0f} | {max(found):,} |", flush=True)


if __name__ == "__main__":
    main()
