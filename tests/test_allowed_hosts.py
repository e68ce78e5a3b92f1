"""Which servers are asked and which get the key, over real HTTP: only the user allows a host, no recipe, run or URL."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from mage.agents.byte_format import ByteFormat
from mage.cli import app
from mage.engines.remote import RemoteEngine
from mage.errors import ConfigError, EngineError
from mage.evaluation.splits import make_split
from mage.models.address import read_address
from mage.protocols import Sampling
from tests.chat_server import HASTY, ChatServer, Said, always, engine_of

SECRET = "sk-very-secret-0123456789"
EVIL = 'remote(url="https://evil.invalid/v1",model=toy)'
PROMPT = ByteFormat().opening("You play.") + ByteFormat().user("Go.")
SMALL = ("--trials", "2", "--episodes", "1", "--seat", "0", "--memory", "history")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A key is set, no host is allowed, and whatever a test does, the key is in nothing that was written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAGE_API_KEY", SECRET)
    monkeypatch.delenv("MAGE_API_HOSTS", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    yield
    assert [p for p in tmp_path.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()] == []


@pytest.fixture
def allowed() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture
def other() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


def mage(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert SECRET not in result.output + repr(result.exception)
    return result


def keys_of(server: ChatServer) -> set[str | None]:
    assert server.asked
    return {asked.headers.get("Authorization") for asked in server.asked}


def ask(engine: RemoteEngine) -> None:
    asyncio.run(engine.complete(PROMPT, Sampling(1.0, 50, 0), None))


@pytest.mark.parametrize("way", ["option", "variable"])
def test_the_key_goes_to_the_server_that_is_allowed_and_to_no_other(
    allowed: ChatServer, other: ChatServer, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--allow-host", allowed.host] if way == "option" else []
    if way == "variable":
        monkeypatch.setenv("MAGE_API_HOSTS", f"api.invalid, {allowed.host}")
    result = mage("evaluate", allowed.agent, "--world", "rps(rounds=1)", "--opponents", other.agent, *SMALL, *given)
    assert result.exit_code == 0, (result.output, result.exception)
    assert keys_of(allowed) == {f"Bearer {SECRET}"}
    assert keys_of(other) == {None}
    assert f"the key in MAGE_API_KEY is sent to {allowed.url}" in result.output
    assert f"{other.url}: no key is sent; --allow-host {other.host} sends the one in MAGE_API_KEY" in result.output


def test_each_host_may_have_a_key_of_its_own(
    allowed: ChatServer, other: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "sk-of-the-other-one")
    hosts = ["--allow-host", f"{allowed.host}=", "--allow-host", f"{other.host}=OTHER_KEY"]
    result = mage("evaluate", allowed.agent, "--world", "rps(rounds=1)", "--opponents", other.agent, *SMALL, *hosts)
    assert result.exit_code == 0, (result.output, result.exception)
    assert keys_of(allowed) == {None}
    assert keys_of(other) == {"Bearer sk-of-the-other-one"}
    monkeypatch.delenv("OTHER_KEY")
    result = mage("duel", "uniform", str(read_address(other.agent).spec), "--world", "rps", *hosts)
    assert f"the variable that is named for the key of {other.host} is not set" in str(result.exception)


def test_a_local_server_that_wants_the_key_is_an_error_that_says_how_it_gets_it(other: ChatServer) -> None:
    other.answer = always(Said(status=401, raw=b"no key"))
    with pytest.raises(EngineError, match=f"answers 401: no key; no key is sent; --allow-host {other.host} sends"):
        ask(engine_of(other))


def recipe(spec: str) -> Path:
    """A recipe that was got from elsewhere."""
    path = Path("shared.toml")
    members = json.dumps([spec])
    path.write_text(f'extends = "rps"\n[population]\nmembers = {members}\nsplit = ""\n', encoding="utf-8")
    return path


def split_file(spec: str) -> Path:
    """A split that was got from elsewhere, with a hash that is right."""
    split = make_split("shared", "of elsewhere", "rps(rounds=1)", (spec,), held_out=False)
    Path("shared.json").write_bytes(msgspec.json.encode(split))
    return Path("shared.json")


COMMANDS: dict[str, tuple[Callable[[], list[str | Path]], str]] = {
    "train": (lambda: ["train", recipe(EVIL), "--run", "out"], "population.members"),
    "sweep": (lambda: ["sweep", recipe(EVIL), "--seeds", "1"], "population.members"),
    "trials": (lambda: ["trials", recipe(EVIL), "--run", "out"], "population.members"),
    "override": (lambda: ["train", "rps", f"population.members=['{EVIL}']", "population.split="], "population.members"),
    "split": (lambda: ["evaluate", "uniform", "--opponents", split_file(EVIL)], "the split 'shared'"),
    "split in a recipe": (
        lambda: ["train", "rps", f"evaluation.splits=['{split_file(EVIL)}']"],
        "the split 'shared.json'",
    ),
    "opponent": (lambda: ["evaluate", "uniform", "--world", "rps", "--opponents", EVIL], "the split 'given-"),
    "agent": (lambda: ["evaluate", "remote:https://evil.invalid/v1#toy", "--opponents", "rps-seven"], ""),
    "duel": (lambda: ["duel", "uniform", EVIL, "--world", "rps"], ""),
    "duel of one": (lambda: ["duel", EVIL, "uniform", "--world", "rps"], ""),
    "play": (lambda: ["play", "rps", "--against", EVIL], ""),
    "cross-play": (lambda: ["cross-play", "uniform", "remote:https://evil.invalid/v1#toy", "--world", "rps"], ""),
    "nashconv": (lambda: ["nashconv", "remote:https://evil.invalid/v1#toy", "--world", "kuhn_poker"], ""),
    "write a split": (lambda: ["split", "mine.json", EVIL, "--world", "rps"], "the split 'mine'"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_host_that_is_not_allowed_is_refused_in_one_line_before_anything_is_sent(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object, **__: object) -> None:
        raise AssertionError("a name was resolved")

    monkeypatch.setattr("socket.getaddrinfo", connect)
    arguments, source = COMMANDS[name]
    result = mage(*arguments())
    assert isinstance(result.exception, ConfigError), (result.output, result.exception)
    said = str(result.exception)
    assert said.startswith("remote:https://evil.invalid/v1#toy")
    assert "prompts and the key in MAGE_API_KEY would go to evil.invalid" in said
    assert "--allow-host evil.invalid or set MAGE_API_HOSTS=evil.invalid" in said
    assert f"named by {source}" in said if source else "named by" not in said
    assert "\n" not in said
    assert not Path("out").exists()
    assert not Path("runs").exists()
    assert not Path("mine.json").exists()


def test_a_host_needs_permission_without_a_key_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAGE_API_KEY")
    said = str(mage("duel", "uniform", EVIL, "--world", "rps").exception)
    assert "prompts would go to evil.invalid, which you have not allowed" in said


def test_a_redirect_is_not_followed_and_takes_no_key_along(
    allowed: ChatServer, other: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAGE_API_HOSTS", f"{allowed.host},{other.host}")
    for status in (301, 302, 303, 307, 308):
        allowed.answer = always(Said(status=status, headers={"Location": f"{other.url}/chat/completions"}))
        with pytest.raises(EngineError, match=f"answers {status}: .*; redirects are not followed"):
            ask(engine_of(allowed))
    assert other.asked == []


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_server_on_this_machine_is_asked_without_a_proxy(
    allowed: ChatServer, other: ChatServer, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, f"http://{other.host}")
    monkeypatch.setenv("MAGE_API_HOSTS", allowed.host)
    ask(engine_of(allowed))
    assert keys_of(allowed) == {f"Bearer {SECRET}"}
    assert other.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "https://good.invalid@evil.invalid/v1",
        "https://good.invalid:443@evil.invalid/v1",
        "https://good.invalid:@evil.invalid",
        "https://@good.invalid/v1",
        "https://good.invalid\\@evil.invalid/v1",
        "https://evil.invalid\\.good.invalid/v1",
        "https://good.invalid.evil.invalid/v1",
        "https://evil.good.invalid/v1",
        "https://evilgood.invalid/v1",
        "https://evil.invalid/good.invalid",
        "https://good.invalid:8443/v1",
        "https://good.invalid:80/v1",
        "https://good.invalid%2eevil.invalid/v1",
        "https://good.invalid%00.evil.invalid/v1",
        "https://good.invalid..evil.invalid/v1",
        "https://good.invalid../v1",
        "https://good。invalid/v1",
        "https://ɡood.invalid/v1",
        "https://xn--ood-hxa.invalid/v1",
        "https://good.invalid?.evil.invalid",
        "https://good.invalid?",
        "https:///good.invalid/v1",
        "https:good.invalid/v1",
        "//good.invalid/v1",
        "http://good.invalid/v1",
        "http://good.invalid:443/v1",
        "http://127.1/v1",
        "http://127.0.0.1./v1",
        "http://0177.0.0.1/v1",
        "http://0x7f.0.0.1/v1",
        "http://2130706433/v1",
        "http://0.0.0.0/v1",
        "http://[::]/v1",
        "http://[::ffff:127.0.0.1]/v1",
        "http://[::1%25lo]/v1",
        "http://[::1]evil.invalid/v1",
        "http://localhost.evil.invalid/v1",
        "http://evil.localhost/v1",
        "http://127.0.0.1.evil.invalid/v1",
        "http://128.0.0.1/v1",
        "http://10.0.0.1:8000/v1",
    ],
)
def test_no_spelling_of_a_url_makes_another_host_look_allowed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_API_HOSTS", "good.invalid")
    with pytest.raises(ConfigError) as raised:
        RemoteEngine(read_address(f"remote:{url}#toy"), retry_policy=HASTY)
    assert "@" not in str(raised.value)


def test_plain_http_to_another_machine_is_refused_even_where_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_API_HOSTS", "good.invalid,good.invalid:80,192.168.1.7:8000")
    for host in ("good.invalid", "192.168.1.7:8000"):
        with pytest.raises(ConfigError, match=r"is not asked: http:// would send .* readable over the network"):
            RemoteEngine(read_address(f"remote:http://{host}/v1#toy"))


def test_a_stored_evaluation_cannot_name_another_host(other: ChatServer) -> None:
    given = ("--world", "rps(rounds=1)", "--opponents", "copy", *SMALL, "-o", "out")
    mage("evaluate", other.agent, *given, "--max-calls", "3", "--concurrency", "1")
    path = Path("out") / "run.json"
    path.write_text(path.read_text(encoding="utf-8").replace(other.url, "https://evil.invalid/v1"), encoding="utf-8")
    said = str(mage("evaluate", "--resume", "out").exception)
    assert said.startswith("remote:https://evil.invalid/v1#toy, named by out, is not asked"), said
