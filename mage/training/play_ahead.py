"""Play ahead of learning (`rollout.lag`): the matches of a step are played with the weights of some updates before it.

The schedule is fixed: with a lag of K, step n is played with the weights after n - K updates, the first K steps with
those at the start. Its tasks are drawn when it is begun, so from the results of the steps before n - K. With workers it
is played while the learner learns from the steps before it; without, at once. Checkpoints have the trials that are
ahead, so that a resumed run continues with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from mage.errors import RecordError
from mage.files import BAD_JSON, add_checksum, write_atomically
from mage.league.matches import PlayedMatch
from mage.training.checkpoint import AHEAD
from mage.training.match_play import MatchPlay
from mage.training.parts import Parts
from mage.training.task_sources import TaskSource


class PlayedStep(msgspec.Struct, frozen=True):
    """The matches of a step that is still to be learned from."""

    step: int
    version: int
    """The version of the weights that they were played with."""
    matches: list[PlayedMatch]


_read = msgspec.msgpack.Decoder(list[PlayedStep]).decode


class PlayAhead:
    """Begins the matches of steps, up to `rollout.lag` steps ahead, and gives them out in order."""

    def __init__(self, parts: Parts, names: Sequence[str], source: TaskSource, match_play: MatchPlay) -> None:
        config = parts.config
        self._parts = parts
        self._source = source
        self._match_play = match_play
        self._num: Mapping[str, int] = dict.fromkeys(names, config.batch.groups // len(names))
        self.lag = config.rollout.lag
        self.overlaps = self.lag > 0 and config.rollout.workers > 0
        """Whether trials are played while the learner learns."""
        self._played: dict[int, PlayedStep] = {}
        self._playing: dict[int, tuple[int, asyncio.Future[list[PlayedMatch]]]] = {}
        """By step, the version of the weights and what is being played with them."""
        self._dropped: list[asyncio.Future[list[PlayedMatch]]] = []

    async def begin(self, step: int) -> None:
        """Publish the present weights, and begin all steps within the lag that were not begun yet."""
        await self._match_play.publish(step)
        last = min(step + self.lag, self._parts.config.steps - 1)
        for number in range(step, max(step, last) + 1):
            if number in self._played or number in self._playing:
                continue
            play = self._match_play.play(self._source.draw(number, self._num), number)
            if self.overlaps:
                playing = asyncio.ensure_future(play)
                playing.add_done_callback(_mark_retrieved)
                self._playing[number] = (step, playing)
            else:
                with self._parts.resources.playing():
                    self._played[number] = PlayedStep(number, step, await play)

    async def take(self, step: int) -> list[PlayedMatch]:
        """The played matches of a step that was begun."""
        await self._finish(step)
        return self._played.pop(step).matches

    async def finish(self) -> None:
        """Wait until nothing is played, as before an evaluation, which has this process to itself, or a checkpoint."""
        for step in list(self._playing):
            await self._finish(step)
        await asyncio.gather(*self._dropped, return_exceptions=True)
        self._dropped.clear()

    async def _finish(self, step: int) -> None:
        if step in self._playing:
            version, playing = self._playing[step]
            with self._parts.resources.playing():
                self._played[step] = PlayedStep(step, version, await playing)
            del self._playing[step]

    def drop(self) -> None:
        """Forget all that is ahead: the learner has gone back to other weights, which play these steps anew.

        Of what is being played, no more is begun; `finish` waits for what is.
        """
        self._match_play.drop()
        self._dropped += [playing for _, playing in self._playing.values()]
        self._playing.clear()
        self._played.clear()

    def save(self, checkpoint: Path) -> None:
        """Write what is ahead to a checkpoint; `finish` comes first."""
        assert not self._playing
        if self._played:
            write_atomically(checkpoint / AHEAD, msgspec.msgpack.encode(list(self._played.values())))
            add_checksum(checkpoint / AHEAD)

    def load(self, checkpoint: Path) -> None:
        """Continue with what a checkpoint has, but for steps whose weights were older than the lag allows."""
        path = checkpoint / AHEAD
        if not path.exists():
            return
        try:
            found = _read(path.read_bytes())
        except (OSError, *BAD_JSON) as error:  # MessagePack is read by the same library
            raise RecordError(f"{path} cannot be read: {error}") from None
        self._played = {one.step: one for one in found if one.step - one.version <= self.lag}

    def close(self) -> None:
        """Cancel what is being played."""
        for playing in (*self._dropped, *(one for _, one in self._playing.values())):
            playing.cancel()


def _mark_retrieved(done: asyncio.Future[list[PlayedMatch]]) -> None:
    """Keep asyncio from logging an error of trials that are not awaited, because the run has ended for another."""
    if not done.cancelled():
        done.exception()
