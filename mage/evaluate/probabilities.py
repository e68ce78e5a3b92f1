"""What an agent would do: the probabilities of its actions at an observation, or at every information state of a seat.

Choice replies are read exactly where the engine says how likely each answer is. Everything else is sampled, and then
an agent has said different things on its way to the same place: its copies go on from there, each with its own words.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import msgspec

from mage.errors import ConfigError
from mage.games.openspiel import Game
from mage.games.words.base import State
from mage.players.solver import MAX_STATES
from mage.protocols import Agent
from mage.types import Observation

T = TypeVar("T")
Step = tuple[str, str] | None
"""An information state of a seat and the action it took there; None before its first decision."""


@runtime_checkable
class OpenAgent(Agent, Protocol):
    """An agent that can be asked what it would do, and be led where it would not go."""

    def fork(self, number: int) -> Self:
        """A copy with a memory of its own, which draws otherwise than this agent and than copies of other numbers."""

    async def odds(self, observation: Observation) -> tuple[float, ...] | None:
        """The exact probability of each action, its memory left as it is; None where only sampling can tell."""

    def dictate(self, observation: Observation, action: str) -> None:
        """Take an action that somebody else chose: it stands in the memory as if it had been sampled."""


class Odds(msgspec.Struct, frozen=True):
    """How likely an agent is to take each action at one place."""

    probabilities: tuple[float, ...]
    """Aligned with the observation's actions; among answers that can be used, and even where there was none."""
    num_samples: int
    """How many answers were sampled; 0 where the probabilities are exact."""
    forfeits: int
    """How many of them gave up."""


class Place(NamedTuple):
    """An information state of one seat."""

    key: str
    """OpenSpiel's name for it."""
    observation: Observation
    before: Step
    """How its seat came here."""


def information_states(game: Game, episode: int = 0) -> list[list[Place]]:
    """Every information state of each seat, by seat, those that come earlier in an episode first."""
    if not game.rules.get_type().provides_information_state_string or game.samples_itself:
        raise ConfigError(f"{game.spec} has no information states that could be listed")
    if game.opening:
        raise ConfigError(f"{game.spec} is not read at every information state: OpenSpiel knows no drawn first moves")
    found: list[dict[str, Place]] = [{} for _ in range(game.num_seats)]
    waiting: list[tuple[State, tuple[Step, ...], tuple[int, ...]]]
    waiting = [(game.start(0), (None,) * game.num_seats, (0,) * game.num_seats)]
    num_states = 0
    while waiting:
        state, before, turns = waiting.pop()
        num_states += 1
        if num_states > MAX_STATES:
            raise ConfigError(
                f"{game.spec} is too large to be read at every information state: over {MAX_STATES} states; "
                "responders find a lower bound by play"
            )
        if state.is_terminal():
            continue
        if state.is_chance_node():
            waiting += [(state.child(action), before, turns) for action in state.legal_actions()]
            continue
        seat = state.current_player()
        key = str(state.information_state_string(seat))
        place = found[seat].get(key)
        if place is None:
            place = Place(key, game.observe(state, seat, episode, turns[seat]), before[seat])
            found[seat][key] = place
        elif place.before != before[seat]:
            raise ConfigError(
                f"{game.spec} lets seat {seat} forget what it did before {key!r}; such games are not read"
            )
        turns = _with(turns, seat, turns[seat] + 1)
        moves = zip(place.observation.ids, place.observation.actions, strict=True)
        waiting += [(state.child(i), _with(before, seat, (key, action)), turns) for i, action in moves]
    return [sorted(places.values(), key=lambda place: place.observation.turn) for places in found]


async def odds_at(agent: OpenAgent, observation: Observation, num_samples: int) -> Odds:
    """What an agent would do, its memory left as it is; `num_samples` are drawn where the odds are not exact."""
    exact = await agent.odds(observation)
    return Odds(exact, 0, 0) if exact is not None else (await _sampled([agent], observation, num_samples))[0]


async def policy_of(agent: OpenAgent, places: Sequence[Place], num_samples: int) -> Mapping[str, Odds]:
    """What an agent would do at every information state of its seat, in the episode its observations are of.

    On the way to a place its earlier moves are dictated, or were sampled: then as many answers are drawn there as
    anywhere, by copies that took these moves in words of their own. A move that no copy took is dictated.
    """
    following: dict[Step, list[Place]] = {}
    for place in places:
        following.setdefault(place.before, []).append(place)
    found: dict[str, Odds] = {}

    async def read(place: Place, agents: Sequence[OpenAgent]) -> None:
        exact = await agents[0].odds(place.observation)
        if exact is None:
            odds, came = await _sampled(agents, place.observation, num_samples)
        else:
            odds, came = Odds(exact, 0, 0), {}
        found[place.key] = odds
        next_reads = []
        for action in place.observation.actions:
            further = following.get((place.key, action), ())
            if further and action not in came:
                led = agents[0].fork(num_samples)
                led.dictate(place.observation, action)
                came[action] = [led]
            next_reads += [read(later, came[action]) for later in further]
        await asyncio.gather(*next_reads)

    await asyncio.gather(*(read(place, [agent]) for place in following.get(None, ())))
    return found


async def _sampled(
    agents: Sequence[OpenAgent], observation: Observation, num_samples: int
) -> tuple[Odds, dict[str, list[OpenAgent]]]:
    """Odds by sampling from copies of agents that came to the same place, and the copies by the action they took."""
    if num_samples < 1:
        raise ConfigError(f"at least 1 answer must be sampled, not {num_samples}")
    copies = [agents[number % len(agents)].fork(number) for number in range(num_samples)]
    replies = await asyncio.gather(*(copy.act(observation) for copy in copies))
    came: dict[str, list[OpenAgent]] = {}
    for copy, reply in zip(copies, replies, strict=True):
        if reply.action is not None:
            came.setdefault(reply.action, []).append(copy)
    counts = Counter({action: len(those) for action, those in came.items()})
    usable = counts.total()
    even = 1 / len(observation.actions)
    shares = tuple(counts[action] / usable if usable else even for action in observation.actions)
    return Odds(shares, num_samples, num_samples - usable), came


def _with(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])
