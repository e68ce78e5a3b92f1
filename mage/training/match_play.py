"""How the matches of a step are played: by agents in this process, or by workers (`workers/pool.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from mage.league.matches import Match, PlayedMatch, play_matches
from mage.training.parts import CONCURRENCY, Parts
from mage.training.run_learners import RunLearners


class MatchPlay(Protocol):
    """Plays the matches of training steps with published weights."""

    async def publish(self, step: int) -> None:
        """Publish the current weights of all learners and reset prefix caches."""
        ...

    def play(self, matches: Sequence[Match], step: int) -> Awaitable[list[PlayedMatch]]:
        """Play all siblings of all matches of a step with the weights published last.

        The result is awaited once; it is the groups of each match, its learner's own first.
        """
        ...

    def drop(self) -> None:
        """Give up all that is being played: no more of it is begun, and what comes of it is not used."""
        ...

    def listen(self, warn: Callable[[str], None]) -> None:
        """Call `warn` with what the user should know of, when it happens."""
        ...

    def close(self) -> None:
        """End all processes that it started."""
        ...


class LocalPlay:
    """Plays with the engine in this process."""

    def __init__(self, parts: Parts, learners: RunLearners) -> None:
        self._size = parts.config.batch.size
        self._learners = learners

    async def publish(self, step: int) -> None:
        await self._learners.publish(step)

    async def play(self, matches: Sequence[Match], step: int) -> list[PlayedMatch]:
        return await play_matches(matches, self._size, self._learners.agent_factories(step), CONCURRENCY)

    def drop(self) -> None:
        """Do nothing: what is played is awaited at once."""

    def listen(self, warn: Callable[[str], None]) -> None:
        """Do nothing: there is nothing to warn of."""

    def close(self) -> None:
        """Do nothing: there are no other processes."""
