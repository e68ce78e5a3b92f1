"""Hosts that may be asked: the user allows them, and each gets its key; recipes, specs, runs and splits cannot.

An entry is `HOST`, `HOST:PORT` or either with `=VARIABLE`, the environment variable of the key for that host; `HOST=`
sends no key. Entries come from `--allow-host`, from `mage.allow_hosts` and from the variable MAGE_API_HOSTS.

A server on this machine (127.0.0.0/8, ::1, localhost) may be asked without an entry, and then gets no key. Every other
host needs an entry, also where there is no key, because prompts go there; and it needs https.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from mage.errors import ConfigError
from mage.models.address import DEFAULT_PORTS, KEYS, Address, ApiKey, canonical_host, key_from, key_name

HOSTS = "MAGE_API_HOSTS"
"""The environment variable with entries, separated by commas or white space."""
_ENTRY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^\[\]:]*)(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FORM = "write HOST or HOST:PORT, as in api.example.org or [::1]:8000, and =VARIABLE behind it for a key of its own"
_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


class AllowedHost(NamedTuple):
    """One entry."""

    host: str
    port: int | None
    """None for the default port of the URL's scheme."""
    key: str | None
    """The variable of its key: empty for none, None for the usual ones."""

    @property
    def text(self) -> str:
        """The entry as it is written."""
        port, key = "" if self.port is None else f":{self.port}", "" if self.key is None else f"={self.key}"
        return f"{self.host}{port}{key}"

    def covers(self, address: Address) -> bool:
        """Whether an address is at this host and port."""
        return self.host == address.host and address.port == (self.port or DEFAULT_PORTS[address.scheme])


_ALLOWED: ContextVar[tuple[AllowedHost, ...]] = ContextVar("allowed_hosts", default=())
_SOURCE: ContextVar[str] = ContextVar("address_source", default="")


def read_entry(text: str) -> AllowedHost:
    """The host that an entry allows.

    >>> read_entry("API.example.org"), read_entry("[::1]:8000=MY_KEY")
    (AllowedHost(host='api.example.org', port=None, key=None), AllowedHost(host='[::1]', port=8000, key='MY_KEY'))
    """
    if not isinstance(text, str):  # it is not shown: a key may be in it
        raise ConfigError(f"an allowed host is a text, not of type {type(text).__name__}; {_FORM}")
    place, equals, variable = text.strip().partition("=")
    found = _ENTRY.fullmatch(place)
    host = None if found is None else canonical_host(found["host"])
    port = int(found["port"]) if found is not None and found["port"] else None
    is_key = not variable or _VARIABLE.fullmatch(variable) is not None
    if host is None or (port is not None and not 0 < port < 2**16) or not is_key:
        shown = "with a user" if "@" in text else repr(place)  # a key may stand behind the =
        raise ConfigError(f"the allowed host {shown} cannot be used; {_FORM}")
    return AllowedHost(host, port, variable if equals else None)


@contextmanager
def allow_hosts(*entries: str) -> Iterator[None]:
    """A context in which remote models on these hosts may be asked and get their keys, beside those of MAGE_API_HOSTS.

    Entries are as for `--allow-host`: `api.example.org`, `api.example.org:8443`, or either with `=VARIABLE`.
    """
    before = _ALLOWED.set((*map(read_entry, entries), *_ALLOWED.get()))
    try:
        yield
    finally:
        _ALLOWED.reset(before)


def allowed_entries() -> str:
    """All entries of this process, as MAGE_API_HOSTS holds them: for a process that is to ask the same hosts.

    >>> with allow_hosts("api.example.org:8443=MY_KEY"):
    ...     allowed_entries().split(",")[0]
    'api.example.org:8443=MY_KEY'
    """
    return ",".join(entry.text for entry in _entries())


@contextmanager
def named_by(source: str) -> Iterator[None]:
    """A context in which addresses come from `source`, which a refusal names."""
    outer = _SOURCE.get()
    before = _SOURCE.set(f"{source} of {outer}" if outer else source)
    try:
        yield
    finally:
        _SOURCE.reset(before)


def check_access(address: Address) -> None:
    """Raise a ConfigError where the server must not be asked."""
    _check_key_is_not_in(address)
    source = f", named by {_SOURCE.get()}," if _SOURCE.get() else ""
    if address.scheme != "https" and not is_loopback(address):
        raise ConfigError(
            f"{address}{source} is not asked: http:// would send prompts and key readable over the network to "
            f"{address.host}; use https://, or http:// with a server on this machine"
        )
    if _entry_for(address) is None and not is_loopback(address):
        key = key_name(os.environ)
        what = "prompts" if key is None else f"prompts and the key in {key}"
        raise ConfigError(
            f"{address}{source} is not asked: {what} would go to {entry_of(address)}, which you have not allowed; "
            f"if you trust it, give --allow-host {entry_of(address)} or set {HOSTS}={entry_of(address)}"
        )
    key_variable(address)


def key_variable(address: Address) -> str | None:
    """The environment variable whose key an address gets, or None."""
    entry = _entry_for(address)
    if entry is None or entry.key == "":
        return None
    if entry.key is None:
        return key_name(os.environ)
    if not os.environ.get(entry.key, "").strip():
        raise ConfigError(f"the variable that is named for the key of {entry_of(address)} is not set")
    return entry.key


def key_for(address: Address) -> ApiKey:
    """The key that an address gets, which is empty where none is set or allowed."""
    check_access(address)
    return key_from(os.environ, key_variable(address))


def withheld_key(address: Address) -> str:
    """A clause for a server on this machine that gets no key although one is set; else empty."""
    key = key_name(os.environ)
    if key is None or _entry_for(address) is not None:
        return ""
    return f"no key is sent; --allow-host {entry_of(address)} sends the one in {key}"


def hide_keys(text: str) -> str:
    """The text with all keys replaced."""
    for name in _variables():
        text = ApiKey(os.environ.get(name, "").strip()).hide_in(text)
    return text


def is_loopback(address: Address) -> bool:
    """Whether the server is on this machine by its name: 127.0.0.0/8, ::1 or localhost."""
    try:
        ip = ip_address(address.host.strip("[]"))
    except ValueError:
        return address.host == "localhost"
    return any(ip in network for network in _LOOPBACK)


def entry_of(address: Address) -> str:
    """The entry that allows an address."""
    is_default = address.port == DEFAULT_PORTS[address.scheme]
    return address.host if is_default else f"{address.host}:{address.port}"


def _entry_for(address: Address) -> AllowedHost | None:
    """The first entry that covers an address; those of MAGE_API_HOSTS come last."""
    return next((entry for entry in _entries() if entry.covers(address)), None)


def _entries() -> Iterable[AllowedHost]:
    listed = filter(None, re.split(r"[,\s]+", os.environ.get(HOSTS, "")))
    return (*_ALLOWED.get(), *map(read_entry, listed))


def _variables() -> tuple[str, ...]:
    return (*KEYS, *(entry.key for entry in _entries() if entry.key))


def _check_key_is_not_in(address: Address) -> None:
    if hide_keys(str(address)) != str(address):
        raise ConfigError("the address of a remote model holds a key; leave it to the environment")
