"""A worker, in this process: what it is built from travels as bytes, and it plays as the run itself does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest
import torch

from mage.errors import ConfigError, EngineError
from mage.league.matches import groups_of, jobs_of
from mage.plugins import import_plugins
from mage.training.start import check_config, check_start
from mage.training.workers.order import order_of, read_order, read_outcomes, to_bytes
from mage.training.workers.packed_weights import pack, unpack
from mage.training.workers.worker import Worker
from mage.weights import LowRank, PolicyWeights
from tests.ray_made import assert_same_trials, set_up_workers
from tests.registered import forget_names
from tests.test_plugins import NUMBER
from tests.tiny import tiny_config

WORKERS = "rollout.workers=2"
TAUGHT = ("credit.estimator=cloning", "credit.options={}", "agent.memory=history")
TUTORED = (
    "agent.memory=reflections",
    "agent.reflection_tokens=3",
    r"agent.tutor=opponent (\w+)",
    "agent.tutor_steps=2",
)
KINDS = {
    "model": (),
    "adapter": ("learner.lora_rank=2", "learner.lr=0.01"),
    "bfloat16": ("dtype=bfloat16",),
    "teacher": TAUGHT,
    "tutor": TUTORED,
    "schedule": ("schedule.rounds=[[0.0, 1], [1.0, 3]]",),
    "wordings": ("population.wordings=9",),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_plays_what_the_run_itself_plays(tmp_path: Path, kind: str) -> None:
    setup = set_up_workers(tmp_path / "run", *KINDS[kind])
    parts, size = setup.parts, setup.parts.config.batch.size
    matches = setup.source.draw(1, {"main": 2})

    async def played() -> list[object]:
        await setup.match_play.publish(1)
        return list(await setup.match_play.play(matches, 1))

    with torch.no_grad():  # weights that no worker could have made by itself
        for tensor in parts.learner.state().weights.values():
            tensor.add_(0.05 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(5)))
    parts.learner.restore(parts.learner.state())
    wanted = asyncio.run(played())
    worker = Worker()
    worker.build(to_bytes(order_of(parts.config, tmp_path / "run" / "tokenizer")))
    worker.publish(pack(parts.learner.weights()), 1)
    outcomes = read_outcomes(worker.play(to_bytes(jobs_of(matches, size)), 1))
    found = groups_of(matches, size, outcomes)
    assert_same_trials([one.group for one in found], [one.group for one in wanted])  # type: ignore[attr-defined]
    assert all(not one.group.failures for one in found)


def test_weights_are_packed_as_they_are_and_tied_ones_once() -> None:
    one = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    packed = pack(PolicyWeights({"a": one, "tied": one, "b": torch.ones(2)}))
    assert packed.model["a"] is packed.model["tied"]
    found = unpack(packed, {}).model
    assert torch.equal(found["tied"], one)
    assert found["tied"].dtype is torch.bfloat16
    assert torch.equal(found["b"], torch.ones(2))


def test_of_an_adapter_the_base_is_not_sent() -> None:
    base = {"layer.weight": torch.zeros(2, 2)}
    packed = pack(PolicyWeights(base, {"layer": LowRank(torch.ones(1, 2), torch.ones(2, 1), 0.5)}))
    assert not packed.model
    assert torch.equal(unpack(packed, base).merged()["layer.weight"], torch.full((2, 2), 0.5))


@pytest.mark.usefixtures("own_names")  # other tests have a world of the same name
def test_plugins_and_tokenizer_reach_a_machine_that_has_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "number.py"
    file.write_text(NUMBER.partition("mage.register_game")[0])
    import_plugins([str(file)])
    model = "agent.model=nano(hidden=16,layers=1,heads=2,context=512,words=[hidden,number])"
    setup = set_up_workers(tmp_path / "run", "world=hidden_number", 'population.members=["0", "1"]', model)
    order = to_bytes(order_of(setup.parts.config, tmp_path / "run" / "tokenizer"))
    matches = setup.source.draw(0, {"main": 2})
    file.unlink()
    forget_names(monkeypatch)
    worker = Worker()
    worker.build(order)
    worker.publish(pack(setup.parts.learner.weights()), 0)
    outcomes = read_outcomes(worker.play(to_bytes(jobs_of(matches, 2)), 0))
    assert [type(outcome) for outcome in outcomes] == [tuple] * 4


def test_a_worker_of_another_version_refuses() -> None:
    order = read_order(to_bytes(order_of(tiny_config(), None)))
    with pytest.raises(ConfigError, match=r"a worker has mage \S+, the run 0\.0\.0; install the same"):
        Worker().build(to_bytes(msgspec.structs.replace(order, version="0.0.0")))


class HoldsLockError(Exception):
    """Cannot be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class NeedsTwoError(Exception):
    """Is pickled with one argument, and needs two to be read."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what}\n{where}")


class OddError(Exception):
    """Raises an error of its own where it is pickled."""

    def __reduce__(self) -> str:
        raise ArithmeticError


def raising(error: Exception) -> Callable[[bytes], NoReturn]:
    def failing(order: bytes) -> NoReturn:
        raise error

    return failing


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (HoldsLockError("no card"), "HoldsLockError: no card"),
        (NeedsTwoError("no card", "in slot 3"), "NeedsTwoError: no card in slot 3"),
        (OddError(), "OddError"),
        (RuntimeError("CUDA error: an illegal memory access\nSet a variable"), "RuntimeError: CUDA error: an illegal "),
        (KeyError("a"), "KeyError: 'a'"),
    ],
)
def test_errors_that_were_not_meant_become_one_line(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mage.training.workers.worker.read_order", raising(error))
    with pytest.raises(EngineError) as caught:
        Worker().build(b"")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("error", [ConfigError("a"), OSError(28, "No space left"), RuntimeError("CUDA out of memory")])
def test_errors_on_purpose_and_shortages_stay_as_they_are(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage.training.workers.worker.read_order", raising(error))
    with pytest.raises(type(error)) as caught:
        Worker().build(b"")
    assert caught.value is error


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["league.learners=2"], "rollout.workers = 2 with league.learners = 2: workers serve one policy"),
        (
            ["rollout.gpus=1.5"],
            "rollout.gpus = 1.5: Ray gives a worker whole GPUs, or a share of one with at most four",
        ),
        (["rollout.gpus=0.33333"], "rollout.gpus = 0.33333: Ray gives a worker whole GPUs, or a share of one"),
        (["population.members=['remote(url=\"http://localhost:1/v1\",model=m)']"], "is asked by one process"),
    ],
)
def test_what_cannot_be_combined_is_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(tiny_config(WORKERS, *overrides))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_gpus_of_workers_are_refused_where_the_model_is_on_a_cpu() -> None:
    with pytest.raises(ConfigError, match=r"rollout.gpus = 0\.5: the model runs on cpu; set it to 0"):
        check_start(tiny_config(WORKERS, "rollout.gpus=0.5"))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "rollout.address = '127.0.0.1:1': no Ray answers there: Connection refused"),
        ("ray://127.0.0.1:1", "write host:port, or auto on a machine of the cluster"),
        ("somewhere", "write host:port, or auto on a machine of the cluster"),
        ("a..b:6379", "rollout.address = 'a..b:6379': no host can have the name 'a..b'; write host:port"),
    ],
)
def test_an_address_without_a_cluster_is_refused(address: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage.extras.find_spec", lambda _: object())
    with pytest.raises(ConfigError) as caught:
        check_start(tiny_config(WORKERS, f"rollout.address={address}"))
    assert said in str(caught.value)


def test_without_ray_workers_are_refused_with_the_way_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage.extras.find_spec", lambda name: None if name == "ray" else object())
    with pytest.raises(ConfigError, match=r"^rollout.workers = 2 needs the extra ray: pip install .*\[ray\]'$"):
        check_start(tiny_config(WORKERS))
