"""Play one trial: the episodes of one task, with memory carried between them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeGuard

import msgspec

from mage.errors import PlayError
from mage.protocols import Agent, AgentFactory, Player, World
from mage.rollout.episode import play_episode
from mage.rollout.tasks import opponents_of
from mage.types import Episode, Fact, Observation, Phase, Task, Trial, Turn

REFLECTION_KEY = "reflection"
"""The key of every observation that asks for a reflection: they are one decision problem."""


class PlayerLeftError(PlayError):
    """A person left. The episodes that are finished still count."""


async def play_trial(world: World, task: Task, sibling: int, make_agent: AgentFactory) -> Trial:
    """Play all episodes of `task`. Agents are told how each but the last episode ended, and may reflect."""
    (trial,) = await play_seats(world, task, sibling, make_agent, (task.seat,))
    return trial


async def play_seats(
    world: World, task: Task, sibling: int, make_agent: AgentFactory, seats: Collection[int], name: str = ""
) -> tuple[Trial, ...]:
    """Play all episodes of `task` and return them as one trial for each of `seats`, which must all have agents.

    A trial of another seat than the task's has the task as that seat sees it, with `name` for the agent's.
    """
    opponents = opponents_of(world, task)  # first: it refuses a seat that does not exist
    players: dict[int, Player] = {**opponents, task.seat: make_agent(task, sibling)}
    agents = {seat: player for seat, player in sorted(players.items()) if _remembers(player)}
    episodes: list[Episode] = []
    reflections: dict[int, list[Turn]] = {seat: [] for seat in agents}
    try:
        for index in range(task.episodes):
            episode = await play_episode(world.new_env(task, index), players)
            episodes.append(episode)
            if index + 1 == task.episodes or (task.early_stop and episode.result.is_success(task.seat)):
                break
            for seat, remembering in agents.items():
                turn = await _reflect(remembering, seat, index, episode)
                if turn is not None:
                    reflections[seat].append(turn)
    except PlayerLeftError:
        pass
    trials: list[Trial] = []
    for seat in seats:
        seen, agent = seen_from(task, seat, name), agents[seat]
        streams, overflows = agent.memory()
        trials.append(Trial(seen, sibling, agent.info, tuple(episodes), tuple(reflections[seat]), streams, overflows))
    return tuple(trials)


def seen_from(task: Task, seat: int, name: str) -> Task:
    """The task as another seat sees it, where `name` is the opponent in the task's own seat.

    >>> seen_from(Task("kuhn_poker", ("cfr",), 0, 7, 3, False, False, 99), 1, "me").opponents
    ('me',)
    """
    if seat == task.seat:
        return task
    around = [*task.opponents[: task.seat], name, *task.opponents[task.seat :]]
    return msgspec.structs.replace(task, seat=seat, opponents=tuple(around[:seat] + around[seat + 1 :]))


def _remembers(player: Player) -> TypeGuard[Agent]:
    return hasattr(player, "reflect")  # isinstance with a protocol costs more than a turn of Kuhn


async def _reflect(agent: Agent, seat: int, index: int, episode: Episode) -> Turn | None:
    result = episode.result
    facts: dict[str, Fact] = {"score": result.returns[seat]}
    if result.successes:
        facts["success"] = result.is_success(seat)
    if result.keys:
        facts["told"] = result.keys[seat]
    told = Observation(seat, index, 0, result.outcomes[seat], (), (), REFLECTION_KEY, facts)
    reply = await agent.reflect(told)
    if reply is None:
        return None
    return Turn(Phase.REFLECT, told, reply.action, reply.text, reply.calls, 0.0)
