"""Reads a trial from its line: the right types, and parts that fit each other, so that readers need no checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from mage.types import Completion, Failure, Phase, Task, Trial, Turn

_MAX_ID = 2**31
"""Token ids, places in streams and versions are below it."""
_outcomes: msgspec.json.Decoder[Trial | Failure] = msgspec.json.Decoder(Trial | Failure)


def decode_outcome(line: bytes) -> Trial | Failure:
    """The trial or failure on a line; raises one of `BAD_JSON`."""
    outcome = _outcomes.decode(line)
    wrong = next(_misfits(outcome), None)
    if wrong is not None:
        raise msgspec.ValidationError(wrong)
    return outcome


def _misfits(outcome: Trial | Failure) -> Iterator[str]:
    """What does not fit, in words."""
    num_seats = len(outcome.task.opponents) + 1
    if not _is_sound(outcome.task):
        yield "its task has no such seat or number of episodes"
    if isinstance(outcome, Failure):
        return
    for number, episode in enumerate(outcome.episodes):
        result = episode.result
        if {len(result.returns), len(result.outcomes), len(result.successes or result.returns)} != {num_seats}:
            yield "an episode has scores of other seats than the task"
        if result.forfeited_by is not None and not 0 <= result.forfeited_by < num_seats:
            yield "an episode was forfeited by a seat that the task has not"
        yield from _turn_misfits(episode.turns, Phase.PLAY, num_seats, range(number, number + 1))
    yield from _turn_misfits(outcome.reflections, Phase.REFLECT, num_seats, range(len(outcome.episodes)))
    if any(stream and not 0 <= min(stream) <= max(stream) < _MAX_ID for stream in outcome.streams):
        yield "a stream has a token that is no id"


def _is_sound(task: Task) -> bool:
    return 0 <= task.seat <= len(task.opponents) and 0 <= task.episodes < _MAX_ID


def _turn_misfits(turns: Sequence[Turn], phase: Phase, num_seats: int, episodes: range) -> Iterator[str]:
    for turn in turns:
        seen = turn.observation
        if not (turn.phase is phase and 0 <= seen.seat < num_seats and seen.episode in episodes):
            yield "a turn is of a seat or an episode that the trial has not"
        if len(seen.ids) != len(seen.actions) or not 0 <= seen.turn < _MAX_ID:
            yield "an observation has actions without numbers"
        for call in turn.calls:
            if not (0 <= call.stream < _MAX_ID and 0 <= call.start < _MAX_ID and _is_aligned(call.completion)):
                yield "a call has tokens that do not fit each other"


def _is_aligned(completion: Completion) -> bool:
    tokens, allowed = completion.tokens, completion.allowed
    ids = not tokens or 0 <= min(tokens) <= max(tokens) < _MAX_ID
    sizes = {len(tokens), len(completion.logprobs), len(tokens if allowed is None else allowed)}
    return ids and len(sizes) == 1 and abs(completion.version) < _MAX_ID
