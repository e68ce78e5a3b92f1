"""Players without a model in the agent's seat: a world's opponents, its own players, and `uniform` over actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from mage.errors import ConfigError
from mage.opponents.policy import PlayerAgent, PolicyAgent, PolicyPlayer, evenly
from mage.protocols import Agent, HasPlayers, Player, World
from mage.seeds import derive
from mage.spec import parse_spec
from mage.types import AgentInfo, Observation, Reply, Task
from mage.worlds.registry import load_world

UNIFORM = "uniform"


def check_seat_agent(world: World, spec: str, seat: int) -> None:
    """Raise a ConfigError for a player that cannot take the agent's seat."""
    if str(parse_spec(spec)) == UNIFORM:
        if world.info.has_open_actions:
            raise ConfigError(f"{spec!r} draws one of the listed actions, and in this world any text is an action")
    elif world.info.num_seats == 1:
        known = ", ".join((UNIFORM, *players_of(world)))
        if str(parse_spec(spec)) not in players_of(world):
            raise ConfigError(f"{spec!r} plays games with opponents; in a world of one seat {known} and models play")
    else:
        world.check_opponent(spec, seat)


def seat_agent(world: World, spec: str, task: Task) -> Agent:
    """The player of a spec in the task's own seat."""
    name = str(parse_spec(spec))
    if name == UNIFORM:
        check_seat_agent(world, name, task.seat)
        seed = derive(task.seed, "opponent", task.seat)  # as in a world that makes it as an opponent
        return PolicyAgent(PolicyPlayer(evenly, derive(seed, "moves")), name)
    if name in (own := players_of(world)):
        return as_agent(own[name](task), name)
    return as_agent(world.opponent(spec, task, task.seat), name)


def players_of(world: World) -> Mapping[str, Callable[[Task], Player]]:
    """The players that a world has for its one seat."""
    return world.players() if isinstance(world, HasPlayers) else {}


def is_own_player(spec: str, worlds: Iterable[str]) -> bool:
    """Whether one of the worlds has a player of this name."""
    return any(spec in players_of(load_world(world)) for world in worlds)


def as_agent(player: Player, name: str) -> Agent:
    """A player as an agent: itself where it is one."""
    if isinstance(player, PolicyPlayer):
        return PolicyAgent(player, name)
    return cast(Agent, player) if hasattr(player, "reflect") else PlayerAgent(player, name)


class ForgetfulAgent:
    """An agent that is made anew for every episode, so that it remembers none."""

    def __init__(self, make: Callable[[], Agent]) -> None:
        self._make = make
        self._agent = make()
        self._episode = 0

    @property
    def info(self) -> AgentInfo:
        return self._agent.info

    async def act(self, observation: Observation) -> Reply:
        if observation.episode != self._episode:
            self._agent, self._episode = self._make(), observation.episode
        return await self._agent.act(observation)

    async def reflect(self, outcome: Observation) -> Reply | None:
        return None

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()
