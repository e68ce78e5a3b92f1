"""Players without a model in the agent's seat: a world's opponents, and `uniform` where actions are listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from mage.errors import ConfigError
from mage.opponents.policy import PlayerAgent, PolicyAgent, PolicyPlayer, evenly
from mage.protocols import Agent, HasPlayers, Player, World
from mage.seeds import derive
from mage.spec import parse_spec
from mage.types import Observation, Reply, Task

UNIFORM = "uniform"


def check_seat_agent(world: World, spec: str, seat: int) -> None:
    """Raise a ConfigError for a player that cannot take the agent's seat."""
    if str(parse_spec(spec)) == UNIFORM:
        if world.info.has_open_actions:
            raise ConfigError(f"{spec!r} draws one of the listed actions, and in this world any text is an action")
    elif world.info.num_seats == 1 and not has_player(world, spec):
        names = ", ".join([UNIFORM, *(world.players if isinstance(world, HasPlayers) else ())])
        raise ConfigError(f"{spec!r} plays games with opponents; in a world of one seat {names} and models play")
    else:
        world.check_opponent(spec, seat)


def has_player(world: World, spec: str) -> bool:
    """Whether a world of one seat has a scripted player of this name."""
    return isinstance(world, HasPlayers) and parse_spec(spec).name in world.players


def seat_agent(world: World, spec: str, task: Task) -> Agent:
    """The player of a spec in the task's own seat."""
    name = str(parse_spec(spec))
    if name == UNIFORM:
        check_seat_agent(world, name, task.seat)
        seed = derive(task.seed, "opponent", task.seat)  # as in a world that makes it as an opponent
        return PolicyAgent(PolicyPlayer(evenly, derive(seed, "moves")), name)
    return as_agent(world.opponent(spec, task, task.seat), name)


class ForgettingAgent:
    """A scripted player that is made anew for every episode: the control of one that remembers."""

    def __init__(self, make_agent: Callable[[], Agent]) -> None:
        self._make_agent = make_agent
        self._agent = make_agent()
        self._episode = 0
        self.info = self._agent.info

    async def act(self, observation: Observation) -> Reply:
        if observation.episode != self._episode:
            self._agent, self._episode = self._make_agent(), observation.episode
        return await self._agent.act(observation)

    async def reflect(self, outcome: Observation) -> Reply | None:
        return None

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()


def as_agent(player: Player, name: str) -> Agent:
    """A player as an agent: itself where it is one."""
    if isinstance(player, PolicyPlayer):
        return PolicyAgent(player, name)
    return cast(Agent, player) if hasattr(player, "reflect") else PlayerAgent(player, name)
