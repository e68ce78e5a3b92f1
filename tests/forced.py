"""A player that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from mage.rollout.episode import play_episode
from mage.types import Episode, Observation, Reply, Task
from mage.worlds.openspiel.game import OpenSpielEnv, load_game


class Forced:
    """Plays the given actions one after another; None forfeits."""

    def __init__(self, actions: Sequence[str | int | None]) -> None:
        self._actions = list(actions)

    async def act(self, observation: Observation) -> Reply:
        action = self._actions.pop(0)
        if isinstance(action, int):
            action = observation.actions[observation.ids.index(action)]
        return Reply(action, "", ())


def play_forced(
    game: str, actions_by_seat: Mapping[int, Sequence[str | int | None]], seed: int, max_turns: int = 1000
) -> Episode:
    """An episode in which every seat plays the given actions, as words or as the game's numbers."""
    task = Task(game, ("uniform",) * (len(actions_by_seat) - 1), 0, seed, 1, False, False, max_turns)
    players = {seat: Forced(actions) for seat, actions in actions_by_seat.items()}
    return asyncio.run(play_episode(OpenSpielEnv(load_game(game), task, 0), players))
