"""An engine for models on an OpenAI-compatible server; for evaluation and opponents, not for training.

The chat format is `ByteFormat`: a prompt is decoded into chat messages, and the reply is encoded as bytes, so tokens
are bytes here and not the server's. Constrained choices and log-probabilities are not available.

Transient failures are retried with backoff: time-outs, lost connections, answers that are not JSON, and the statuses
408, 409, 425, 429 and 5xx. When retries run out, the call fails and with it one trial. `ServiceUnavailableError` means
that every other call would fail too: the key is refused, the budget is spent, or the server has never answered.

What may be asked, and with which key, is checked before each request (`mage.models.hosts`). Redirects are not followed.
Proxies of the environment are used for other machines, over https alone, so that they see neither key nor prompt, and
never for this machine.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mage.agents.byte_format import ByteFormat
from mage.engines.remote_budget import ServiceUnavailableError, current_budget
from mage.engines.shared_client import SharedClient
from mage.errors import ConfigError, EngineError
from mage.extras import require
from mage.models.address import Address, ApiKey
from mage.models.hosts import hide_keys, is_loopback, key_for, withheld_key
from mage.protocols import Sampling
from mage.runs.console import say
from mage.seeds import uniform
from mage.types import Completion

if TYPE_CHECKING:
    import httpx

CONCURRENCY = 16
"""Default limit of concurrent requests."""
_RETRY_SAID_EVERY_S = 5.0
"""Seconds between two lines about calls that are retried."""
_MAX_BYTES = 2**23
"""Longest response body that is read."""
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_PERMANENT_STATUS = frozenset({401, 402, 403, 404})
"""Statuses that every call would get: the key, the account or the model is wrong."""
_QUOTA_EXCEEDED = "insufficient_quota"
"""The error code OpenAI sends with 429 when waiting will not help."""
_SHOWN = 200
"""Most characters of a response that an error message quotes."""
_BYTES_PER_TOKEN = 3
"""Converts max_tokens from bytes to server tokens; a little under the usual ratio, so that little is cut off."""
_MAX_SEED = 2**31 - 1


class RetryPolicy(msgspec.Struct, frozen=True):
    """Time-out, number of tries and backoff of a request."""

    timeout_s: float = 120.0
    """Time limit of one request."""
    tries: int = 6
    wait_s: float = 1.0
    """Wait before the second try, with jitter; doubled before each further one."""
    longest_wait_s: float = 60.0
    """Longest wait; a call fails if the server asks for a longer one."""


class _Answer(NamedTuple):
    text: str
    is_cut: bool


class _TransientError(Exception):
    """A failure that is retried, after `wait_s` if the server asked for that."""

    def __init__(self, why: str, wait_s: float = 0.0) -> None:
        super().__init__(why)
        self.wait_s = wait_s


class RemoteEngine:
    """Calls one model on one server. Answers to equal prompts may differ: the server may ignore the seed."""

    def __init__(
        self, address: Address, *, retry_policy: RetryPolicy | None = None, concurrency: int = CONCURRENCY
    ) -> None:
        require("remote", f"the model {address} needs")
        self.address = address
        key_for(address)  # fails now if the host is not allowed or the key is malformed
        self._ssl_context = _make_ssl_context(address)
        self._retry_policy = retry_policy or RetryPolicy()
        self._client = SharedClient(self._open_client, concurrency)
        self._chat_format = ByteFormat()
        self._silent_until = 0.0
        self._has_answered = False
        self._renamed: dict[str, str | None] = {}
        """Request fields that this server calls differently (new name) or rejects (None)."""

    @property
    def _key(self) -> ApiKey:
        """Read from the environment each time, so that the engine does not hold it; the host is checked again."""
        try:
            return key_for(self.address)
        except ConfigError as error:
            raise ServiceUnavailableError(str(error)) from None

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
        async with self._client.connected() as client:
            answer = await self._post_with_retries(client, body, sampling.seed)
        whole = self._chat_format.answer(answer.text)
        tokens = (whole[:-1] if answer.is_cut else whole)[: sampling.max_tokens]
        return Completion(tokens, (0.0,) * len(tokens), None, 0, tokens[-1:] != (self._chat_format.end,))

    def _open_client(self) -> httpx.AsyncClient:
        import httpx

        return httpx.AsyncClient(
            timeout=self._retry_policy.timeout_s,
            verify=self._ssl_context,
            follow_redirects=False,
            trust_env=not is_loopback(self.address),
        )

    async def _post_with_retries(self, client: httpx.AsyncClient, body: Mapping[str, Any], seed: int) -> _Answer:
        """Send a request until it succeeds or the tries are used up."""
        why = ""
        for number in range(self._retry_policy.tries):
            try:
                return await self._post_once(client, body)
            except _TransientError as error:
                why = str(error)
                if error.wait_s > self._retry_policy.longest_wait_s:
                    raise self._failed(f"{why}, and asks to wait for {error.wait_s:.0f} seconds") from None
                backoff = min(self._retry_policy.wait_s * 2**number, self._retry_policy.longest_wait_s)
                # Calls that failed together must not come back together.
                wait_s = max(error.wait_s, backoff * (0.5 + 0.5 * uniform(seed, "wait", number)))
            if number + 1 < self._retry_policy.tries:
                self._say_retry(why, number, wait_s)
                await asyncio.sleep(wait_s)
        failed = self._failed(f"{why}; it was asked {self._retry_policy.tries} times")
        raise failed if self._has_answered else ServiceUnavailableError(str(failed))

    def _say_retry(self, why: str, number: int, wait_s: float) -> None:
        """Say that a call is retried; where many are, once in a few seconds."""
        now = time.monotonic()
        if now < self._silent_until:
            return
        self._silent_until = now + _RETRY_SAID_EVERY_S
        say(f"{self.address} {why}; asking again in {wait_s:.0f} s, {number + 2} of {self._retry_policy.tries} times")

    async def _post_once(self, client: httpx.AsyncClient, body: Mapping[str, Any]) -> _Answer:
        key = self._key
        current_budget().take_call()
        sent = self._with_server_names(body)
        status, headers, content = await self._request(client, sent, key)
        if status == 200:
            return self._read(content, body)
        said = self._shown(content)
        why = f"answers {status}: {said}"
        if 300 <= status < 400:
            raise self._failed(f"{why}; redirects are not followed: give the URL that it leads to")
        if status in (401, 403) and (withheld := withheld_key(self.address)):
            why = f"{why}; {withheld}"
        if status in (400, 422):
            self._rename_field(said)
            if self._with_server_names(body) != sent:  # also where another call has renamed the field meanwhile
                raise _TransientError(why)
        if status in _PERMANENT_STATUS or _QUOTA_EXCEEDED in said:
            raise ServiceUnavailableError(f"{self.address} {why}")
        if status in _TRANSIENT_STATUS or status >= 500:
            raise _TransientError(why, _retry_after_s(headers.get("retry-after", "")))
        raise self._failed(why)

    def _with_server_names(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The request with its fields renamed or removed as this server needs it."""
        renamed = {self._renamed.get(name, name): value for name, value in body.items()}
        return {name: value for name, value in renamed.items() if name is not None}

    async def _request(
        self, client: httpx.AsyncClient, sent: Mapping[str, Any], key: ApiKey
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request; return status, headers and body. The time-out holds for the whole of it."""
        import httpx

        headers = {"Accept-Encoding": "identity", **key.headers()}
        content = bytearray()
        try:
            async with (
                asyncio.timeout(self._retry_policy.timeout_s),
                client.stream("POST", self.address.endpoint, json=sent, headers=headers) as response,
            ):
                self._has_answered = True
                async for chunk in response.aiter_raw():
                    content += chunk
                    if len(content) > _MAX_BYTES:
                        raise _TransientError(f"answers with more than {_MAX_BYTES} bytes")
                return response.status_code, response.headers, bytes(content)
        except (TimeoutError, httpx.TimeoutException):
            raise _TransientError(f"has not answered in {self._retry_policy.timeout_s:g} seconds") from None
        except httpx.TransportError as error:
            why = self._shown(str(error).encode())
            raise _TransientError(f"cannot be reached: {type(error).__name__} {why}".rstrip()) from None

    def _read(self, content: bytes, body: Mapping[str, Any]) -> _Answer:
        """Parse a chat completion and count its tokens towards the budget."""
        try:
            found = json.loads(content)
            choice = found["choices"][0]
            said = choice["message"].get("content") or ""
            text = said if isinstance(said, str) else "".join(str(part.get("text", "")) for part in said)
            used = (found.get("usage") or {}).get("total_tokens")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise _TransientError(f"answers with what is no chat completion: {self._shown(content)}") from None
        size = sum(len(message["content"]) for message in body["messages"]) + len(text)
        current_budget().count_tokens(used if type(used) is int and used >= 0 else -(-size // _BYTES_PER_TOKEN))
        return _Answer(hide_keys(text), choice.get("finish_reason") == "length")

    def _rename_field(self, said: str) -> None:
        """Note a field that the server does not accept, from its error message."""
        if "max_completion_tokens" in said:
            self._renamed["max_tokens"] = "max_completion_tokens"
        elif "seed" in said:
            self._renamed["seed"] = None

    def _shown(self, content: bytes) -> str:
        """The start of a response in one line; keys are hidden before it is cut, so that no part of one remains."""
        return _one_line(hide_keys(content.decode(errors="replace")))

    def _failed(self, why: str) -> EngineError:
        return EngineError(f"{self.address} {why}")


def _make_ssl_context(address: Address) -> ssl.SSLContext | bool:
    """Check the URL, and load the TLS certificates once because that is slow; False for plain http."""
    import httpx

    try:
        url = httpx.URL(address.endpoint)
    except httpx.InvalidURL as error:
        raise ConfigError(f"the URL of the remote model {address.model!r} cannot be used: {error}") from None
    host = url.raw_host.decode("ascii")
    if (url.scheme, host, url.port or address.port) != (address.scheme, address.host.strip("[]"), address.port):
        raise ConfigError(f"the URL of the remote model {address.model!r} can be read in two ways")
    return httpx.create_ssl_context() if url.scheme == "https" else False


def _retry_after_s(retry_after: str) -> float:
    """The seconds to wait by a Retry-After header: a number or a date.

    >>> [_retry_after_s(text) for text in ("7", "", "soon", "Sat, 01 Jan 99999999999999999999 00:00:00 GMT")]
    [7.0, 0.0, 0.0, 0.0]
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
    """The start of a text in one line, without control characters."""
    words = " ".join(text[: 2 * _SHOWN].split())[:_SHOWN]
    return "".join(char if char.isprintable() else "?" for char in words) or "nothing"
