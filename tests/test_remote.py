"""The engine for remote models over real HTTP: what goes out, and everything a server can do wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from mage.agents.byte_format import ByteFormat
from mage.engines.remote import RemoteEngine, RetryPolicy
from mage.engines.remote_budget import Budget, ServiceUnavailableError, use_budget
from mage.errors import ConfigError, EngineError
from mage.models.address import ApiKey, make_address, read_address
from mage.protocols import Sampling
from mage.types import Completion
from tests.chat_server import HASTY, TROUBLE, Answer, Asked, ChatServer, Said, always, engine_of

CODEC = ByteFormat()
PROMPT = CODEC.opening("You play.") + CODEC.user("Go.") + CODEC.answer("hm") + CODEC.user("Go on.")
SECRET = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_API_KEY", SECRET)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with ChatServer() as server:
        monkeypatch.setenv("MAGE_API_HOSTS", server.host)
        yield server


def ask(server: ChatServer, *, max_tokens: int = 50, temperature: float = 0.7, seed: int = 5) -> Completion:
    return asyncio.run(engine_of(server).complete(PROMPT, Sampling(temperature, max_tokens, seed), None))


def after(*troubles: Said) -> Answer:
    """The first requests meet trouble, the others a model."""

    def answer(asked: Asked) -> Said:
        return troubles[asked.number] if asked.number < len(troubles) else Said("fine")

    return answer


def test_a_prompt_goes_out_as_the_messages_it_was_made_of(server: ChatServer) -> None:
    server.answer = always(Said("sure"))
    reply = ask(server)
    assert CODEC.decode(reply.tokens) == "sure"
    assert (reply.truncated, reply.allowed, reply.logprobs) == (False, None, (0.0,) * 5)
    (asked,) = server.asked
    assert asked.body["messages"] == [
        {"role": "system", "content": "You play."},
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "hm"},
        {"role": "user", "content": "Go on."},
    ]
    assert (asked.body["model"], asked.body["temperature"], asked.body["seed"]) == ("toy", 0.7, 5)
    assert asked.body["max_tokens"] == 17, "a third of 50 bytes, rounded up"
    assert asked.headers["Authorization"] == f"Bearer {SECRET}"


def test_without_a_key_none_is_sent(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAGE_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ask(server)
    assert "Authorization" not in server.asked[0].headers
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-name")
    ask(server)
    assert server.asked[1].headers["Authorization"] == "Bearer sk-of-another-name"


@pytest.mark.parametrize(
    ("said", "max_tokens", "text", "truncated"),
    [
        (Said("1234567890"), 11, "1234567890", False),
        (Said("1234567890"), 10, "1234567890", True),
        (Said("1234567890"), 4, "1234", True),
        (Said("12345", finish="length"), 50, "12345", True),
        (Said("", finish="length"), 50, "", True),
        (Said(None), 50, "", False),
        (Said("naïve"), 3, "na\ufffd", True),
        (Said("half \ud800 a pair"), 50, "half ? a pair", False),
        (Said(raw=b'{"choices":[{"message":{"content":[{"text":"in "},{"text":"parts"}]}}]}'), 50, "in parts", False),
    ],
)
def test_what_is_said_is_kept_up_to_the_limit(
    server: ChatServer, said: Said, max_tokens: int, text: str, truncated: bool
) -> None:
    server.answer = always(said)
    reply = ask(server, max_tokens=max_tokens)
    assert (CODEC.decode(reply.tokens), reply.truncated) == (text, truncated)
    assert len(reply.tokens) <= max_tokens
    assert truncated == (CODEC.end not in reply.tokens)


@pytest.mark.parametrize("name", TROUBLE)
def test_trouble_that_passes_is_waited_for(server: ChatServer, name: str) -> None:
    server.answer = after(TROUBLE[name], TROUBLE["500"])
    reply = ask(server)
    assert CODEC.decode(reply.tokens) == "fine"
    assert len(server.asked) == 3


@pytest.mark.parametrize("name", [name for name in TROUBLE if name != "timeout"])
def test_trouble_that_stays_is_an_error_in_one_line(server: ChatServer, name: str) -> None:
    server.answer = always(TROUBLE[name])
    with pytest.raises(EngineError, match=r"#toy .*; it was asked 4 times$") as raised:
        ask(server)
    assert len(server.asked) == 4
    assert str(raised.value).isprintable()
    assert not isinstance(raised.value, ServiceUnavailableError)


def test_a_server_that_is_not_there_is_an_error_in_one_line() -> None:
    engine = RemoteEngine(make_address("http://127.0.0.1:9", "toy"), retry_policy=HASTY)
    with pytest.raises(ServiceUnavailableError, match=r"cannot be reached: ConnectError.*asked 4 times"):
        asyncio.run(engine.complete(PROMPT, Sampling(1.0, 9, 0), None))


def test_a_server_that_has_answered_before_fails_one_call_alone() -> None:
    with ChatServer() as server:
        engine = engine_of(server)
        asyncio.run(engine.complete(PROMPT, Sampling(1.0, 9, 0), None))
    with pytest.raises(EngineError, match="cannot be reached") as raised:
        asyncio.run(engine.complete(PROMPT, Sampling(1.0, 9, 0), None))
    assert not isinstance(raised.value, ServiceUnavailableError)


def waits(answer: Answer, seconds: Callable[[float], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is slept between the tries."""
    real = asyncio.sleep

    async def sleep(delay: float) -> None:
        seconds(delay)
        await real(0)

    with ChatServer(answer) as server, monkeypatch.context() as patched:
        engine = RemoteEngine(
            read_address(server.agent), retry_policy=RetryPolicy(tries=4, wait_s=1.0, longest_wait_s=30.0)
        )
        patched.setattr("mage.engines.remote.asyncio.sleep", sleep)
        asyncio.run(engine.complete(PROMPT, Sampling(1.0, 9, 3), None))


def test_waits_double_and_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    waits(after(*[TROUBLE["500"]] * 3), slept.append, monkeypatch)
    for number, delay in enumerate(slept):
        assert 0.5 * 2**number <= delay <= 2**number
    assert len(slept) == len({round(delay / 2**number, 6) for number, delay in enumerate(slept)}) == 3


def test_a_server_is_waited_for_as_long_as_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    asks = [Said(status=429, raw=b"", headers={"Retry-After": when}) for when in ("7", soon, "tomorrow")]
    waits(after(*asks), slept.append, monkeypatch)
    assert slept[0] == 7.0
    assert 15.0 < slept[1] <= 20.0
    assert slept[2] <= 4.0, "what cannot be read is not waited for"


def test_a_server_that_asks_for_too_much_is_given_up(server: ChatServer) -> None:
    server.answer = always(Said(status=429, raw=b"busy", headers={"Retry-After": "3600"}))
    with pytest.raises(EngineError, match=r"answers 429: busy, and asks to wait for 3600 seconds"):
        ask(server)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "said", "stops"),
    [
        (401, b"wrong key", True),
        (404, b"no such model", True),
        (429, b'{"error": {"code": "insufficient_quota"}}', True),
        (400, b"context length exceeded", False),
        (302, b"", False),
    ],
)
def test_what_will_not_pass_is_not_tried_again(server: ChatServer, status: int, said: bytes, stops: bool) -> None:
    server.answer = always(Said(status=status, raw=said, headers={"Location": "http://127.0.0.1:9/"}))
    with pytest.raises(EngineError, match=f"answers {status}") as raised:
        ask(server)
    assert len(server.asked) == 1
    assert isinstance(raised.value, ServiceUnavailableError) is stops


def test_fields_that_a_server_does_not_know_are_left_out(server: ChatServer) -> None:
    def picky(asked: Asked) -> Said:
        for name, hint in (("max_tokens", b"use 'max_completion_tokens' instead"), ("seed", b"extra field: seed")):
            if name in asked.body:
                return Said(status=400, raw=hint)
        return Said("fine")

    server.answer = picky
    engine = engine_of(server)
    for _ in range(2):
        asyncio.run(engine.complete(PROMPT, Sampling(1.0, 30, 3), None))
    assert len(server.asked) == 4, "it is told once"
    assert server.asked[-1].body["max_completion_tokens"] == 10


def test_calls_under_way_while_a_field_is_renamed_are_sent_again(server: ChatServer) -> None:
    def picky(asked: Asked) -> Said:
        is_old = "max_tokens" in asked.body
        return Said(status=400, raw=b"use 'max_completion_tokens' instead", delay_s=0.05) if is_old else Said("fine")

    server.answer = picky
    engine = engine_of(server)

    async def many() -> Sequence[Completion]:
        return await asyncio.gather(*(engine.complete(PROMPT, Sampling(1.0, 30, n), None) for n in range(6)))

    assert [CODEC.decode(completion.tokens) for completion in asyncio.run(many())] == ["fine"] * 6
    assert len(server.asked) == 12, "each is refused once"


def test_a_field_that_stays_unknown_is_an_error(server: ChatServer) -> None:
    server.answer = always(Said(status=400, raw=b"use 'max_completion_tokens' instead"))
    with pytest.raises(EngineError, match="answers 400"):
        ask(server)
    assert len(server.asked) == 2


def test_choices_are_refused(server: ChatServer) -> None:
    with pytest.raises(EngineError, match="a remote model cannot be held to a choice"):
        asyncio.run(engine_of(server).complete(PROMPT, Sampling(1.0, 9, 0), [CODEC.choice("rock")]))


def test_no_more_requests_are_under_way_than_allowed(server: ChatServer) -> None:
    server.answer = always(Said("x", delay_s=0.02))
    engine = engine_of(server, concurrency=3)

    async def many() -> None:
        await asyncio.gather(*(engine.complete(PROMPT, Sampling(1.0, 9, n), None) for n in range(12)))

    asyncio.run(many())
    asyncio.run(many())  # in another loop too
    assert len(server.asked) == 24
    assert server.at_once == 3


def test_a_budget_of_calls_is_kept_to_and_retries_count(server: ChatServer) -> None:
    server.answer = after(TROUBLE["500"])
    budget = Budget(max_calls=2)
    with use_budget(budget):
        ask(server)
        with pytest.raises(ServiceUnavailableError, match="the budget of 2 remote calls is spent"):
            ask(server)
    assert (budget.calls, len(server.asked)) == (2, 2)
    ask(server)  # outside nothing is counted


@pytest.mark.parametrize(("usage", "tokens"), [({"total_tokens": 70}, 70), (None, 9), ({"total_tokens": "x"}, 9)])
def test_a_budget_of_tokens_is_kept_to(server: ChatServer, usage: object, tokens: int) -> None:
    server.answer = always(Said("123456", usage=usage))
    budget = Budget(max_tokens=tokens + 1)
    with use_budget(budget):
        ask(server)
        assert budget.tokens == tokens, "a third of the characters where the server does not say"
        ask(server)
        with pytest.raises(ServiceUnavailableError, match=f"the budget of {tokens + 1} remote tokens is spent"):
            ask(server)


def test_the_key_is_in_no_reply_error_repr_or_log(server: ChatServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    engine = engine_of(server)
    server.answer = lambda asked: Said(f"You are {asked.headers['Authorization']}")
    completion = asyncio.run(engine.complete(PROMPT, Sampling(1.0, 99, 0), None))
    assert CODEC.decode(completion.tokens) == "You are Bearer [the key]"
    for status in (200, 401, 400, 500):
        server.answer = lambda asked, status=status: Said(  # type: ignore[misc]
            status=status, raw=f"bad {asked.headers['Authorization']}".encode()
        )
        with pytest.raises(EngineError) as raised:
            asyncio.run(engine.complete(PROMPT, Sampling(1.0, 99, 0), None))
        assert "[the key]" in str(raised.value)
        assert SECRET not in repr(raised.value) + str(raised.value.__context__)
    assert SECRET not in f"{engine!r} {vars(engine)} {ApiKey(SECRET)!r}"
    assert "HTTP Request" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("start", range(160, 210, 7))
def test_no_part_of_the_key_is_left_where_an_answer_is_cut(server: ChatServer, start: int) -> None:
    server.answer = always(Said(raw=b"x" * start + SECRET.encode() + b"x" * 99))
    with pytest.raises(EngineError) as raised:
        ask(server)
    assert SECRET[:4] not in str(raised.value)


def test_without_httpx_there_is_one_line_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        assert name == "httpx"

    monkeypatch.setattr("mage.extras.find_spec", missing)
    with pytest.raises(ConfigError, match=r"needs the extra remote: pip install .*\[remote\]'"):
        RemoteEngine(make_address("http://host", "toy"))


def test_an_engine_says_what_it_was_asked_in_any_order(server: ChatServer) -> None:
    """Concurrent calls do not mix up their answers."""
    server.answer = lambda asked: Said(str(asked.body["seed"]), delay_s=0.01 * (asked.body["seed"] % 3))

    async def many() -> Sequence[Completion]:
        engine = engine_of(server)
        return await asyncio.gather(*(engine.complete(PROMPT, Sampling(1.0, 9, n), None) for n in range(20)))

    assert [CODEC.decode(completion.tokens) for completion in asyncio.run(many())] == [str(n) for n in range(20)]


def test_while_a_call_is_retried_it_is_said_and_not_for_each_of_many(
    server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = after(Said("busy", status=503), Said("busy", status=503))
    ask(server)
    (line,) = capsys.readouterr().err.splitlines()
    assert "answers 503" in line
    assert "asking again in" in line
    assert "2 of" in line
