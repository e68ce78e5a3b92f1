"""Contract checks for players and policies; they raise AssertionError with the broken rule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from mage.opponents.policy import Policy, PolicyPlayer, evenly
from mage.protocols import Player
from mage.rollout.episode import play_episode
from mage.seeds import derive
from mage.types import Observation, Task
from mage.worlds.registry import load_world


def check_player(make: Callable[[], Player], observations: Sequence[Observation]) -> None:
    """A player answers every observation with a legal action, and equal players answer alike in any order.

    For players without memory; `make` must build the same player each time.
    """
    asyncio.run(_check_player(make, observations))


async def _check_player(make: Callable[[], Player], observations: Sequence[Observation]) -> None:
    player, twin = make(), make()
    answers = [(await player.act(seen)).action for seen in observations]
    for seen, action in zip(observations, answers, strict=True):
        assert action in seen.actions, f"{action!r} is not one of {', '.join(seen.actions)}"
    again = [(await twin.act(seen)).action for seen in reversed(observations)]
    assert again[::-1] == answers, "the same observation gets another answer"


def check_policy(policy: Policy, observations: Sequence[Observation]) -> None:
    """A policy gives each observation one probability per legal action, always the same."""
    for seen in observations:
        weights = list(policy(seen))
        assert len(weights) == len(seen.ids), f"{len(weights)} probabilities for {len(seen.ids)} actions"
        assert all(weight >= 0.0 for weight in weights), f"probabilities are not negative: {weights}"
        assert abs(sum(weights) - 1.0) < 1e-9, f"probabilities add up to 1, not to {sum(weights)}"
        assert list(policy(seen)) == weights, "the same observation gets other probabilities"


def observations_of(game: str, seat: int, seeds: Iterable[int], episodes: int = 2) -> list[Observation]:
    """Observations of a seat in random play, to check a player with."""
    seen: list[Observation] = []
    world = load_world(game)
    seats = range(world.info.num_seats)
    for seed in seeds:
        task = Task(game, (), seat, seed, episodes, replay_deal=False, early_stop=False, max_turns=200)
        players = {other: PolicyPlayer(evenly, derive(seed, "check", other)) for other in seats}
        for index in range(episodes):
            episode = asyncio.run(play_episode(world.new_env(task, index), players))
            seen += [turn.observation for turn in episode.turns if turn.observation.seat == seat]
    return seen
