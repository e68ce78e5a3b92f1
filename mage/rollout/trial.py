"""One trial: several episodes of one task, with memory carried between them."""

from __future__ import annotations

from typing import TypeGuard

from mage.errors import PlayError
from mage.protocols import Agent, Player, Seating, World
from mage.rollout.episode import play_episode
from mage.types import Episode, Observation, Phase, Task, Trial, Turn

REFLECTION_KEY = "reflection"
"""The key of every observation that asks for a reflection: they are one decision problem."""


class LeftTableError(PlayError):
    """A person got up. The episodes that are finished still count."""


async def play_trial(world: World, task: Task, sibling: int, seating: Seating) -> Trial:
    """Play all episodes of `task`. Agents are told how each but the last episode ended, and may reflect."""
    opponents = world.opponents(task)  # first: it refuses a seat that does not exist
    agent = seating(task, sibling)
    players: dict[int, Player] = {**opponents, task.seat: agent}
    agents = {seat: player for seat, player in sorted(players.items()) if _remembers(player)}
    episodes: list[Episode] = []
    reflections: list[Turn] = []
    try:
        for index in range(task.episodes):
            episode = await play_episode(world.new_env(task, index), players)
            episodes.append(episode)
            if index + 1 == task.episodes or (task.early_stop and episode.result.returns[task.seat] > 0):
                break
            for seat, remembering in agents.items():
                turn = await _reflect(remembering, seat, index, episode)
                if turn is not None and seat == task.seat:
                    reflections.append(turn)
    except LeftTableError:
        pass
    streams, overflows = agent.memory()
    return Trial(task, sibling, agent.info, tuple(episodes), tuple(reflections), streams, overflows)


def _remembers(player: Player) -> TypeGuard[Agent]:
    return hasattr(player, "reflect")  # isinstance with a protocol costs more than a turn of Kuhn


async def _reflect(agent: Agent, seat: int, index: int, episode: Episode) -> Turn | None:
    result = episode.result
    told = Observation(seat, index, 0, result.outcomes[seat], (), (), REFLECTION_KEY, {"score": result.returns[seat]})
    reply = await agent.reflect(told)
    if reply is None:
        return None
    return Turn(Phase.REFLECT, told, reply.action, reply.text, reply.calls, 0.0)
