"""Turn a trial and its advantages into samples, one per token stream."""

from __future__ import annotations

from collections.abc import Sequence

from mage.errors import MageError
from mage.types import Sample, Trial, Turn


def to_samples(
    trial: Trial,
    turns: Sequence[Turn],
    advantages: Sequence[float | None],
    returns: Sequence[float],
) -> list[Sample]:
    """One sample per stream with trained tokens.

    Advantages and returns are aligned with `turns`; a turn whose advantage is None is not trained. All tokens of a turn
    have its advantage.

    A token is trained in the stream in which it was sampled and is context in any other. Forced tokens (one allowed id)
    are not trained. A sample ends at its last trained token: under causal attention the rest has no effect.
    """
    return list(samples_by_stream(trial, turns, advantages, returns).values())


def refuse_mixed(samples: Sequence[Sample]) -> None:
    """Raise a MageError where the weights changed while a stream was sampled."""
    for sample in samples:
        if sample.num_versions > 1:
            raise MageError(
                f"a stream was sampled by {sample.num_versions} versions of the weights, the oldest {sample.version}; "
                "rollout.lag = 0 allows one"
            )


def samples_by_stream(
    trial: Trial,
    turns: Sequence[Turn],
    advantages: Sequence[float | None],
    returns: Sequence[float],
) -> dict[int, Sample]:
    """`to_samples` by the number of the stream, ascending."""
    rows: dict[int, list[_Row]] = {}
    for number, (turn, advantage, gain) in enumerate(zip(turns, advantages, returns, strict=True)):
        if advantage is not None:
            for stream, row in _rows(turn, number, advantage, gain):
                rows.setdefault(stream, []).append(row)
    return {stream: _sample(trial.streams[stream], rows[stream]) for stream in sorted(rows)}


_Row = tuple[int, int, Turn, float, float, float, tuple[int, ...] | None, int]


def _rows(turn: Turn, number: int, advantage: float, gain: float) -> list[tuple[int, _Row]]:
    """The trained tokens of a turn, each with the number of its stream."""
    found: list[tuple[int, _Row]] = []
    for call in turn.calls:
        completion = call.completion
        for index, logprob in enumerate(completion.logprobs):
            allowed = None if completion.allowed is None else completion.allowed[index]
            if allowed is None or len(allowed) > 1:
                row = (call.start + index, number, turn, logprob, advantage, gain, allowed, completion.version)
                found.append((call.stream, row))
    return found


def _sample(stream: tuple[int, ...], rows: list[_Row]) -> Sample:
    rows.sort(key=lambda row: row[0])
    positions, numbers, turns, logprobs, advantages, returns, allowed, versions = zip(*rows, strict=True)
    return Sample(
        tokens=stream[: positions[-1] + 1],
        positions=positions,
        turns=numbers,
        phases=tuple(turn.phase for turn in turns),
        logprobs=logprobs,
        advantages=advantages,
        returns=returns,
        allowed=allowed,
        version=min(versions),
        num_versions=len(set(versions)),
    )
