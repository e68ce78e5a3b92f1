"""vLLM takes long to start, so engines and servers are shared by all tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mage.engines.vllm.backend import Backend
from mage.engines.vllm.http_server import HttpVllm
from mage.engines.vllm.in_process import InProcessVllm
from tests.vllm.made import Server, model_of, need_vllm, servers, settings_of

MakeBackend = Callable[[str, str], Backend]


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Servers of models with a tied head, and with one of its own; the first has room for adapters."""
    need_vllm()
    with servers(tmp_path_factory.mktemp("servers"), "tied", "untied") as found:
        yield found


@pytest.fixture(scope="session")
def two_of_one_model(
    started: dict[str, Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, Server]]:
    """The server of the tied model, and another one of it."""
    with servers(tmp_path_factory.mktemp("second"), "tied") as found:
        yield started["tied"], found["tied"]


@pytest.fixture(scope="session")
def engines() -> dict[bool, InProcessVllm]:
    """vLLM in this process, without room for adapters and with it."""
    need_vllm()
    return {
        has_adapters: InProcessVllm(model_of("tied"), settings_of("adapters" if has_adapters else "tied"))
        for has_adapters in (False, True)
    }


@pytest.fixture
def make_backend(request: pytest.FixtureRequest) -> Iterator[MakeBackend]:
    """A backend by where it runs, "here" or "http", and the kind of its models."""
    opened: list[HttpVllm] = []

    def make(where: str, kind: str) -> Backend:
        if where == "here":
            found: InProcessVllm = request.getfixturevalue("engines")[kind == "adapters"]
            return found
        address = request.getfixturevalue("started")["untied" if kind == "untied" else "tied"].address
        opened.append(HttpVllm(model_of(kind), settings_of(kind), address))
        return opened[-1]

    need_vllm()
    yield make
    for backend in opened:
        backend.close()
