"""A real `mage view`: where it listens, how it ends, what it tells watchers, and what it reads of long runs."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.view_speed import Server, has_torch, make_runs
from mage.cli import app
from mage.errors import ConfigError
from mage.runs import index
from mage.runs.decode_trial import decode_outcome
from mage.runs.store import RunWriter
from mage.view.read import trial_index
from mage.view.read.run_store import RunStore
from mage.view.read.trial_index import TrialFilter
from tests.viewed import some_trials, write_run


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no-such-directory"], "no-such-directory is not a directory"),
        ([".", "--port", "{taken}"], "cannot listen on 127.0.0.1, port {taken}: "),
        ([".", "--host", "no.such.host.invalid"], "--host no.such.host.invalid: "),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        given = [argument.format(taken=taken) for argument in arguments]
        with pytest.raises(ConfigError, match=re.escape(says.format(taken=taken))):
            CliRunner().invoke(app, ["view", *given], catch_exceptions=False)


def test_an_interrupt_ends_the_server_while_a_page_is_open(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from mage.cli import main; main()", "view", str(tmp_path), "--no-browser"]
    command += ["--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        with urllib.request.urlopen(found[0].replace("/?", "/api/live?"), timeout=10) as stream:
            stream.readline()
            server.send_signal(signal.SIGINT)
            _, complaints = server.communicate(timeout=60)  # the stream is open: a server that waits for it never ends
    assert (server.returncode, complaints) == (130, "")


def test_a_watcher_is_told_what_grew(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", some_trials()[:1])
    with Server(tmp_path) as server:
        identity = server.json("/api/runs")[0]["id"]
        with (
            server.open(f"/api/live?run={identity}") as one,
            server.open("/api/live") as every,
        ):
            assert one.headers["content-type"].startswith("text/event-stream")
            first = _event(one)
            assert (first["run"], first["trials"]) == (identity, 1), "what a page may have missed before it listened"
            assert _event(every) == {"runs": [identity], "gone": []}
            with RunWriter.reopen(path) as writer:
                writer.append(some_trials()[1])
            told = _event(one)
            assert (told["run"], told["trials"]) == (identity, 2)
            assert _event(every) == {"runs": [identity], "gone": []}


def test_lists_of_ten_thousand_trials_are_made_from_the_index_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long that takes, `benchmarks/view_speed.py` says."""
    make_runs(tmp_path, 10_000)
    with Server(tmp_path) as server:
        ids = {run["name"]: run["id"] for run in server.json("/api/runs")}
        many = f"/api/runs/{ids['many']}"
        assert server.json(f"{many}/trials?offset=5000")["total"] == 10_000
        assert server.json(f"{many}/trials/9999")["number"] == 9999
        assert len(server.json(f"/api/runs/{ids['long']}/metrics?points=2000")["steps"]) == 2000
        assert server.memory_mb < 300
        assert not has_torch(server.pid)
    decoded: list[int] = []

    def counted(line: bytes) -> object:
        decoded.append(len(line))
        return decode_outcome(line)

    for module in (index, trial_index):
        monkeypatch.setattr(module, "decode_outcome", counted)
    store = RunStore(tmp_path)
    store.runs()
    store.trials(ids["many"], TrialFilter(opponent="copy", seat=0), 5000, 500)
    assert decoded == []
    store.trial(ids["many"], 3333)
    assert len(decoded) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_every_address_prints_its_token_and_lets_no_request_in_without(tmp_path: Path, host: str) -> None:
    command = [sys.executable, "-c", "from mage.cli import main; main()", "view", str(tmp_path), "--no-browser"]
    with subprocess.Popen([*command, "--port", "0", "--host", host], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r"http://[^:]+:(\d+)/\?token=(\S+)", server.stdout.readline())
        assert found is not None
        try:
            for path, token, status in (
                ("/api/runs", "", 403),
                ("/api/runs", found[2], 200),
                (f"/api/runs?token={found[2]}", "", 200),
            ):
                connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=10)
                connection.request("GET", path, headers={"X-Mage-Token": token})
                assert connection.getresponse().status == status
                connection.close()
        finally:
            server.terminate()


def test_a_real_server_listens_on_loopback_and_refuses_other_names(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        assert host == "127.0.0.1"
        for name, status in (("localhost", 200), ("evil.example", 403)):
            connection = http.client.HTTPConnection(host, int(port))
            connection.request("GET", "/api/runs", headers={"Host": name, "X-Mage-Token": server.token})
            answer = connection.getresponse()
            assert answer.status == status
            assert answer.headers["server"] is None
            connection.close()


def test_a_real_server_tells_watchers_of_moves(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        found = re.search(r'name="mage-token" content="([^"]+)"', server.get("/").decode())
        assert found is not None
        headers = {"Origin": server.url, "X-Mage-Token": found[1], "Content-Type": "application/json"}
        asked = {"world": "tic_tac_toe", "player": "uniform", "opponent": "uniform", "episodes": 1, "pace_s": 0.1}
        request = urllib.request.Request(f"{server.url}/api/play", json.dumps(asked).encode(), headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            session = json.load(answer)["session"]
        with server.open(f"/api/live?session={session}") as stream:
            told = (json.loads(line[6:]) for line in stream if line.startswith(b"data: "))
            versions = [next(told)["version"] for _ in range(4)]
        assert versions == sorted(set(versions))
        assert not has_torch(server.pid)


def _event(stream: object) -> dict[str, object]:
    """The next event of a stream."""
    for line in stream:  # type: ignore[attr-defined]
        if line.startswith(b"data: "):
            value: dict[str, object] = json.loads(line.removeprefix(b"data: "))
            return value
    raise AssertionError("the stream has ended")
