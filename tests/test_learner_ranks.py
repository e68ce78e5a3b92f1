"""A learner on several ranks (gloo, on this machine): the updates, states and files are those of one process."""

from __future__ import annotations

import copy
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from transformers import LlamaForCausalLM

from mage.checks.learners import check_learner
from mage.learners.load_weights import DivergedError, RankError
from mage.learners.registry import make_learner
from mage.learners.sharded import ranks as processes
from mage.learners.sharded.commands import END
from mage.learners.sharded.learner import ShardedLearner, close_pools
from mage.protocols import Learner
from mage.types import Sample
from tests.made import made_model, made_samples, made_settings
from tests.processes import Mage, is_alive, send

RATE = "learner.lr=0.0002"
LARGE = 5000
"""A vocabulary of which only some rows of the head are used."""
SMALL_BATCHES = "learner.token_budget=80"
KINDS: Mapping[str, tuple[str, ...]] = {
    "full": (SMALL_BATCHES,),
    "lora": ("learner.lora_rank=4", "learner.divergence=k3", "learner.divergence_weight=0.1"),
    "values": (SMALL_BATCHES,),
    "terms": (
        "learner.gradient_checkpointing=true",
        "learner.prediction_weight=0.3",
        "learner.divergence=k2",
        "learner.divergence_weight=0.1",
        "learner.epochs=2",
        "learner.minibatches=2",
        "learner.entropy_start=0.01",
        "learner.entropy_end=0.01",
        "learner.entropy_floor=0.9",
    ),
    "lagged": (SMALL_BATCHES, "rollout.lag=1", "learner.minibatches=2"),
    "large head": (SMALL_BATCHES,),
}


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    """The ranks are shared by all tests here, and ended after the last."""
    yield
    close_pools()


def learner(ranks: int, *overrides: str, model: Any = None, with_values: bool = False) -> Learner:
    """A learner of a small model on some ranks."""
    settings = made_settings(RATE, *overrides, f"learner.ranks={ranks}")
    return make_learner("local", model or made_model(), settings, with_values=with_values, imitates=False)


def distance(some: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> float:
    """The largest difference of tensors of the same names."""
    assert some.keys() == others.keys()
    return max(float((some[name].double() - others[name].double()).abs().max()) for name in some)


def updated(kind: str, ranks: int) -> tuple[Learner, list[dict[str, float]], Sequence[Sample]]:
    """A learner after four updates, their metrics, and the samples."""
    size = LARGE if kind == "large head" else made_model().config.vocab_size
    samples = made_samples(7, vocabulary=size)
    made = learner(ranks, *KINDS[kind], model=made_model(vocab_size=size), with_values=kind == "values")
    return made, [made.update(samples) for _ in range(4)], samples


def check_same(kind: str, ranks: int) -> None:
    """Four updates on several ranks are those of one process."""
    one, expected, samples = updated(kind, 1)
    several, metrics, _ = updated(kind, ranks)
    assert isinstance(several, ShardedLearner)
    assert distance(several.state().weights, one.state().weights) < 1e-6
    assert distance(several.state().tensors, one.state().tensors) < 1e-6
    assert several.state().numbers == pytest.approx(one.state().numbers, rel=1e-6)
    for mine, theirs in zip(metrics, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-5, abs=1e-5)
    for one_read, read in zip(one.evaluate_tokens(samples), several.evaluate_tokens(samples), strict=True):
        assert torch.allclose(torch.tensor(one_read), torch.tensor(read), atol=1e-5)
    if kind == "values":
        expected_values, values = (torch.tensor(each.values(samples[:1])) for each in (one, several))
        assert torch.allclose(expected_values, values, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_four_updates_on_two_ranks_are_those_of_one_process(kind: str) -> None:
    check_same(kind, 2)


@pytest.mark.parametrize("lora", [(), ("learner.lora_rank=4",)], ids=["full", "lora"])
def test_it_keeps_the_contract_in_bfloat16(lora: tuple[str, ...], tmp_path: Path) -> None:
    check_learner(
        lambda: learner(2, *lora, model=made_model(torch.bfloat16), with_values=True), made_samples(), tmp_path
    )


def test_in_bfloat16_it_is_about_what_one_process_makes() -> None:
    samples = made_samples()
    several, one = (learner(ranks, model=made_model(torch.bfloat16)) for ranks in (2, 1))
    for _ in range(4):
        several.update(samples)
        one.update(samples)
    masters = [
        {n.removeprefix("master/"): t for n, t in each.state().tensors.items() if n.startswith("master/")}
        for each in (several, one)
    ]
    start = made_model(torch.bfloat16).state_dict()
    moved = torch.cat([(tensor - start[name]).flatten() for name, tensor in masters[1].items()])
    apart = torch.cat([(tensor - masters[0][name]).flatten() for name, tensor in masters[1].items()])
    assert apart.norm() < 0.1 * moved.norm()
    assert {t.dtype for t in several.state().weights.values()} == {torch.bfloat16}
    assert {t.dtype for t in several.weights().model.values()} == {torch.bfloat16}
    assert {t.dtype for t in masters[0].values()} == {torch.float32}


def test_two_samples_on_two_ranks_and_one_on_two() -> None:
    for num in (2, 1):
        several, one = learner(2), learner(1)
        for each in (several, one):
            each.update(made_samples(num))
        assert distance(several.state().weights, one.state().weights) < 1e-6


def test_a_step_that_is_not_finite_is_skipped_on_all_ranks_until_it_repeats() -> None:
    samples = made_samples(4)
    broken = [msgspec.structs.replace(samples[0], advantages=(float("nan"),) * len(samples[0].positions)), *samples[1:]]
    several = learner(2, "learner.max_skips=1")
    before = several.state().copied()
    assert several.update(broken)["learner/skipped_updates"] == 1
    assert distance(several.state().weights, before.weights) == 0.0
    with pytest.raises(DivergedError, match="not finite in 2 updates in a row"):
        several.update(broken)
    several.restore(before)
    assert several.update(samples)["learner/grad_norm"] > 0, "the ranks are still in step"


def test_buffers_of_another_dtype_are_those_of_rank_0() -> None:
    samples = made_samples()
    several, one = (learner(ranks, model=made_model(torch.bfloat16).to(torch.bfloat16)) for ranks in (2, 1))
    for read, expected in zip(several.evaluate_tokens(samples), one.evaluate_tokens(samples), strict=True):
        assert torch.allclose(torch.tensor(read), torch.tensor(expected), atol=1e-5)


class Fragile(LlamaForCausalLM):  # type: ignore[no-untyped-call]
    """Runs out of memory while it trains on a sequence that begins with id 1, as a GPU does; 2 is another error."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)  # type: ignore[no-untyped-call]
        self.model.register_forward_pre_hook(_break, with_kwargs=True)


def _break(module: torch.nn.Module, inputs: object, kwargs: Mapping[str, Any]) -> None:
    first = int(kwargs["input_ids"][0, 0])
    if module.training and first == 1:
        raise torch.OutOfMemoryError("CUDA out of memory")
    if module.training and first == 2:
        raise ValueError("something\nelse")


def test_the_model_that_is_trained_may_be_of_any_kind() -> None:
    model = made_model(kind=Fragile, tie_word_embeddings=False)
    several, one = learner(2, model=copy.deepcopy(model)), learner(1, model=model)
    for each in (several, one):
        each.update(made_samples())
    assert distance(several.state().weights, one.state().weights) < 1e-6


def test_a_rank_that_is_killed_ends_the_learner_in_one_line() -> None:
    samples = made_samples()
    several = learner(3)
    assert isinstance(several, ShardedLearner)
    several.update(samples)
    # Another rank may notice a death before the process has ended.
    several._pool.ranks._store.set("failed", "rank 1 of 3: connection reset")
    threading.Timer(0.3, os.kill, (several.workers[1], signal.SIGKILL)).start()
    assert several._pool.ranks.failure() == "rank 2 of 3 was ended by signal 9 (SIGKILL)"
    with pytest.raises(RankError, match=r"^rank 2 of 3 was ended by signal 9 \(SIGKILL\)$"):
        several.update(samples)
    with pytest.raises(RankError, match="the ranks of this learner have ended"):
        several.state()


MEMORY = "out of memory with learner.token_budget = 64; lower it, as with learner.token_budget=32"


@pytest.mark.parametrize(
    ("rank", "first", "said"),
    [
        (1, 1, f"rank 1 of 2: {MEMORY}"),
        pytest.param(0, 1, MEMORY, marks=pytest.mark.slow),
        pytest.param(1, 2, "rank 1 of 2: something else", marks=pytest.mark.slow),
    ],
)
def test_an_error_on_one_rank_ends_all_in_one_line(rank: int, first: int, said: str) -> None:
    samples = made_samples(2, length=60)
    samples = [
        msgspec.structs.replace(each, tokens=(first if number == rank else 0, *each.tokens[1:]))
        for number, each in enumerate(samples)
    ]
    several = learner(2, "learner.token_budget=64", model=made_model(kind=Fragile))
    assert isinstance(several, ShardedLearner)
    with pytest.raises(RankError, match=f"^{said}$"):
        several.update(samples)
    close_pools()
    assert not any(map(is_running, several.workers))


@pytest.mark.skipif(torch.cuda.is_available(), reason="every rank has a card here")
def test_a_rank_that_cannot_use_its_card_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "check_ranks", lambda *_: None)
    with pytest.raises(RankError, match=r"^rank 1 ended with exit code 1 before it began$"):
        processes.spawn(2, "cuda")


def test_ranks_of_which_one_has_just_ended_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    close_pools()
    made = processes.spawn(3, "cpu")
    first, second = made.workers
    os.kill(first, signal.SIGKILL)
    made._workers[0].wait()
    monkeypatch.setattr(made, "failure", lambda: None)  # it ends after this was asked
    made.close(END)
    assert not dist.is_initialized()
    assert not is_running(second)


HARMED = """
import os, signal, threading
from mage.learners.sharded import ranks
signal.signal(signal.SIGINT, signal.default_int_handler)
ranks._END_S = 0.5
await_all = ranks._await_all
def harmed(store, workers):  # as if they had been there
    os.kill(workers[0].pid, signal.{harm})
    threading.Timer(1.0, os.kill, (os.getpid(), signal.{sent})).start()
ranks._await_all = harmed
try:
    ranks.spawn(2, "cpu")
except BaseException as error:
    print(type(error).__name__, error)
ranks._await_all = await_all
ranks.spawn(2, "cpu").close(None)
"""


@pytest.mark.parametrize(
    ("harm", "sent", "said"),
    [
        ("SIGKILL", "SIGCONT", "RankError rank 1 of 2 was ended by signal 9 (SIGKILL)"),
        ("SIGSTOP", "SIGINT", "KeyboardInterrupt "),
    ],
)
def test_a_rank_that_never_connects_does_not_hold_rank_0(harm: str, sent: str, said: str, mage: Mage) -> None:
    """Gloo waits for it without a limit, deaf to signals. The process can go on with other ranks."""

    def limit(pid: int) -> None:
        ended = threading.Timer(60.0, send, (pid, signal.SIGKILL))
        ended.daemon = True
        ended.start()
        while is_alive(pid):
            time.sleep(0.05)
        ended.cancel()

    assert mage(program=HARMED.format(harm=harm, sent=sent), meanwhile=limit) == (0, said + "\n")


def is_running(pid: int) -> bool:
    """Whether a process runs; one that ended and was waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [3, 4])
def test_four_updates_on_more_ranks_are_those_of_one_process(kind: str, ranks: int) -> None:
    check_same(kind, ranks)
