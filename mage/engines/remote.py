"""Models behind an OpenAI-compatible server: messages in, text out. For evaluation and opponents, never to train.

The engine speaks `ByteFormat`, so memory, retries and baselines work as with any other: a prompt is decoded into the
messages that it was made of, and the reply is encoded as bytes. So tokens are counted in bytes here; only the server
knows its own. What it cannot do is hold a model to a choice, or tell the probability of what it said.

A request that fails in a way that may pass is sent again after a while: time-outs, lost connections, answers that are
no JSON, and the states 408, 409, 425, 429 and 5xx. When that does not help the call fails, and with it one trial. Where
no other call would fare better, because the key is refused or the budget is spent, the error says so by its type.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mage.agents.byte_format import ByteFormat
from mage.engines.budget import ServiceUnavailableError, current_budget
from mage.errors import ConfigError, EngineError
from mage.extras import require
from mage.models.address import Address, ApiKey, key_from
from mage.protocols import Sampling
from mage.seeds import uniform
from mage.types import Completion

if TYPE_CHECKING:
    import httpx

CONCURRENCY = 16
"""Requests under way at once, unless told otherwise."""
_MAX_BYTES = 2**23
"""Longest answer that is read; no chat needs more."""
_MAY_PASS = frozenset({408, 409, 425, 429})
_FOR_EVERYONE = frozenset({401, 402, 403, 404})
"""States that every other call would meet too: the key, the account or the model is wrong."""
_NO_CREDIT = "insufficient_quota"
"""What OpenAI says beside 429 when waiting will not help."""
_SHOWN = 200
"""Most characters of a server's answer that an error repeats."""
_BYTES_PER_TOKEN = 3
"""A little under the usual, so that a server seldom writes, and charges for, much more than is kept."""
_MAX_SEED = 2**31 - 1


class RetryPolicy(msgspec.Struct, frozen=True):
    """How long a server is waited for, and how often it is asked again."""

    timeout_s: float = 120.0
    """Most time that one request may take."""
    tries: int = 6
    wait_s: float = 1.0
    """Before the second try, more or less; twice as long before each further one."""
    longest_wait_s: float = 60.0
    """A server that asks for more than this is given up."""


class _Session:
    """The connections of the calls that are under way in one event loop."""

    def __init__(self, client: httpx.AsyncClient, concurrency: int) -> None:
        self.client = client
        self.gate = asyncio.Semaphore(concurrency)
        self.loop = asyncio.get_running_loop()
        self.num_calls = 0


class _Answer(NamedTuple):
    text: str
    is_cut: bool


class _MayPassError(Exception):
    """A failure that another try may get past; the server may have said when."""

    def __init__(self, why: str, wait_s: float = 0.0) -> None:
        super().__init__(why)
        self.wait_s = wait_s


class RemoteEngine:
    """Asks one model on one server. The same question may get another answer each time."""

    def __init__(
        self, address: Address, *, patience: RetryPolicy | None = None, concurrency: int = CONCURRENCY
    ) -> None:
        require("remote", f"the model {address} needs")
        self.address = address
        self._trust = _checked(address)
        key_from(os.environ, address)  # what is wrong with it shows before anything is asked
        self._patience = patience or RetryPolicy()
        self._concurrency = concurrency
        self._chat_format = ByteFormat()
        self._session: _Session | None = None
        self._renamed: dict[str, str | None] = {}
        """Fields of a request that this server has under another name, or does not have."""

    @property
    def _key(self) -> ApiKey:
        """Looked up each time, so that nothing here holds it."""
        return key_from(os.environ, self.address)

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        if choices is not None:
            raise EngineError("a remote model cannot be held to a choice; let it answer with reply = text")
        messages = [{"role": role, "content": text} for role, text in self._chat_format.messages(prompt)]
        body = {
            "model": self.address.model,
            "messages": messages,
            "temperature": sampling.temperature,
            "max_tokens": -(-sampling.max_tokens // _BYTES_PER_TOKEN),
            "seed": sampling.seed % _MAX_SEED,
        }
        async with self._connected() as client:
            answer = await self._patiently(client, body, sampling.seed)
        whole = self._chat_format.answer(answer.text)
        tokens = (whole[:-1] if answer.is_cut else whole)[: sampling.max_tokens]
        return Completion(tokens, (0.0,) * len(tokens), None, 0, tokens[-1:] != (self._chat_format.end,))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[httpx.AsyncClient]:
        """Connections live while calls are under way, so nobody has to close an engine."""
        import httpx

        session = self._session
        if session is None or session.loop is not asyncio.get_running_loop():
            client = httpx.AsyncClient(timeout=self._patience.timeout_s, verify=self._trust)
            session = self._session = _Session(client, self._concurrency)
        session.num_calls += 1
        try:
            async with session.gate:
                yield session.client
        finally:
            session.num_calls -= 1
            if session.num_calls == 0:
                if self._session is session:
                    self._session = None
                await session.client.aclose()

    async def _patiently(self, client: httpx.AsyncClient, body: Mapping[str, Any], seed: int) -> _Answer:
        """Ask until there is an answer or patience is at its end."""
        why = ""
        for number in range(self._patience.tries):
            try:
                return await self._once(client, body)
            except _MayPassError as error:
                why = str(error)
                if error.wait_s > self._patience.longest_wait_s:
                    raise self._failed(f"{why}, and asks to wait for {error.wait_s:.0f} seconds") from None
                backoff = min(self._patience.wait_s * 2**number, self._patience.longest_wait_s)
                # Calls that failed together must not come back together.
                wait_s = max(error.wait_s, backoff * (0.5 + 0.5 * uniform(seed, "wait", number)))
            if number + 1 < self._patience.tries:
                await asyncio.sleep(wait_s)
        raise self._failed(f"{why}; it was asked {self._patience.tries} times")

    async def _once(self, client: httpx.AsyncClient, body: Mapping[str, Any]) -> _Answer:
        current_budget().take_call()
        sent = self._named(body)
        status, headers, content = await self._post(client, sent)
        if status == 200:
            return self._read(content, body)
        said = self._shown(content)
        why = f"answers {status}: {said}"
        if status in (400, 422):
            self._adapt(said)
            if self._named(body) != sent:  # also where another call has adapted meanwhile
                raise _MayPassError(why)
        if status in _FOR_EVERYONE or _NO_CREDIT in said:
            raise ServiceUnavailableError(f"{self.address} {why}")
        if status in _MAY_PASS or status >= 500:
            raise _MayPassError(why, _wait_of(headers.get("retry-after", "")))
        raise self._failed(why)

    def _named(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A request with the names of fields that this server knows."""
        renamed = {self._renamed.get(name, name): value for name, value in body.items()}
        return {name: value for name, value in renamed.items() if name is not None}

    async def _post(self, client: httpx.AsyncClient, sent: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        """One request: the state, the headers and the body of what came back, however long the server is."""
        import httpx

        headers = {"Accept-Encoding": "identity", **self._key.headers()}
        content = bytearray()
        try:
            async with (
                asyncio.timeout(self._patience.timeout_s),
                client.stream("POST", self.address.endpoint, json=sent, headers=headers) as response,
            ):
                async for chunk in response.aiter_raw():
                    content += chunk
                    if len(content) > _MAX_BYTES:
                        raise _MayPassError(f"answers with more than {_MAX_BYTES} bytes")
                return response.status_code, response.headers, bytes(content)
        except (TimeoutError, httpx.TimeoutException):
            raise _MayPassError(f"has not answered in {self._patience.timeout_s:g} seconds") from None
        except httpx.TransportError as error:
            why = self._shown(str(error).encode())
            raise _MayPassError(f"cannot be reached: {type(error).__name__} {why}".rstrip()) from None

    def _read(self, content: bytes, body: Mapping[str, Any]) -> _Answer:
        """The answer in a completion; what it cost is counted."""
        try:
            found = json.loads(content)
            choice = found["choices"][0]
            said = choice["message"].get("content") or ""
            text = said if isinstance(said, str) else "".join(str(part.get("text", "")) for part in said)
            used = (found.get("usage") or {}).get("total_tokens")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise _MayPassError(f"answers with what is no chat completion: {self._shown(content)}") from None
        size = sum(len(message["content"]) for message in body["messages"]) + len(text)
        current_budget().count_tokens(used if type(used) is int and used >= 0 else -(-size // _BYTES_PER_TOKEN))
        return _Answer(self._key.hide_in(text), choice.get("finish_reason") == "length")

    def _adapt(self, said: str) -> None:
        """Give way to a server that does not know a field."""
        if "max_completion_tokens" in said:
            self._renamed["max_tokens"] = "max_completion_tokens"
        elif "seed" in said:
            self._renamed["seed"] = None

    def _shown(self, content: bytes) -> str:
        """The start of what a server said, in one line; the key is hidden first, or a cut could leave half of it."""
        return _one_line(self._key.hide_in(content.decode(errors="replace")))

    def _failed(self, why: str) -> EngineError:
        return EngineError(f"{self.address} {why}")


def _checked(address: Address) -> ssl.SSLContext | bool:
    """Fail now on what httpx would not take for a URL; returns whom to trust, which takes long to load."""
    import httpx

    try:
        is_safe = httpx.URL(address.endpoint).scheme == "https"
    except httpx.InvalidURL as error:
        raise ConfigError(f"the URL of the remote model {address.model!r} cannot be used: {error}") from None
    return httpx.create_ssl_context() if is_safe else False


def _wait_of(retry_after: str) -> float:
    """How many seconds a server asks to wait: it gives their number, or a date.

    >>> _wait_of("7"), _wait_of(""), _wait_of("soon"), _wait_of("Sat, 01 Jan 99999999999999999999 00:00:00 GMT")
    (7.0, 0.0, 0.0, 0.0)
    """
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        when = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return 0.0
    aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())


def _one_line(text: str) -> str:
    """The start of what a server said, with nothing in it that could move a cursor."""
    words = " ".join(text[: 2 * _SHOWN].split())[:_SHOWN]
    return "".join(char if char.isprintable() else "?" for char in words) or "nothing"
