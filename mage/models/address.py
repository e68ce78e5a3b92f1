"""Addresses and API keys of remote models; keys are read from the environment and stored nowhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from mage.errors import ConfigError
from mage.spec import Spec, make_spec

PREFIX = "remote:"
KEYS = ("MAGE_API_KEY", "OPENAI_API_KEY")
"""Environment variables for the key; the first that is set is used."""
DEFAULT_PORTS = {"http": 80, "https": 443}
_CHAT = "/chat/completions"
_HIDDEN = "[the key]"
_SECRET_LENGTH = 8
"""Shorter keys are not hidden in texts: local servers use placeholders such as EMPTY, which may be words."""
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
"""The last label of a host that some resolvers take for an IPv4 address."""
_FORM = "write remote:URL#model, as in remote:http://localhost:8000/v1#my-model"


class Address(NamedTuple):
    """A model on an OpenAI-compatible server."""

    url: str
    """The base URL of the API, such as https://api.openai.com/v1; it contains no credentials, and its host is in
    canonical form."""
    model: str

    @property
    def scheme(self) -> str:
        """http or https."""
        return urlsplit(self.url).scheme

    @property
    def host(self) -> str:
        """The host as the URL has it: an IPv6 address in brackets."""
        return _host(urlsplit(self.url))

    @property
    def port(self) -> int:
        """The port, by default that of the scheme."""
        return urlsplit(self.url).port or DEFAULT_PORTS[self.scheme]

    @property
    def endpoint(self) -> str:
        """The URL of chat completions."""
        return self.url + _CHAT

    @property
    def spec(self) -> Spec:
        """The model as an opponent spec."""
        return make_spec("remote", url=self.url, model=self.model)

    def __str__(self) -> str:
        return f"{PREFIX}{self.url}#{self.model}"


def read_address(text: str) -> Address:
    """The address that `remote:URL#model` names.

    >>> read_address("remote:http://localhost:8000/v1/#qwen2:7b")
    Address(url='http://localhost:8000/v1', model='qwen2:7b')
    """
    url, _, model = text.removeprefix(PREFIX).partition("#")
    return make_address(url, model)


def make_address(url: str, model: str) -> Address:
    """A checked address. Errors do not quote the URL, since it may contain a secret."""
    if not model or not model.isprintable():
        raise ConfigError(f"a remote model needs a name; {_FORM}")
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        raise ConfigError(f"the URL of the remote model {model!r} cannot be read; {_FORM}") from None
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ConfigError(
            f"the URL of the remote model {model!r} holds a user, a password or a query; leave them out and put the "
            f"key into the environment as {KEYS[0]}"
        )
    is_plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    canonical = canonical_host(_host(parts))
    if parts.scheme not in DEFAULT_PORTS or canonical is None or not has_port or not is_plain:
        raise ConfigError(f"the URL of the remote model {model!r} is not that of a server; {_FORM}")
    # What is asked is what was checked: no other reading of the text is left.
    port = "" if parts.port is None else f":{parts.port}"
    base = f"{parts.scheme}://{canonical}{port}{parts.path}"
    return Address(base.rstrip("/").removesuffix(_CHAT), model)


def canonical_host(host: str) -> str | None:
    """A host in lower case, without a dot behind it, IPv6 shortened; None where it is no host that all read alike.

    >>> [canonical_host(host) for host in ("API.Example.org.", "[0:0::1]", "127.1", "a b")]
    ['api.example.org', '[::1]', None, None]
    """
    if host.startswith("["):
        is_address = host.endswith("]") and "%" not in host
        try:
            return f"[{IPv6Address(host[1:-1])}]" if is_address else None
        except ValueError:
            return None
    lower = host.lower()
    labels = lower.removesuffix(".").split(".")
    if not all(map(_LABEL.fullmatch, labels)) or len(lower) > 253:
        return None
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(lower))
        except ValueError:
            return None
    return ".".join(labels)


def _host(parts: SplitResult) -> str:
    """The host of a URL as it is written, with its brackets."""
    end = parts.netloc.rfind("]") + 1
    return parts.netloc[:end] + parts.netloc[end:].partition(":")[0]


def refuse_remote(model: str) -> None:
    """Refuse a remote model where weights are needed."""
    if model.startswith(PREFIX):
        raise ConfigError("agent.model: a remote model cannot be trained; it can be evaluated, or be an opponent")


class ApiKey:
    """A key that can be sent as a header and is never printed."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def headers(self) -> dict[str, str]:
        """The authorization header; empty without a key."""
        return {"Authorization": f"Bearer {self._secret}"} if self._secret else {}

    def hide_in(self, text: str) -> str:
        """The text with the key replaced, in case a server repeats it.

        >>> ApiKey("sk-s3cret").hide_in("no such key: sk-s3cret"), ApiKey("sk-s3cret")
        ('no such key: [the key]', Key(…))
        """
        return text.replace(self._secret, _HIDDEN) if len(self._secret) >= _SECRET_LENGTH else text

    def __repr__(self) -> str:
        return "Key(…)"


def key_name(environment: Mapping[str, str]) -> str | None:
    """The variable that holds the key, or None: local servers may need none."""
    return next((name for name in KEYS if environment.get(name, "").strip()), None)


def key_from(environment: Mapping[str, str], name: str | None) -> ApiKey:
    """The key in a variable of the environment, empty for None; one that is not a valid header value is refused."""
    secret = "" if name is None else environment.get(name, "").strip()
    if not (secret.isascii() and secret.isprintable()) or " " in secret:
        raise ConfigError(f"{name} holds characters that no key has; set it anew")
    return ApiKey(secret)
