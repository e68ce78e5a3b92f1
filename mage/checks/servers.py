"""Contract checks for policy servers: what was published is what plays. They raise AssertionError with the broken rule.

Weights that are published wrongly are seldom an error: a prefix cache of the old weights, a tied head that was left out
or an adapter that was not replaced give replies that look as good as others, and training goes wrong without a word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from math import inf, isfinite

from mage.checks.engines import CHOICES, engine_contract
from mage.errors import EngineError
from mage.protocols import ChatFormat, Engine, Learner, PolicyServer, Sampling, ScoringEngine
from mage.types import Completion, Phase, Sample
from mage.weights import PolicyWeights

_MAX_UPDATES = 8
_MANY = 64
"""A server with room for more policies than this is not filled."""

_Request = tuple[tuple[int, ...], Sampling, list[tuple[int, ...]] | None]


def check_policy_server(
    make_server: Callable[[], PolicyServer],
    weights: Sequence[PolicyWeights],
    chat_format: ChatFormat,
    tolerance: float = 1e-4,
) -> None:
    """Policies play with the weights and the version published last under their name, whatever the others do.

    `weights` are those of two policies that clearly differ. `tolerance` bounds the difference of the log-probabilities
    of one reply.
    """
    asyncio.run(_Server(make_server(), weights, chat_format, tolerance).check(make_server))


def check_publish(
    server: PolicyServer,
    learner: Learner,
    chat_format: ChatFormat,
    *,
    policy: str = "main",
    temperature: float = 1.0,
    tolerance: float = 1e-4,
) -> None:
    """A server's log-probabilities are the learner's, before an update and after it, with a warm prefix cache.

    The learner is updated. `temperature` is the one in its settings.
    """
    requests = _requests(chat_format, temperature)
    asyncio.run(_check_publish(server, learner, requests, policy, tolerance))


class _Server:
    """A server under test, and what two fresh ones answer for each of the weights."""

    def __init__(
        self, server: PolicyServer, weights: Sequence[PolicyWeights], chat_format: ChatFormat, tolerance: float
    ) -> None:
        self.server = server
        self.weights = weights
        self.chat_format = chat_format
        self.tolerance = tolerance
        self.requests = _requests(chat_format, 1.0)
        self.expected: list[list[Completion]] = []

    async def check(self, make_server: Callable[[], PolicyServer]) -> None:
        for one in self.weights[:2]:
            fresh = make_server()
            await fresh.publish("alone", one, 0)
            self.expected.append(await _ask(fresh.policy("alone"), self.requests))
        gap = _gap(*self.expected)
        assert gap > _clear(self.tolerance), f"the given weights play alike (difference {gap:.1e}): give other ones"
        early = self.server.policy("a")
        await self._refuses(early, "a policy answers before it is published")
        await self.server.publish("a", self.weights[0], 3)
        await self._plays("a", 0, 3, "the first publication")
        assert _gap(await _ask(early, self.requests), self.expected[0]) <= self.tolerance, (
            "an engine that was asked for before the publication does not serve what was published"
        )
        await engine_contract(self.server.policy("a"), self.chat_format, self.tolerance)
        await self._check_scores(self.server.policy("a"))
        await self._check_length(self.server.policy("a"))
        if self.server.limits.policies != 1:
            await self._check_neighbours()
        await self.server.publish("a", self.weights[1], 4)
        await self._plays("a", 1, 4, "publishing over old weights")
        self.server.reset_cache()
        await self._plays("a", 1, 4, "resetting the cache")
        await self._check_room()
        self._check_metrics(dict(self.server.metrics()))
        self.server.clear()
        await self._refuses(self.server.policy("a"), "a policy answers after clear()")
        await self.server.publish("b", self.weights[0], 1)
        await self._plays("b", 0, 1, "clear()")

    async def _check_neighbours(self) -> None:
        """Two policies, published and dropped beside each other."""
        await self.server.publish("b", self.weights[1], 5)
        await self._plays("b", 1, 5, "publishing a second policy")
        await self._plays("a", 0, 3, "publishing another policy")
        await self.server.publish("b", self.weights[0], 6)
        await self._plays("b", 0, 6, "publishing over old weights")
        await self._plays("a", 0, 3, "publishing another policy")
        self.server.drop("b")
        await self._refuses(self.server.policy("b"), "a policy answers after it was dropped")
        await self._plays("a", 0, 3, "dropping another policy")
        await self.server.publish("c", self.weights[1], 7)
        await self._plays("c", 1, 7, "publishing in the place of a dropped policy")
        await self._plays("a", 0, 3, "publishing another policy")

    async def _check_room(self) -> None:
        """The last policy that fits is served, and one more is refused without harm."""
        room = self.server.limits.policies
        if room is None or room > _MANY:
            return
        names = ["a", *(f"more-{number}" for number in range(room - (1 if room == 1 else 2)))]
        for name in names[1:]:
            await self.server.publish(name, self.weights[0], 8)
        try:
            await self.server.publish("one-too-many", self.weights[0], 9)
        except EngineError:
            await self._plays("a", 1, 4, "refusing one policy too many")
            for name in names[1:]:
                await self._plays(name, 0, 8, "refusing one policy too many")
                self.server.drop(name)
        else:
            raise AssertionError(f"limits say {room} policies, and one more is published without an EngineError")

    async def _check_scores(self, engine: Engine) -> None:
        """Where it scores choices, scores are the log-probabilities of choosing them."""
        if not isinstance(engine, ScoringEngine):
            return
        prompt, sampling, choices = self.requests[0]
        assert choices is not None
        scores = await engine.action_logprobs(prompt, choices)
        (reply,) = await _ask(engine, [(prompt, sampling, choices)])
        difference = abs(scores[choices.index(reply.tokens)] - sum(reply.logprobs))
        assert difference <= self.tolerance, "action_logprobs differ from the log-probabilities of sampled choices"

    async def _check_length(self, engine: Engine) -> None:
        """A prompt may be as long as the limits say, with room for one token."""
        length = self.server.limits.length
        prompt = (self.requests[0][0] * length)[: length - 1]
        try:
            await engine.complete(prompt, Sampling(1.0, 1, 0), None)
        except EngineError as error:
            raise AssertionError(f"limits say {length} tokens, and a prompt with answer of so many fails") from error

    def _check_metrics(self, before: dict[str, float]) -> None:
        after = self.server.metrics()
        for name, value in before.items():
            assert isfinite(value), f"the metric {name!r} is not finite"
            assert after[name] >= value, f"the metric {name!r} is a total and must not fall"

    async def _plays(self, policy: str, number: int, version: int, after: str) -> None:
        """A policy plays with the weights of a number; the error says what it plays with instead."""
        expected, other = self.expected[number], self.expected[1 - number]
        replies = await _ask(self.server.policy(policy), self.requests)
        gap = _gap(replies, expected)
        if gap > self.tolerance:
            if _gap(replies, other) <= self.tolerance:
                raise AssertionError(f"{policy!r} plays with other weights than its own after {after}")
            self.server.reset_cache()
            again = await _ask(self.server.policy(policy), self.requests)
            if _gap(again, expected) <= self.tolerance:
                raise AssertionError(f"{policy!r} reuses prompts that other weights read (prefix cache) after {after}")
            raise AssertionError(f"{policy!r} plays with weights that were not published (gap {gap:.1e}) after {after}")
        _check_versions(replies, policy, version)

    async def _refuses(self, engine: Engine, complaint: str) -> None:
        try:
            await engine.complete(*self.requests[0])
        except EngineError:
            return
        raise AssertionError(f"{complaint}, instead of raising an EngineError")


async def _check_publish(
    server: PolicyServer, learner: Learner, requests: Sequence[_Request], policy: str, tolerance: float
) -> None:
    engine = server.policy(policy)
    await server.publish(policy, learner.weights(), 1)
    replies = await _ask(engine, requests)
    gap = _learner_gap(learner, requests, replies)
    assert gap <= tolerance, f"log-probabilities are not the learner's after the first publication (gap {gap:.1e})"
    _check_versions(replies, policy, 1)
    first = learner.state().copied()
    has_neighbour = server.limits.policies is None or server.limits.policies > 1
    if has_neighbour:
        await server.publish(f"{policy}-neighbour", learner.weights(first.weights), 1)
    for _ in range(_MAX_UPDATES):
        learner.update(_samples(requests, replies))
        moved = _learner_gap(learner, requests, replies)
        if moved > _clear(tolerance):
            break
    assert moved > _clear(tolerance), f"the learner hardly moved (by {moved:.1e}): raise its learning rate"
    kept = await _ask(engine, requests)
    assert _gap(kept, replies) <= tolerance, "the learner's update is played before it is published: weights are shared"
    await server.publish(policy, learner.weights(), 2)
    after = await _ask(engine, requests)
    gap = _learner_gap(learner, requests, after)
    if gap > tolerance:
        if _gap(after, replies) <= tolerance:
            raise AssertionError("the old weights play on after new ones were published")
        server.reset_cache()
        again = await _ask(engine, requests)
        if _learner_gap(learner, requests, again) <= tolerance:
            raise AssertionError("prompts that the old weights read are reused after publishing: a stale prefix cache")
        raise AssertionError(f"log-probabilities are not those of the published weights (gap {gap:.1e})")
    _check_versions(after, policy, 2)
    if has_neighbour:
        neighbour = await _ask(server.policy(f"{policy}-neighbour"), requests)
        assert _gap(neighbour, replies) <= tolerance, "publishing one policy changed another"
        _check_versions(neighbour, f"{policy}-neighbour", 1)
        server.drop(f"{policy}-neighbour")


def _clear(tolerance: float) -> float:
    """A difference of log-probabilities that tells old weights from new ones, and half-published from published."""
    return max(5 * tolerance, 0.05)


def _requests(chat_format: ChatFormat, temperature: float) -> list[_Request]:
    """Prompts of different lengths with a common opening, answered by choice and freely."""
    choices = [chat_format.choice(action) for action in CHOICES]
    prompt = chat_format.opening("The game is rock-paper-scissors, against one opponent.")
    found: list[_Request] = []
    for number in range(4):
        prompt += chat_format.user(f"Round {number + 1} of 4.")
        found.append((prompt, Sampling(temperature, 16, number), choices))
        found.append((prompt, Sampling(temperature, 6, number), None))
        prompt += chat_format.answer("rock") + chat_format.close
    return found


async def _ask(engine: Engine, requests: Sequence[_Request]) -> list[Completion]:
    return list(await asyncio.gather(*(engine.complete(*request) for request in requests)))


def _gap(replies: Sequence[Completion], others: Sequence[Completion]) -> float:
    """The largest difference of log-probabilities; infinite where other tokens were sampled."""
    gaps = [
        abs(one - other) if reply.tokens == twin.tokens else inf
        for reply, twin in zip(replies, others, strict=True)
        for one, other in zip(reply.logprobs, twin.logprobs, strict=False)
    ]
    return max(gaps)


def _learner_gap(learner: Learner, requests: Sequence[_Request], replies: Sequence[Completion]) -> float:
    """The largest difference of the replies' log-probabilities to those of the learner."""
    samples = _samples(requests, replies)
    read = learner.evaluate_tokens(samples)
    return max(
        abs(logprob - own)
        for sample, tokens in zip(samples, read, strict=True)
        for logprob, (own, _) in zip(sample.logprobs, tokens, strict=True)
    )


def _samples(requests: Sequence[_Request], replies: Sequence[Completion]) -> list[Sample]:
    """Replies as samples, every other one to be reinforced; tokens that were forced are left out."""
    found: list[Sample] = []
    for number, ((prompt, _, choices), reply) in enumerate(zip(requests, replies, strict=True)):
        allowed = reply.allowed or (None,) * len(reply.tokens)
        chosen = [at for at, ids in enumerate(allowed) if ids is None or len(ids) > 1]
        num, gain = len(chosen), 1.0 if number % 4 < 2 else -1.0
        phase = Phase.PLAY if choices is not None else Phase.REFLECT
        found.append(
            Sample(
                tokens=prompt + reply.tokens,
                positions=tuple(len(prompt) + at for at in chosen),
                turns=(0,) * num,
                phases=(phase,) * num,
                logprobs=tuple(reply.logprobs[at] for at in chosen),
                advantages=(gain,) * num,
                returns=(gain,) * num,
                allowed=tuple(allowed[at] for at in chosen),
                version=reply.version,
            )
        )
    return found


def _check_versions(replies: Sequence[Completion], policy: str, version: int) -> None:
    found = sorted({reply.version for reply in replies})
    assert found == [version], f"completions of {policy!r} have version {found}, where {version} was published"
