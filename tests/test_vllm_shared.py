"""Weights shared with a vLLM server: how they are packed, and when they go as files. vLLM need not be there."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from pydoc import locate
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from mage.engines.settings import EngineSettings
from mage.engines.vllm import shared_loader, shared_weights
from mage.engines.vllm.server_command import server_command
from mage.engines.vllm.shared_loader import SharedLoader, share_weights
from mage.engines.vllm.shared_weights import EXTENSION, SharedWeights, card_of, packed, unpacked
from mage.errors import EngineError
from mage.learners.sharded.gathered import Gathered
from tests.engine_made import family
from tests.vllm import file_sharing
from tests.vllm.file_sharing import share_files

CPU = torch.device("cpu")


def weights_of() -> dict[str, torch.Tensor]:
    """Weights of several dtypes and shapes, one of them not contiguous, and one under two names."""
    torch.manual_seed(1)
    embedding = torch.randn(7, 3, dtype=torch.bfloat16)
    return {
        "embed.weight": embedding,
        "norm.weight": torch.randn(5),
        "count": torch.tensor(3),
        "turned.weight": torch.randn(4, 6).T,
        "lm_head.weight": embedding,
    }


class Server:
    """Answers requests as a vLLM server with workers does, and keeps them."""

    def __init__(self, *answers: str | EngineError) -> None:
        """`answers` are those of a second worker, which comes to opening last; without any it opens everything."""
        self.bodies: list[dict[str, Any]] = []
        self._answers = list(answers)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        assert path == "/collective_rpc"
        self.bodies.append(json.loads(json.dumps(body)))
        answer = self._answers.pop(0) if self._answers else ""
        if isinstance(answer, EngineError):
            raise answer
        return {"results": ["", answer]}


def loader_of(server: Server, extension: str = EXTENSION, name: str = "the server") -> SharedLoader:
    return SharedLoader(name, server.post, extension)


def load(loader: SharedLoader, weights: Mapping[str, torch.Tensor] | None = None) -> bool:
    (is_done,) = asyncio.run(share_weights([loader], weights or weights_of()))
    return is_done


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    share_files(monkeypatch, tmp_path)


def assert_equal(found: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> None:
    assert list(found) == list(wanted)
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


def test_what_is_packed_is_unpacked_equal_and_apart() -> None:
    wanted = weights_of()
    buffer, pieces = packed(wanted)
    assert buffer.dtype == torch.uint8
    found = dict(unpacked(buffer, pieces, CPU))
    buffer.zero_()  # the sender uses it for something else
    assert_equal(found, wanted)


def test_weights_of_a_model_are_packed_with_their_tied_head() -> None:
    wanted = family("qwen2").model.state_dict()
    assert "lm_head.weight" in wanted
    buffer, pieces = packed(wanted)
    assert_equal(dict(unpacked(buffer, pieces, CPU)), wanted)


def test_weights_that_are_not_all_on_one_gpu_have_none() -> None:
    assert card_of(weights_of()) is None
    assert card_of({"one": torch.ones(1), "other": torch.ones(1, device="meta")}) is None


def test_weights_on_a_cpu_go_as_files_without_a_word() -> None:
    server = Server()
    loader = loader_of(server)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not load(loader)
    assert not server.bodies


@pytest.mark.usefixtures("on_gpu")
def test_one_byte_is_tried_and_then_the_weights_are_shared_each_time() -> None:
    server, wanted = Server(), weights_of()
    loader = loader_of(server)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(loader, wanted)
        changed = {name: tensor + 1 for name, tensor in wanted.items()}
        assert load(loader, changed)
    assert {body["method"] for body in server.bodies} == {"load_shared_weights"}
    trial, *loads = [body["kwargs"] for body in server.bodies]
    assert trial["pieces"] == []
    assert len(file_sharing.opened(trial["shared"])) == 1
    for given, sent in zip(loads, (wanted, changed), strict=True):
        assert_equal(dict(unpacked(file_sharing.opened(given["shared"]), given["pieces"], CPU)), sent)


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize(
    ("extension", "answer", "reason"),
    [
        ("", "", rf"the server was started without --worker-extension-cls {EXTENSION}"),
        (EXTENSION, "the server sees 0 GPUs", "the server sees 0 GPUs"),
        (EXTENSION, EngineError("it answers 500"), "it answers 500"),
    ],
)
def test_where_weights_cannot_be_shared_it_is_said_once(extension: str, answer: str | EngineError, reason: str) -> None:
    server = Server(answer)
    loader = loader_of(server, extension)
    with pytest.warns(UserWarning, match=f"weights go to the server as files, not from GPU to GPU: {reason}$"):
        assert not load(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not load(loader)
    assert [body["kwargs"]["pieces"] for body in server.bodies] == ([[]] if extension else [])


@pytest.mark.usefixtures("on_gpu")
def test_where_this_process_cannot_share_memory_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def share(buffer: torch.Tensor) -> dict[str, Any]:
        raise RuntimeError("the allocator does not share")

    monkeypatch.setattr(shared_loader, "share", share)
    server = Server()
    with pytest.warns(UserWarning, match="as files, not from GPU to GPU: the allocator does not share"):
        assert not load(loader_of(server))
    assert not server.bodies


@pytest.mark.usefixtures("on_gpu")
def test_a_gpu_without_room_for_a_copy_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(weights: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(shared_loader, "packed", full)
    loader = loader_of(Server())
    with pytest.warns(UserWarning, match="the GPU has no room for a copy of them"):
        assert not load(loader)
    assert not load(loader)


@pytest.mark.usefixtures("on_gpu")
@pytest.mark.parametrize(("room", "is_shared"), [(48, True), (47, False)])
def test_a_copy_leaves_room_for_what_is_gathered(room: int, is_shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy takes 16 bytes; what is gathered at a time another 16, and 16 before it has the model's dtype."""
    empty, messages = torch.empty, []

    def limited(size: int, **kind: Any) -> torch.Tensor:
        if size > room and kind["dtype"] is torch.uint8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return empty(size, **kind)

    def gather(names: Sequence[str]) -> dict[str, torch.Tensor]:
        messages.append(names)
        return {name: torch.ones(2) for name in names}

    monkeypatch.setattr(torch, "empty", limited)
    monkeypatch.setattr(shared_weights, "_ALIGNMENT", 8)
    weights = Gathered({"a": 8, "b": 8}, {"a": "a", "b": "b"}, gather)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert load(loader_of(Server()), weights) == is_shared
    assert any("no room for a copy" in str(warned.message) for warned in told) != is_shared
    assert bool(messages) == is_shared


@pytest.mark.usefixtures("on_gpu")
def test_weights_that_can_no_longer_be_opened_are_an_error() -> None:
    server = Server("", "no such device")
    with pytest.raises(EngineError, match="the server cannot load the weights: no such device"):
        load(loader_of(server))


@pytest.mark.usefixtures("on_gpu")
def test_servers_that_cannot_read_the_gpu_are_left_to_files_and_the_others_share_one_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies: list[int] = []

    def counted(weights: Mapping[str, torch.Tensor]) -> Any:
        copies.append(len(weights))
        return packed(weights)

    monkeypatch.setattr(shared_loader, "packed", counted)
    servers = [Server(), Server("the server sees 0 GPUs"), Server()]
    loaders = [loader_of(server, name=f"server {number}") for number, server in enumerate(servers)]
    with pytest.warns(UserWarning, match="weights go to server 1 as files") as told:
        assert asyncio.run(share_weights(loaders, weights_of())) == [True, False, True]
    # Others may be of objects that earlier tests left to the garbage collector.
    assert sum("as files" in str(warned.message) for warned in told) == len(copies) == 1
    for server, num in zip(servers, (2, 1, 2), strict=True):
        assert len(server.bodies) == num
    for server in (servers[0], servers[2]):
        given = server.bodies[1]["kwargs"]
        assert_equal(dict(unpacked(file_sharing.opened(given["shared"]), given["pieces"], CPU)), weights_of())


@pytest.mark.usefixtures("on_gpu")
def test_a_server_that_cannot_load_is_named_when_the_others_have_loaded() -> None:
    servers = [Server("", "no such device"), Server()]
    loaders = [loader_of(server, name=f"server {number}") for number, server in enumerate(servers)]
    with pytest.raises(EngineError, match="server 0 cannot load the weights: no such device"):
        asyncio.run(share_weights(loaders, weights_of()))
    assert len(servers[1].bodies) == 2


def test_a_worker_that_does_not_see_the_gpu_says_so() -> None:
    said = SharedWeights().load_shared_weights({"card": "GPU-1", "parts": []}, [])
    assert said == f"the server sees {torch.cuda.device_count()} GPUs, and not the learner's, GPU-1"


@pytest.mark.parametrize("has_option", [False, True])
def test_the_command_of_a_server_has_the_workers_method_and_options_that_its_version_knows(
    has_option: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 0.22 ends with an error where it is given --enable-scale-out; later ones need it."""
    options = tmp_path / "vllm" / "entrypoints" / "openai" / "cli_args.py"
    options.parent.mkdir(parents=True)
    options.write_text("enable_scale_out: bool = False\n" if has_option else "host: str | None = None\n")
    (tmp_path / "vllm" / "__init__.py").write_text("raise ImportError('vLLM takes long to import')\n")
    monkeypatch.syspath_prepend(tmp_path)
    command, _ = server_command(tmp_path, EngineSettings(64), 8000, dtype="bfloat16", is_cpu=False)
    assert ("--enable-scale-out" in command) == has_option
    assert locate(command[command.index("--worker-extension-cls") + 1]) is SharedWeights


class Wrapped(nn.Module):
    """A layer as vLLM puts adapters around it."""

    def __init__(self, base_layer: nn.Module) -> None:
        super().__init__()
        self.base_layer = base_layer


class Worker(SharedWeights):
    """A worker of vLLM 0.22, which knows the weights of its model by the names of its parameters."""

    def __init__(self, model: nn.Module) -> None:
        self.model_runner = SimpleNamespace(get_model=lambda: model)

    def reload_weights(self, weights_iterator: Iterable[tuple[str, torch.Tensor]]) -> None:
        parameters = dict(self.model_runner.get_model().named_parameters())
        for name, tensor in weights_iterator:
            parameters[name].data.copy_(tensor)


def test_weights_below_adapters_are_loaded_under_the_names_that_they_have_without() -> None:
    layers = nn.ModuleDict(
        {"one": nn.Linear(2, 2), "two": nn.ModuleDict({"inner": nn.Linear(2, 2)}), "norm": nn.Linear(1, 1)}
    )
    given = {name: torch.randn_like(tensor) for name, tensor in layers.state_dict().items()}
    inner = layers["two"]
    assert isinstance(inner, nn.ModuleDict)
    layers["one"], inner["inner"] = Wrapped(layers["one"]), Wrapped(inner["inner"])
    worker = Worker(layers)
    worker.reload_base(weights_iterator=given.items())
    with pytest.raises(KeyError):
        worker.reload_base(weights_iterator=[("other.weight", torch.zeros(1))])
    assert isinstance(layers["one"], Wrapped), "adapters are gone"
    assert isinstance(inner["inner"], Wrapped)
    found = {name.replace(".base_layer", ""): tensor for name, tensor in layers.state_dict().items()}
    assert all(torch.equal(found[name], tensor) for name, tensor in given.items())
