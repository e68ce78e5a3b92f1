"""Weights that the workers of a vLLM server read in place: a server on a CPU, with files for the memory of a GPU."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mage.checks.servers import check_publish
from mage.engines.vllm import http_server, shared_loader
from mage.engines.vllm.server import VllmPolicyServer
from tests.vllm.conftest import MakeBackend
from tests.vllm.file_sharing import EXTENSION, share_files
from tests.vllm.made import TOLERANCE, learner_of, model_of, settings_of, two_weights


@pytest.mark.parametrize("kind", ["tied", "adapters"])
def test_what_was_shared_is_what_plays(
    make_backend: MakeBackend, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whole weights with a tied head, and a base below adapters."""

    def written(*_: Any) -> None:
        pytest.fail("weights were written to files")

    share_files(monkeypatch, tmp_path)
    monkeypatch.setattr(shared_loader, "EXTENSION", EXTENSION)
    monkeypatch.setattr(http_server, "write_weights", written)
    server = VllmPolicyServer(model_of(kind), settings_of(kind), make_backend("http", kind))
    check_publish(server, learner_of(kind), model_of(kind).chat_format, tolerance=TOLERANCE)
    assert len(list(tmp_path.iterdir())) == (3 if kind == "tied" else 2), "one byte, then the weights each time"


def test_a_server_that_does_not_see_the_gpu_gets_files(
    make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server of the command in the documentation, with the worker's real method."""
    share_files(monkeypatch, tmp_path)
    monkeypatch.setattr(shared_loader, "share", lambda _: {"card": "GPU-1", "parts": []})
    server = VllmPolicyServer(model_of("untied"), settings_of("untied"), make_backend("http", "untied"))
    with pytest.warns(
        UserWarning, match="as files, not from GPU to GPU: the server sees 0 GPUs, and not the learner's"
    ):
        asyncio.run(server.publish("main", two_weights("untied")[1], 0))  # compared with a plain pass
