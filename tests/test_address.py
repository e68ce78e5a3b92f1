"""Addresses of remote models and the key that opens them: what is refused, and that no message repeats a secret."""

from __future__ import annotations

import pytest

from mage.errors import ConfigError
from mage.models.address import Address, key_from, make_address, read_address
from mage.models.hosts import check_access

SECRET = "sk-very-secret-0123456789"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("remote:http://localhost:8000/v1", "needs a name"),
        ("remote:http://localhost:8000/v1#", "needs a name"),
        ("remote:#toy", "not that of a server"),
        ("remote:ftp://host/v1#toy", "not that of a server"),
        ("remote:localhost:8000#toy", "not that of a server"),
        ("remote:http://host:99999#toy", "cannot be read"),
        ("remote:http://ho st#toy", "not that of a server"),
        (f"remote:http://me:{SECRET}@host/v1#toy", "holds a user, a password or a query"),
        (f"remote:http://{SECRET}@host/v1#toy", "holds a user, a password or a query"),
        (f"remote:http://host/v1?key={SECRET}#toy", "holds a user, a password or a query"),
    ],
)
def test_addresses_that_cannot_be_used_are_refused_without_repeating_a_secret(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        read_address(text)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("url", ["http://host/v1", "http://host/v1/", "http://host/v1/chat/completions"])
def test_an_address_may_end_in_different_ways(url: str) -> None:
    address = read_address(f"remote:{url}#org/model:7b")
    assert address == Address("http://host/v1", "org/model:7b")
    assert address.endpoint == "http://host/v1/chat/completions"
    assert read_address(str(address)) == address


@pytest.mark.parametrize("secret", ["two words of it", "line\nbreak-in-it", "schlüssel-mit-umlaut"])
def test_a_key_that_cannot_be_sent_is_refused_without_repeating_it(secret: str) -> None:
    with pytest.raises(ConfigError, match="MAGE_API_KEY holds characters that no key has") as raised:
        key_from({"MAGE_API_KEY": secret}, "MAGE_API_KEY")
    assert secret not in str(raised.value)


def test_an_address_must_not_hold_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with pytest.raises(ConfigError, match="holds a key; leave it to the environment") as raised:
        check_access(make_address(f"http://localhost/{SECRET}", "toy"))
    assert SECRET not in str(raised.value)


def test_a_placeholder_is_no_secret() -> None:
    assert key_from({"MAGE_API_KEY": "host"}, "MAGE_API_KEY").hide_in("host") == "host"
