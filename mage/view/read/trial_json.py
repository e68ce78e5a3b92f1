"""One trial as JSON for the pages: every turn of every seat, its tokens, and the agent's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mage.runs.credit import CallCredit, Credit, TurnCredit, by_episode
from mage.runs.wording import carried_memory, seat_names
from mage.types import Call, Episode, Failure, Result, Task, Trial, Turn
from mage.view.read.tokens import Reader

Readers = Sequence[Reader | None]
"""The token reader of each seat; None if there is none."""

_MAX_TEXT = 2_000_000
"""Most characters of streams in one response."""


def trial_json(
    outcome: Trial | Failure, readers: Readers, credit: Credit | None = None, rules: str | None = None
) -> dict[str, Any]:
    """A trial or a failure as plain values for JSON."""
    task = outcome.task
    about = {
        "task": task_json(task),
        "sibling": outcome.sibling,
        "names": list(seat_names(outcome)),
        "rules": rules,
        "step": None if credit is None else credit.step,
        "trained": None if credit is None else credit.trained,
    }
    if isinstance(outcome, Failure):
        error = f"{outcome.error}: {outcome.message}"
        nothing: dict[str, Any] = {"agent": None, "episodes": [], "reflections": [], "memory": [], "streams": []}
        return {**about, **nothing, "scores": [], "overflows": [], "error": error}
    credits = _Credits(outcome, credit)
    episodes = [
        {
            "turns": [turn_json(t, readers, credits.of_turn(k, t)) for t in episode.turns],
            "result": result_json(episode.result),
            "is_overflowed": k in outcome.overflows,
        }
        for k, episode in enumerate(outcome.episodes)
    ]
    return {
        **about,
        "agent": msgspec.to_builtins(outcome.agent),
        "episodes": episodes,
        "reflections": [turn_json(t, readers, credits.of_turn(t.observation.episode, t)) for t in outcome.reflections],
        "memory": _memory(outcome, readers[task.seat]),
        "streams": _streams(outcome, readers[task.seat]),
        "scores": list(outcome.scores),
        "overflows": list(outcome.overflows),
        "error": None,
    }


def task_json(task: Task) -> dict[str, Any]:
    """A task; its seed is a string, since it may exceed the integers of JavaScript."""
    return {**msgspec.to_builtins(task), "seed": str(task.seed)}


def turn_json(turn: Turn, readers: Readers, credit: TurnCredit | None = None) -> dict[str, Any]:
    """One decision of one seat with its tokens."""
    seen = turn.observation
    calls = credit.calls if credit is not None else (None,) * len(turn.calls)
    advantage = None if credit is None else credit.advantage
    reader = readers[seen.seat]
    return {
        "seat": seen.seat,
        "phase": turn.phase,
        "episode": seen.episode,
        "turn": seen.turn,
        "observation": seen.text,
        "facts": dict(seen.facts),
        "actions": list(seen.actions),
        "ids": list(seen.ids),
        "action": turn.action,
        "text": turn.text,
        "reward": turn.reward,
        "calls": [_call(c, reader, how, advantage) for c, how in zip(turn.calls, calls, strict=True)],
        "credit": None if credit is None else {"advantage": credit.advantage, "return": credit.return_},
    }


def result_json(result: Result) -> dict[str, Any]:
    """How an episode ended, for every seat."""
    found: dict[str, Any] = msgspec.to_builtins(result)
    return found


class _Credits:
    """The credit of a trial's turns; `of_turn` must be called once per turn and in order."""

    def __init__(self, trial: Trial, credit: Credit | None) -> None:
        self._seat = trial.task.seat
        self._left: list[tuple[list[TurnCredit], list[TurnCredit]]] = []
        if credit is not None:
            self._left = [(list(e.plays), list(e.reflections)) for e in by_episode(trial, credit)]

    def of_turn(self, episode: int, turn: Turn) -> TurnCredit | None:
        if turn.observation.seat != self._seat or episode >= len(self._left):
            return None
        plays, reflections = self._left[episode]
        return (plays if turn.phase == "play" else reflections).pop(0)


def _call(call: Call, reader: Reader | None, credit: CallCredit | None, advantage: float | None) -> dict[str, Any]:
    completion = call.completion
    num = len(completion.tokens)
    texts: Sequence[str | None] = (None,) * num if reader is None else reader.pieces(completion.tokens)
    entropies = (None,) * num if credit is None else credit.entropies
    learned = (None,) * num if credit is None else credit.logprobs
    allowed: Sequence[Sequence[int] | None] = (None,) * num if completion.allowed is None else completion.allowed
    tokens = []
    for k, (text, logprob, choices) in enumerate(zip(texts, completion.logprobs, allowed, strict=True)):
        is_forced = choices is not None and len(choices) == 1
        tokens.append(
            {
                "text": text,
                "logprob": logprob,
                "learner_logprob": learned[k],
                "entropy": entropies[k],
                "advantage": None if is_forced else advantage,
                "forced": is_forced,
                "num_allowed": None if choices is None else len(choices),
            }
        )
    return {
        "tokens": tokens,
        "stream": call.stream,
        "start": call.start,
        "version": completion.version,
        "truncated": completion.truncated,
        "problem": call.problem,
    }


def _memory(trial: Trial, reader: Reader | None) -> list[dict[str, Any]]:
    """The memory carried over each episode boundary, and the text added to the prompt there."""
    mode = trial.agent.memory
    boundaries = []
    for k in range(len(trial.episodes) - 1):
        notes = [t.action or "" for t in trial.reflections if t.observation.episode == k]
        boundaries.append(
            {
                "after": k,
                "mode": mode,
                "carries": carried_memory(trial.agent),
                "notes": notes,
                "is_overflowed": k + 1 in trial.overflows,
                **_crossing(trial, k, reader),
            }
        )
    return boundaries


def _crossing(trial: Trial, k: int, reader: Reader | None) -> dict[str, Any]:
    """Whether the stream continues over a boundary, and the text added to it, or the start of the new one."""
    before, after = _calls(trial, k)[-1:], _calls(trial, k + 1)[:1]
    if not before or not after or after[0].stream >= len(trial.streams):
        return {"goes_on": None, "tokens_before": None, "tokens_after": None, "added": None}
    end = before[0].start + len(before[0].completion.tokens)
    goes_on = after[0].stream == before[0].stream
    added = trial.streams[after[0].stream][end if goes_on else 0 : after[0].start]
    return {
        "goes_on": goes_on,
        "tokens_before": end,
        "tokens_after": after[0].start,
        "added": None if reader is None else reader.text(added),
    }


def _streams(trial: Trial, reader: Reader | None) -> list[dict[str, Any]]:
    """Each stream in pieces: prompt text, and text sampled by the agent."""
    spans: Mapping[int, list[tuple[int, int]]] = {n: [] for n in range(len(trial.streams))}
    turns = [t for e in trial.episodes for t in _own_turns(trial, e)] + list(trial.reflections)
    for call in (c for t in turns for c in t.calls):
        if call.stream in spans:
            spans[call.stream].append((call.start, call.start + len(call.completion.tokens)))
    chars_left = _MAX_TEXT
    streams = []
    for number, stream in enumerate(trial.streams):
        is_shown = reader is not None and chars_left > 0
        pieces = _pieces(stream, sorted(spans[number]), reader) if reader is not None and is_shown else None
        chars_left -= sum(len(piece["text"]) for piece in pieces or ())
        streams.append({"num_tokens": len(stream), "pieces": pieces})
    return streams


def _pieces(stream: Sequence[int], spans: Sequence[tuple[int, int]], reader: Reader) -> list[dict[str, Any]]:
    pieces: list[dict[str, Any]] = []
    at = 0
    for start, stop in (*spans, (len(stream), len(stream))):
        if start > at:
            pieces.append({"text": reader.text(stream[at:start]), "written": False})
        if stop > start >= at:
            pieces.append({"text": reader.text(stream[start:stop]), "written": True})
        at = max(at, stop)
    return pieces


def _own_turns(trial: Trial, episode: Episode) -> list[Turn]:
    return [turn for turn in episode.turns if turn.observation.seat == trial.task.seat]


def _calls(trial: Trial, k: int) -> list[Call]:
    """The agent's calls for moves in an episode."""
    return [call for turn in _own_turns(trial, trial.episodes[k]) for call in turn.calls]
