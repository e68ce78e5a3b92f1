"""Servers that cannot be used are refused in one line, before anything is played."""

from __future__ import annotations

import copy

import pytest

from mage.engines.settings import EngineSettings
from mage.engines.vllm.http_server import HttpVllm
from mage.engines.vllm.make import vllm_server
from mage.errors import ConfigError
from mage.models.load import LoadedModel, load_model
from tests.vllm.made import LENGTH, PLACES, RANK, Server, model_of, settings_of


def refused(
    server: Server,
    match: str,
    loaded: LoadedModel | None = None,
    length: int = LENGTH,
    policies: int = 1,
    adapter_rank: int = 0,
) -> None:
    given = EngineSettings(length, policies=policies, adapter_rank=adapter_rank, servers=(server.address,))
    with pytest.raises(ConfigError, match=match) as error:
        vllm_server(loaded or model_of("tied"), given)
    assert "\n" not in str(error.value)


def test_a_context_longer_than_the_servers(started: dict[str, Server]) -> None:
    refused(started["tied"], r"agent\.context = 512: .* was started for 256 tokens; start it with", length=512)


def test_a_server_of_another_model(started: dict[str, Server]) -> None:
    other = load_model("nano(heads=2,layers=3)", worlds=("rps",))
    refused(started["tied"], r"its model .* has vocab_size = \d+, and nano\(heads=2,layers=3\) \d+", other)
    refused(started["tied"], "has a tied head, and untied a head of its own", model_of("untied"))


def test_a_server_in_another_number_format(started: dict[str, Server]) -> None:
    tied = model_of("tied")
    half = LoadedModel("half", copy.deepcopy(tied.model).bfloat16(), tied.tokenizer, tied.chat_format)
    refused(started["tied"], r"it computes in torch\.float32, and the model in torch\.bfloat16", half)


def test_a_server_without_room_for_the_adapters(started: dict[str, Server]) -> None:
    needed = "room for 5 adapters of rank 8, and 6 of rank 4 are needed"
    refused(started["tied"], needed, policies=PLACES + 1, adapter_rank=RANK)
    refused(started["untied"], "room for 0 adapters of rank 0", policies=1, adapter_rank=RANK)


def test_a_server_that_another_run_uses(started: dict[str, Server]) -> None:
    first = HttpVllm(model_of("tied"), settings_of("tied"), started["tied"].address)
    refused(started["tied"], "another run uses it")
    first.close()
    HttpVllm(model_of("tied"), settings_of("tied"), started["tied"].address).close()
