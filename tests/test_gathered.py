"""Whole models that no rank has room for: weights arrive layer by layer, and leave some at a time."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from mage.checks.servers import check_publish
from mage.engines.local.server import LocalPolicyServer
from mage.engines.vllm.shared_loader import share_weights
from mage.learners.load_weights import RankError
from mage.learners.registry import make_learner
from mage.learners.sharded import gathered, rank_learner
from mage.learners.sharded.gathered import Gathered
from mage.learners.sharded.learner import ShardedLearner, close_pools, pool
from mage.training.workers.packed_weights import pack, unpack
from mage.weights import LowRank, PolicyWeights
from tests.made import made_model, made_settings
from tests.test_policy_server import KINDS, LORA, loaded, settings_of
from tests.test_vllm_shared import Server, loader_of
from tests.vllm.file_sharing import share_files

SIZES = {"embed": 4, "a": 2, "b": 2, "c": 3, "head": 4}
TIED = {**{name: name for name in SIZES}, "head": "embed"}


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    """No ranks are left to the tests of other files."""
    yield
    close_pools()


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names that were gathered at a time, where four bytes are."""
    monkeypatch.setattr(gathered, "WINDOW_BYTES", 4)
    return []


def made(messages: list[list[str]]) -> Gathered:
    """Weights that are gathered from nowhere; each is filled with the number of its message."""

    def gather(names: Sequence[str]) -> dict[str, Tensor]:
        messages.append(list(names))
        return {name: torch.full((SIZES[name],), len(messages)) for name in names}

    return Gathered(SIZES, TIED, gather)


def test_what_is_read_in_order_is_gathered_once_and_some_at_a_time(messages: list[list[str]]) -> None:
    weights = made(messages)
    assert list(weights) == list(SIZES)
    assert len(weights) == len(SIZES)
    assert messages == [], "names alone gather nothing"
    assert {name: len(tensor) for name, tensor in weights.items()} == SIZES
    assert messages == [["embed"], ["a", "b"], ["c"], ["embed"]]


def test_tied_tensors_of_one_window_are_one(messages: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "WINDOW_BYTES", 100)
    weights = dict(made(messages))
    assert weights["head"] is weights["embed"]
    assert messages == [["embed", "a", "b", "c"]]


def test_a_name_that_is_not_there_is_no_weight(messages: list[list[str]]) -> None:
    weights = made(messages)
    assert "nothing" not in weights
    with pytest.raises(KeyError):
        weights["nothing"]
    assert messages == []


def test_an_adapter_is_added_when_a_weight_is_read(messages: list[list[str]]) -> None:
    base = {"one.weight": torch.zeros(2, 3), "two.weight": torch.ones(2, 3)}
    merged = PolicyWeights(base, {"one": LowRank(torch.ones(1, 3), torch.ones(2, 1), 0.5)}).merged()
    assert list(merged) == list(base)
    assert torch.equal(merged["one.weight"], torch.full((2, 3), 0.5))
    assert merged["two.weight"] is base["two.weight"]
    assert not base["one.weight"].any()


def test_what_is_sent_to_workers_is_packed_some_at_a_time_and_tied_tensors_once(messages: list[list[str]]) -> None:
    held: list[weakref.ref[Tensor]] = []

    def gather(names: Sequence[str]) -> dict[str, Tensor]:
        assert not any(tensor() is not None for tensor in held), "on rank 0's card, beside those of this message"
        messages.append(list(names))
        found = {name: torch.full((SIZES[name],), len(messages)) for name in names}
        held.extend(map(weakref.ref, found.values()))
        return found

    packed = pack(PolicyWeights(Gathered(SIZES, TIED, gather)))
    assert messages == [["embed"], ["a", "b"], ["c"]]
    assert list(packed.model) == list(SIZES)
    assert packed.model["head"] is packed.model["embed"]
    found = unpack(packed, {}).model
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        "embed": [1] * 4,
        "a": [2] * 2,
        "b": [2] * 2,
        "c": [3] * 3,
        "head": [1] * 4,
    }


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Two ranks that have nothing yet; the process of the second, which gives freed memory back at once."""
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    close_pools()
    (worker,) = pool(2, "cpu").ranks.workers
    yield worker
    close_pools()


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had."""
    (line,) = [each for each in (Path("/proc") / str(pid) / "status").read_text().splitlines() if "VmHWM" in each]
    return 1024 * int(line.split()[1])


@pytest.mark.parametrize("lora", [(), ("learner.lora_rank=4",)], ids=["full", "lora"])
def test_a_rank_never_has_the_whole_model(lora: tuple[str, ...], two_ranks: int) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("the memory of another process is read from /proc")
    settings = made_settings("learner.ranks=2", *lora)
    small = make_learner("local", made_model(), settings, with_values=False, imitates=False)
    assert isinstance(small, ShardedLearner)
    assert small.workers == (two_ranks,)
    before = peak_bytes(two_ranks)  # what is imported, too
    model = made_model(hidden_size=512, intermediate_size=2048, num_hidden_layers=24)
    whole = sum(parameter.nbytes for parameter in model.parameters())
    make_learner("local", model, settings, with_values=False, imitates=False)
    assert peak_bytes(two_ranks) - before < 0.75 * whole, "half of it, and a layer"


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_plays_with_what_two_ranks_have(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "WINDOW_BYTES", 2000)  # several messages for each publication
    given, lora = loaded(kind), LORA if kind in ("merged", "adapters") else ()
    server = LocalPolicyServer(given, settings_of(kind))
    settings = made_settings("learner.lr=0.01", "learner.ranks=2", *lora)
    learner = make_learner("local", given.model, settings, with_values=False, imitates=False)
    assert isinstance(learner.weights().model, Gathered)
    check_publish(server, learner, given.chat_format)


def test_memory_that_runs_out_while_weights_are_gathered_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not the lack of room for a copy, after which weights go as files: the other ranks wait for this one."""

    def full(tensor: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    share_files(monkeypatch, tmp_path)
    learner = make_learner("local", made_model(), made_settings("learner.ranks=2"), with_values=False, imitates=False)
    monkeypatch.setattr(rank_learner, "whole", full)
    with pytest.raises(RankError, match=r"^out of memory while weights were gathered"):
        asyncio.run(share_weights([loader_of(Server())], learner.weights().model))
