"""Contract checks for engines and chat formats; they raise AssertionError with the broken rule."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import isfinite

from mage.protocols import ChatFormat, Engine, Sampling
from mage.types import Completion

CHOICES = ("bet", "bet 2", "bet 20", "pass")
"""Some actions are prefixes of others, so ending them is a choice too."""

TEXTS = ("rock", "bet 2", "Paper, then scissors.", "x(0,1)", "naïve → 石", "two\nlines", "  spaces  around  ")

LOOKALIKES = (
    "<|im_end|>",
    "<|im_start|>user",
    "<|endoftext|>",
    "</s>",
    "<|eot_id|>",
    "<|start_header_id|>system<|end_header_id|>",
    "<|user|>",
    "<|assistant|>",
    "<think>",
)
"""Text that looks like control tokens of well-known chat templates."""

_Request = tuple[Sequence[int], Sampling, Sequence[tuple[int, ...]] | None]


def check_engine(engine: Engine, chat_format: ChatFormat, tolerance: float = 1e-4) -> None:
    """Replies keep limits and choices, are aligned, and depend on prompt and sampling alone.

    `tolerance` bounds the difference of a reply's log-probabilities when it is sampled alone and in a batch.
    """
    asyncio.run(engine_contract(engine, chat_format, tolerance))


async def engine_contract(engine: Engine, chat_format: ChatFormat, tolerance: float) -> None:
    """`check_engine` inside a running event loop."""
    choices = [chat_format.choice(action) for action in CHOICES]
    requests: list[_Request] = []
    for number in range(4):
        prompt = list(chat_format.opening("You play a game.") + chat_format.user(f"Round {number}."))
        for max_tokens in (1, 2, 16):
            requests.append((prompt, Sampling(1.0, max_tokens, number), None))
        requests += [(prompt, Sampling(1.0, 16, number), c) for c in (choices, choices[:1], choices[::-1])]
    before = [tuple(prompt) for prompt, _, _ in requests]
    together = await asyncio.gather(*(engine.complete(*request) for request in requests))
    alone = [await engine.complete(*request) for request in requests]
    assert [tuple(prompt) for prompt, _, _ in requests] == before, "an engine leaves its prompts as they are"
    for request, reply, again in zip(requests, together, alone, strict=True):
        _check_reply(reply, chat_format, *request[1:])
        assert (reply.tokens, reply.allowed) == (again.tokens, again.allowed), "the same seed gives another reply"
        differences = [abs(a - b) for a, b in zip(reply.logprobs, again.logprobs, strict=True)]
        assert max(differences) <= tolerance, "the same reply has other log-probabilities"


def _check_reply(
    reply: Completion, chat_format: ChatFormat, sampling: Sampling, choices: Sequence[tuple[int, ...]] | None
) -> None:
    tokens = reply.tokens
    assert 1 <= len(tokens) <= sampling.max_tokens, f"{len(tokens)} tokens where 1 to {sampling.max_tokens} are allowed"
    assert chat_format.end not in tokens[:-1], "a reply goes on after its end"
    assert reply.truncated == (tokens[-1] != chat_format.end), "a reply either ends its turn or is cut"
    assert len(reply.logprobs) == len(tokens), "one log-probability for each token"
    assert all(isfinite(p) and p <= 0 for p in reply.logprobs), "log-probabilities are finite and at most 0"
    assert reply.version >= 0, "versions count from 0"
    if choices is None:
        assert reply.allowed is None, "free text may use every token"
        return
    assert tokens in choices, "a constrained reply is exactly one of the choices"
    assert reply.allowed is not None, "a constrained reply says which ids were allowed"
    assert len(reply.allowed) == len(tokens), "one set of allowed ids for each token"
    for at, (allowed, logprob) in enumerate(zip(reply.allowed, reply.logprobs, strict=True)):
        following = {c[at] for c in choices if c[:at] == tokens[:at]}
        assert sorted(allowed) == sorted(following), "allowed are the ids that go on with some choice"
        assert len(allowed) > 1 or logprob == 0.0, "a forced token has log-probability 0"


def check_chat_format(
    chat_format: ChatFormat, texts: Sequence[str] = (*TEXTS, *LOOKALIKES), control: Sequence[int] = ()
) -> None:
    """Messages can be concatenated, replies decode to their text, and no text becomes a control token.

    `texts` must be encodable by the vocabulary; `control` are the ids besides `end` that only the template may use.
    """
    reserved = {chat_format.end, *control}
    for make in (chat_format.opening, chat_format.user):
        glue = _count(make("word"), reserved)
        for text in (*texts, *LOOKALIKES):
            assert make(text) == make(text), "a piece is encoded in one way"
            assert make(text)[0] == make("word")[0], "glue depends on the text it holds"
            assert _count(make(text), reserved) == glue, f"{text!r} opens or ends a turn"
    for text in texts:
        ids = chat_format.choice(text)
        assert ids[-1] == chat_format.end, "a choice finishes with the end of the turn"
        assert not reserved & set(ids[:-1]), f"{text!r} holds a control token"
        assert chat_format.decode(ids) == chat_format.decode(ids[:-1]) == text, (
            f"{text!r} reads back as {chat_format.decode(ids)!r}"
        )
        for stop in range(len(ids)):
            assert isinstance(chat_format.decode(ids[:stop]), str), "a reply that was cut short can be read"
        assert chat_format.user(text)[-1] == chat_format.user("word")[-1], "glue depends on the text it holds"
    assert len({chat_format.choice(text) for text in texts}) == len(set(texts)), "different answers have different ids"
    for text in LOOKALIKES:
        for ids in (chat_format.choice(text), chat_format.answer(text)):
            assert ids[-1] == chat_format.end, "an answer finishes with the end of the turn"
            assert not reserved & set(ids[:-1]), f"{text!r} holds a control token"


def _count(ids: Sequence[int], reserved: set[int]) -> int:
    return sum(i in reserved for i in ids)
