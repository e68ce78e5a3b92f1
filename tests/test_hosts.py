"""Entries of hosts that may be asked, what they cover, and how long they hold."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import mage
from mage.agents.byte_format import ByteFormat
from mage.config.load import load_config
from mage.engines.remote import RemoteEngine
from mage.engines.remote_budget import Budget, ServiceUnavailableError, use_budget
from mage.errors import ConfigError
from mage.models.address import make_address
from mage.models.hosts import allow_hosts, check_access, key_for, read_entry
from mage.opponents.registry import check_opponent
from mage.plugins import import_plugins
from mage.protocols import Sampling
from mage.runs.console import plain_console
from mage.training.run import create_run_directory, train_run
from mage.worlds.openspiel.game import load_game

SECRET = "sk-very-secret-0123456789"
GOOD = 'remote(url="https://good.invalid/v1",model=toy)'


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_API_KEY", SECRET)
    monkeypatch.delenv("MAGE_API_HOSTS", raising=False)


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("good.invalid", "https://good.invalid/v1"),
        ("good.invalid", "HTTPS://GOOD.invalid:443/v1"),
        ("good.invalid", "https://good.invalid./v1"),
        ("GOOD.invalid.", "https://good.invalid:/v1"),
        ("good.invalid:443", "https://good.invalid/v1"),
        ("good.invalid:8443", "https://good.invalid:08443/v1"),
        ("xn--bcher-kva.invalid", "https://XN--bcher-kva.invalid/v1"),
        ("[2001:db8::1]", "https://[2001:DB8:0::1]/v1"),
        ("[::1]:8000", "http://[0:0:0:0:0:0:0:1]:8000/v1"),
        ("127.0.0.9:8000", "http://127.0.0.9:8000/v1"),
        ("localhost", "http://LOCALHOST/v1"),
    ],
)
def test_an_entry_covers_all_spellings_of_its_host(entry: str, url: str) -> None:
    address = make_address(url, "toy")
    with allow_hosts(entry):
        assert key_for(address).headers() == {"Authorization": f"Bearer {SECRET}"}
        RemoteEngine(address)


@pytest.mark.parametrize("url", ["http://localhost:8000", "http://127.0.0.1", "http://127.9.9.9:1", "https://[::1]:2"])
def test_this_machine_needs_no_permission_and_gets_no_key(url: str) -> None:
    assert key_for(make_address(url, "toy")).headers() == {}
    with allow_hosts("localhost:8001", "127.0.0.1:81", "[::1]:443"):
        assert key_for(make_address(url, "toy")).headers() == {}, "nor by the entry of another port"


@pytest.mark.parametrize(
    "entry",
    ["", "*", "*.good.invalid", "https://good.invalid", "good.invalid/v1", "good.invalid:0", "good.invalid:99999",
     "good.invalid:port", "::1", "[::1", "[good.invalid]", f"me:{SECRET}@good.invalid", "good。invalid", "127.1",
     "good.invalid=MY KEY", f"good.invalid={SECRET}", "a b"],
)  # fmt: skip
def test_entries_that_are_no_hosts_are_refused(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"the allowed host .* cannot be used; write HOST or HOST:PORT") as raised:
        read_entry(entry)
    assert SECRET not in str(raised.value)


def test_a_permission_ends_with_its_context() -> None:
    game = load_game("rps")
    with allow_hosts("good.invalid"):
        check_opponent(GOOD, game, 1)
        engine = RemoteEngine(make_address("https://good.invalid/v1", "toy"))
    with pytest.raises(ConfigError, match=r"good\.invalid, which you have not allowed"):
        check_opponent(GOOD, game, 1)
    budget = Budget()
    with use_budget(budget), pytest.raises(ServiceUnavailableError, match=r"good\.invalid, which you have not allowed"):
        asyncio.run(engine.complete(ByteFormat().opening("You play."), Sampling(1.0, 9, 0), None))
    assert budget.calls == 0


def test_a_run_cannot_name_a_host_when_it_goes_on(tmp_path: Path) -> None:
    config = load_config("rps", {"population.members": [GOOD], "population.split": "", "evaluation.splits": []})
    with mage.allow_hosts("good.invalid"):
        create_run_directory(config, tmp_path / "run")
    with pytest.raises(ConfigError, match=r"named by population\.members of .*run, is not asked"):
        train_run(tmp_path / "run", plain_console(quiet=True))


def test_a_plugin_allows_no_host_when_it_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "greedy.py"
    path.write_text('import mage\nmage.allow_hosts("evil.invalid").__enter__()\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"it calls mage\.allow_hosts when it is imported"):
        import_plugins([str(path)])
    with pytest.raises(ConfigError, match="which you have not allowed"):
        check_access(make_address("https://evil.invalid", "toy"))
