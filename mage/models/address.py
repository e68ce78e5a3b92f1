"""Addresses and API keys of remote models; keys are read from the environment and stored nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from mage.errors import ConfigError
from mage.spec import Spec, make_spec

PREFIX = "remote:"
KEYS = ("MAGE_API_KEY", "OPENAI_API_KEY")
"""Environment variables for the key; the first that is set is used."""
_CHAT = "/chat/completions"
_HIDDEN = "[the key]"
_SECRET_LENGTH = 8
"""Shorter keys are not hidden in texts: local servers use placeholders such as EMPTY, which may be words."""
_FORM = "write remote:URL#model, as in remote:http://localhost:8000/v1#my-model"


class Address(NamedTuple):
    """A model on an OpenAI-compatible server."""

    url: str
    """The base URL of the API, such as https://api.openai.com/v1; it contains no credentials."""
    model: str

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
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError(
            f"the URL of the remote model {model!r} holds a user, a password or a query; leave them out and put the "
            f"key into the environment as {KEYS[0]}"
        )
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not has_port or not is_plain:
        raise ConfigError(f"the URL of the remote model {model!r} is not that of a server; {_FORM}")
    return Address(url.rstrip("/").removesuffix(_CHAT), model)


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


def key_from(environment: Mapping[str, str], address: Address) -> ApiKey:
    """The key in the environment; one that is not a valid header value is refused."""
    name = key_name(environment)
    secret = "" if name is None else environment[name].strip()
    if not (secret.isascii() and secret.isprintable()) or " " in secret:
        raise ConfigError(f"{name} holds characters that no key has; set it anew")
    key = ApiKey(secret)
    if key.hide_in(str(address)) != str(address):
        raise ConfigError(f"the address of a remote model holds the key in {name}; leave it to the environment")
    return key
