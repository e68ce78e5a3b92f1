"""From trials to samples: which tokens are trained, where, and with what."""

from __future__ import annotations

from mage.learners.samples import to_samples
from mage.types import AgentInfo, Call, Completion, Observation, Phase, Task, Trial, Turn

TASK = Task("rps", ("uniform",), 0, 1, 1, False, False, 100)


def turn(*calls: Call, phase: Phase = Phase.PLAY) -> Turn:
    return Turn(phase, Observation(0, 0, 0, "", (), (), "", {}), None, "", calls, 0.0)


def call(stream: int, start: int, tokens: tuple[int, ...], *, forced: tuple[int, ...] = (), version: int = 3) -> Call:
    allowed = tuple((t,) if i in forced else (t, 99) for i, t in enumerate(tokens)) if forced else None
    logprobs = tuple(-float(t) for t in tokens)
    return Call(stream, start, Completion(tokens, logprobs, allowed, version, False), None)


def trial(*streams: tuple[int, ...]) -> Trial:
    return Trial(TASK, 0, AgentInfo("test", None, None), (), (), streams, ())


def test_each_stream_is_a_sample_and_a_token_is_trained_where_it_was_sampled() -> None:
    # The second stream repeats (5, 6) as context: it is not trained there.
    turns = [turn(call(0, 2, (5, 6))), turn(call(1, 4, (8,)), phase=Phase.REFLECT)]
    first, second = to_samples(trial((1, 2, 5, 6, 9, 9), (1, 5, 6, 2, 8, 7)), turns, [0.5, -2.0], [10.0, 20.0])
    assert (first.tokens, first.positions, first.turns) == ((1, 2, 5, 6), (2, 3), (0, 0))
    assert (first.logprobs, first.advantages, first.returns) == ((-5.0, -6.0), (0.5, 0.5), (10.0, 10.0))
    assert (second.tokens, second.positions, second.phases) == ((1, 5, 6, 2, 8), (4,), (Phase.REFLECT,))
    assert (second.advantages, second.version) == ((-2.0,), 3)


def test_forced_tokens_and_untrained_turns_are_context() -> None:
    turns = [turn(call(0, 1, (5, 6), forced=(0,))), turn(call(0, 4, (7,)))]
    (found,) = to_samples(trial((1, 5, 6, 2, 7)), turns, [1.0, None], [0.0, 0.0])
    assert found.positions == (2,)
    assert found.tokens == (1, 5, 6)
    assert found.allowed == ((6, 99),)


def test_every_try_of_a_turn_is_trained() -> None:
    (found,) = to_samples(trial((1, 5, 2, 6)), [turn(call(0, 1, (5,)), call(0, 3, (6,)))], [1.5], [0.0])
    assert (found.positions, found.turns, found.advantages) == ((1, 3), (0, 0), (1.5, 1.5))


def test_of_several_versions_of_the_weights_the_oldest_counts() -> None:
    turns = [turn(call(0, 1, (5,), version=2)), turn(call(0, 2, (6,), version=1))]
    (found,) = to_samples(trial((1, 5, 6)), turns, [1.0, 1.0], [0.0, 0.0])
    assert (found.version, found.num_versions) == (1, 2)
    (found,) = to_samples(trial((1, 5, 6)), turns, [1.0, None], [0.0, 0.0])
    assert (found.version, found.num_versions) == (2, 1)
