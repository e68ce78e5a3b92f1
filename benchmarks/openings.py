"""Every opening of tic-tac-toe from both seats: how often an agent loses to perfect play.

    python benchmarks/openings.py AGENT --out FOLDER [--trials 30] [--temperature 1.0 0.0] [--device cpu]

A run that was trained with drawn first moves, as in tic_tac_toe(opening=1), plays them so. Any other agent is dictated
its first move of every episode where it moves first, each of the nine in turn; where it moves second, perfect play
opens, and draws uniformly among its optimal moves, which all nine are. Later episodes have the earlier ones in memory.
Writes `openings.json` and `openings.md`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from where import commit, machine

from mage.agents.language import LanguageAgent
from mage.aio import run_sync
from mage.evaluation.eval_agent import load_eval_agent
from mage.protocols import AgentFactory
from mage.rollout.group import play_groups
from mage.spec import parse_spec
from mage.types import AgentInfo, Group, Observation, Reply, Task
from mage.worlds.openspiel.openings import opening_of
from mage.worlds.registry import load_world

USUAL = "tic_tac_toe"
EPISODES = 3


class Opened:
    """An agent whose first move of every episode is dictated."""

    def __init__(self, agent: LanguageAgent, cell: int) -> None:
        self._agent = agent
        self._cell = cell

    @property
    def info(self) -> AgentInfo:
        return self._agent.info

    async def act(self, observation: Observation) -> Reply:
        if observation.turn:
            return await self._agent.act(observation)
        action = observation.actions[observation.ids.index(self._cell)]
        self._agent.force_action(observation, action)
        return Reply(action, action, ())

    async def reflect(self, outcome: Observation) -> Reply | None:
        return await self._agent.reflect(outcome)

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return self._agent.memory()


def seated(make_agent: AgentFactory, cell: int | None) -> AgentFactory:
    """The same agent, with its first moves dictated or not."""

    def seat(task: Task, sibling: int) -> Any:
        agent = make_agent(task, sibling)
        assert isinstance(agent, LanguageAgent)
        return agent if cell is None else Opened(agent, cell)

    return seat


def opening(episode: Any) -> int:
    """The cell that the first move of an episode took, drawn or played."""
    first = episode.turns[0]
    drawn = first.observation.facts["history"]
    return int(drawn[0] if drawn else first.observation.ids[first.observation.actions.index(first.action)])


def count(groups: list[Group], found: dict[tuple[int, int, int], Counter[str]]) -> None:
    """Add how episodes ended, by seat, opening and number of the episode."""
    for group in groups:
        for failure in group.failures:
            raise RuntimeError(f"{failure.error}: {failure.message}")
        for trial in group.trials:
            for number, (episode, score) in enumerate(zip(trial.episodes, trial.scores, strict=True)):
                key = (trial.task.seat, opening(episode), number)
                found.setdefault(key, Counter())[{1.0: "won", 0.0: "drawn", -1.0: "lost"}[score]] += 1


def measure(agent: str, trials: int, temperature: float, device: str) -> list[dict[str, Any]]:
    """How episodes ended, a row for each seat, opening and episode."""
    given: dict[str, object] = {"device": device, "agent.temperature": temperature}
    eval_agent = load_eval_agent(agent, given)
    world = load_world(eval_agent.config.world)
    make_agent = eval_agent.make_agent(world)
    found: dict[tuple[int, int, int], Counter[str]] = {}
    game = parse_spec(eval_agent.config.world)
    is_drawn = game.name == USUAL and opening_of(game) > 0
    spec, numbers = str(game) if is_drawn else USUAL, range(9 * trials)
    if is_drawn:
        tasks = [Task(spec, ("minimax",), 0, 1000 + number, EPISODES, False, False, 1000) for number in numbers]
        count(run_sync(play_groups(world, tasks, 1, seated(make_agent, None))), found)
    else:
        for cell in range(9):
            task = Task(spec, ("minimax",), 0, 1000 + cell, EPISODES, False, False, 1000)
            count(run_sync(play_groups(world, [task], trials, seated(make_agent, cell))), found)
    tasks = [Task(spec, ("minimax",), 1, 2000 + number, EPISODES, False, False, 1000) for number in numbers]
    count(run_sync(play_groups(world, tasks, 1, seated(make_agent, None))), found)
    return [
        {"seat": seat, "opening": cell, "episode": episode + 1, **{k: ends[k] for k in ("won", "drawn", "lost")}}
        for (seat, cell, episode), ends in sorted(found.items())
    ]


def table(rows: list[dict[str, Any]]) -> str:
    """Losses of games, by seat and opening."""
    lines = ["| seat | " + " | ".join(f"cell {cell}" for cell in range(9)) + " |", "| --- " * 10 + "|"]
    for seat in (0, 1):
        cells = []
        for cell in range(9):
            some = [row for row in rows if (row["seat"], row["opening"]) == (seat, cell)]
            games = sum(row["won"] + row["drawn"] + row["lost"] for row in some)
            cells.append(f"{sum(row['lost'] for row in some)} of {games}")
        lines.append(f"| {('first', 'second')[seat]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agent", help="a run, a checkpoint or a model")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=30, help="trials an opening, of three episodes each")
    parser.add_argument("--temperature", type=float, nargs="+", default=[1.0, 0.0])
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    device = "cuda" if args.device != "cpu" and torch.cuda.is_available() else "cpu"
    found = {str(t): measure(args.agent, args.trials, t, device) for t in args.temperature}
    about = {"agent": args.agent, "commit": commit(), "machine": machine(torch.device(device))}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "openings.json").write_text(json.dumps({**about, "found": found}, indent=1))
    text = [f"{about['agent']}, {about['machine']}, commit {about['commit']}"]
    for temperature, rows in found.items():
        text += ["", f"Games lost to perfect play, temperature {temperature}, by the cell of the opening:", ""]
        text.append(table(rows))
    (args.out / "openings.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
