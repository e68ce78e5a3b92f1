"""`engine = "vllm"` where it cannot be used: one line, before torch or a model is loaded. vLLM need not be there."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata, util
from pathlib import Path
from threading import Thread

import pytest
import torch

from mage.config.load import load_config, replaced, to_toml
from mage.engines.registry import make_server
from mage.engines.settings import EngineSettings
from mage.engines.vllm.availability import check_vllm
from mage.engines.vllm.in_process import _options, _share_within
from mage.engines.vllm.locks import starting_on
from mage.errors import ConfigError
from mage.training.start import check_start
from tests.engine_made import nano

VLLM = "engine=vllm"


def refused(match: str, *overrides: str) -> None:
    with pytest.raises(ConfigError, match=match) as error:
        check_start(load_config("rps", (VLLM, *overrides)))
    assert "\n" not in str(error.value)


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """A server that answers everything with one text."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage.extras.find_spec", lambda name: None if name == "vllm" else util.find_spec(name))
    refused(r"engine = vllm needs the extra vllm: pip install .*; or name a running server in agent\.server")


@pytest.mark.parametrize("version", ["0.21.3", "0.33.0", "1.0.0", "dev"])
def test_another_version_is_installed(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("mage.extras.find_spec", lambda _: object())
    monkeypatch.setattr("mage.engines.vllm.availability.version", lambda _: version)
    refused(rf"vLLM {version} is installed here; engine = vllm works with 0\.22 to 0\.32")


def test_the_package_for_cpus_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "vllm":
            raise metadata.PackageNotFoundError(name)
        return "0.32.0"

    monkeypatch.setattr("mage.extras.find_spec", lambda _: object())
    monkeypatch.setattr("mage.engines.vllm.availability.version", version)
    check_vllm(())


def test_no_server_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        refused(rf"agent\.server = {address}: no server answers there", f"agent.server={address}")


def test_what_answers_is_not_vllm_or_another_version() -> None:
    with answering(b"<html>hello</html>") as address:
        refused("what answers there is not vLLM", f"agent.server={address}")
    with answering(b'{"version": "0.11.0"}') as address:
        refused(rf"vLLM 0\.11\.0 is at {address}; engine = vllm works with", f"agent.server={address}")
    with answering(b'{"version": "0.32.0"}') as address:
        check_start(load_config("rps", (VLLM, f"agent.server={address}")))


def test_one_of_several_servers_is_named_where_it_cannot_be_used() -> None:
    with answering(b'{"version": "0.32.0"}') as good, answering(b'{"version": "0.11.0"}') as old:
        refused(rf"^vLLM 0\.11\.0 is at {old}; engine = vllm works", f'agent.server=["{good}","{old}"]')
        refused(r"^agent\.server = http://127\.0\.0\.1:9: no server", f"agent.server=[{good}, http://127.0.0.1:9]")
        refused("^agent.server = 'x' is no address", f"agent.server=[{good}, x]")
        local = good.replace("127.0.0.1", "localhost")
        refused(rf"^agent\.server = {local}/: it is named twice", f"agent.server=[{good}, {local}/]")
        refused(
            r"^agent\.server = http://\[0::1\]:9: it is named twice",
            "agent.server=['http://[::1]:9','http://[0::1]:9']",
        )
        check_start(load_config("rps", (VLLM, f"agent.server=[{good}]")))


def test_one_address_stands_without_brackets_and_an_empty_text_is_none() -> None:
    address = "http://127.0.0.1:8000"
    written = [f"agent.server={given}" for given in (address, f'"{address}"', f"[{address}]", '""', "[]")]
    found = [load_config("rps", (VLLM, one)) for one in written]
    assert [one.agent.server for one in found] == [(address,)] * 3 + [()] * 2
    for one in found:
        assert one == replaced(one, {}, "a stored config")
        assert f"server = {json.dumps(one.agent.server)}" in to_toml(one)
    with pytest.raises(ConfigError, match=r"agent\.server = 8000: input should be a list, as in \[A, B\]"):
        load_config("rps", (VLLM, "agent.server=8000"))


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.7:8000",
        "http://",
        "https://127.0.0.1:1",
        "http://127.0.0.1:1/v1",
        "x",
        "http://[::1",
        "http://localhost:0",
    ],
)
def test_what_is_no_address(address: str) -> None:
    refused("is no address; write http://127.0.0.1:8000", f'agent.server="{address}"')


@pytest.mark.parametrize("host", ["10.0.0.7", "example.org", "0.0.0.0"])
def test_a_server_on_another_machine(host: str) -> None:
    refused("development mode, which lets anyone who reaches it run commands", f"agent.server=http://{host}:8000")


def test_settings_that_do_not_go_together() -> None:
    said = "rollout.workers = 2 with agent.server = http://127.0.0.1:8000: each worker has its own vLLM"
    refused(said, "rollout.workers=2", "agent.server=http://127.0.0.1:8000")
    refused("learner.ranks = 2: engine = vllm cannot share a process", "learner.ranks=2")
    refused("league.learners = 2: engine = vllm serves one whole model; set learner.lora_rank", "league.learners=2")
    refused(
        "agent.server = http://127.0.0.1:8000, http://127.0.0.1:8001: each worker",
        "rollout.workers=2",
        "agent.server=[http://127.0.0.1:8000, http://127.0.0.1:8001]",
    )
    with pytest.raises(ConfigError, match=r"agent\.server = http://127\.0\.0\.1:1: engine = local has none"):
        check_start(load_config("rps", ("agent.server=http://127.0.0.1:1",)))


def test_a_worker_that_has_half_of_a_card_takes_half_as_much() -> None:
    settings = [EngineSettings(64, is_trained=False, card_share=share) for share in (1.0, 0.5)]
    whole, half = (_options(each, is_cpu=False, length=64)["gpu_memory_utilization"] for each in settings)
    assert (whole, half) == (0.85, 0.425)


def test_policies_that_vllm_cannot_serve() -> None:
    with pytest.raises(ConfigError, match="engine = vllm serves one whole model, and 3 policies are needed"):
        make_server("vllm", nano(), EngineSettings(64, policies=3))
    with pytest.raises(ConfigError, match=r"learner\.lora_rank = 600: vLLM has room for 512 at most"):
        make_server("vllm", nano(), EngineSettings(64, adapter_rank=600))


def test_the_refusal_comes_before_a_run_directory_is_made(tmp_path: Path) -> None:
    from mage.training.start import check_new_run

    with pytest.raises(ConfigError, match="no server answers there"):
        check_new_run(tmp_path / "run", load_config("rps", (VLLM, "agent.server=http://127.0.0.1:9")))
    assert not (tmp_path / "run").exists()


STARTING = """
import sys, time
from pathlib import Path
from mage.engines.vllm.locks import starting_on
with starting_on(sys.argv[1]):
    print("starts", flush=True)
    time.sleep(1.0)
    Path(sys.argv[2]).touch()
"""


def test_one_process_at_a_time_starts_vllm_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two each counts the memory that the other takes as its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    started = tmp_path / "started"
    command = [sys.executable, "-c", STARTING, "GPU-1", str(started)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "starts\n"
        with starting_on("GPU-2"):
            assert not started.exists(), "another GPU is waited for"
        with starting_on("GPU-1"):
            assert started.exists()


@pytest.mark.parametrize(("free", "share"), [(60, 0.4), (30, 0.29), (40, 0.39)])
def test_vllm_asks_for_no_more_of_a_gpu_than_is_free(free: int, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not start; a model that is loaded there already, or another engine, may have most of it."""
    monkeypatch.setattr("torch.cuda.empty_cache", lambda: None)
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda _: (free, 100))
    assert _share_within(0.4, torch.device("cuda")) == pytest.approx(share)
