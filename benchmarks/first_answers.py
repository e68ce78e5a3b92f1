"""How many first answers in free text can be used, by a model as it comes: with and without an answer that is begun.

    python benchmarks/first_answers.py [--trials 120] [--temperature 1.0 0.7] [rps-llm+text kuhn-llm+text …]

Each trial is asked once, at its first decision, against a player who moves at random. Prints a line for each recipe,
each prefill (the recipe's own and none) and each temperature, with the actions that were named and some answers.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter

import msgspec

from mage.aio import run_sync
from mage.config.load import load_config
from mage.protocols import AgentFactory
from mage.rollout.tasks import opponents_of
from mage.training.build import agent_settings, language_agent_factory
from mage.training.model_cache import model_and_inference_server
from mage.types import Reply, Task
from mage.weights import PolicyWeights
from mage.worlds.registry import load_world

RECIPES = ("rps-llm+text", "kuhn-llm+text", "tictactoe-llm+text")
MODEL = "model"
SHOWN = 3


async def first_answer(task: Task, make_agent: AgentFactory) -> Reply:
    """What the agent answers at its first decision."""
    world = load_world(task.world)
    env, others, agent = world.new_env(task, 0), opponents_of(world, task), make_agent(task, 0)
    while (seat := env.to_move()) != task.seat:
        assert seat is not None
        env.step((await others[seat].act(env.observe(seat))).action)
    return await agent.act(env.observe(task.seat))


async def first_answers(tasks: list[Task], make_agent: AgentFactory) -> list[Reply]:
    """The first answers of all tasks."""
    return await asyncio.gather(*(first_answer(task, make_agent) for task in tasks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--trials", type=int, default=120)
    parser.add_argument("--temperature", type=float, nargs="+", default=[1.0, 0.7])
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    for recipe in args.recipes:
        config = load_config(recipe, (f"device={args.device}",))
        loaded, server = model_and_inference_server(config, [config.world])
        run_sync(server.publish(MODEL, PolicyWeights(loaded.model.state_dict()), 0))
        engine = server.policy(MODEL)
        opponents = ("uniform",) * (load_world(config.world).info.num_seats - 1)
        seats = config.trial.seats
        tasks = [
            Task(config.world, opponents, seats[number % len(seats)], 5000 + number, 3, False, False, 1000)
            for number in range(args.trials)
        ]
        for prefill in (config.agent.prefill, ""):
            for temperature in args.temperature:
                how = msgspec.structs.replace(
                    agent_settings(config.agent), retries=0, prefill=prefill, temperature=temperature
                )
                make_agent = language_agent_factory(load_world(config.world), engine, loaded.chat_format, how)
                replies = run_sync(first_answers(tasks, make_agent))
                named = Counter(reply.action for reply in replies if reply.action is not None)
                print(
                    f"{recipe}, prefill {prefill!r}, temperature {temperature}: "
                    f"{named.total()} of {len(replies)} can be used: {dict(named.most_common())}",
                    flush=True,
                )
                for reply in replies[:SHOWN]:
                    print(f"    {reply.text!r}")


if __name__ == "__main__":
    main()
