"""The learner on CUDA: bfloat16, fast kernels, compiled layers, memory that runs out and memory that stays flat."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from mage.learners.batch import iter_micro_batches, partition
from mage.learners.local import LocalLearner
from mage.types import Sample, Weight
from mage.weights import LearnerState
from tests.made import made_model, made_samples, made_settings

if not torch.cuda.is_available():
    pytest.skip("needs CUDA", allow_module_level=True)

DEVICE = torch.device("cuda")
SIZES: dict[str, Any] = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
}


def learner_of(*overrides: str, with_values: bool = False, **changes: Any) -> LocalLearner:
    """A learner on the device, eager unless told otherwise."""
    model = made_model(torch.bfloat16, **{**SIZES, **changes}).to(DEVICE)
    settings = made_settings("learner.compile=false", "learner.lr=0.001", *overrides)
    return LocalLearner(model, settings, with_values=with_values)


def samples_of(num: int = 24, length: int = 120, reply: int = 12) -> list[Sample]:
    return made_samples(num, length, reply=reply, vocabulary=SIZES["vocab_size"])


@torch.no_grad()
def logprobs(learner: LocalLearner, samples: Sequence[Sample]) -> list[Tensor]:
    """The learner's log-probabilities of each sample's trained tokens."""
    found: list[Tensor] = [torch.empty(0)] * len(samples)
    partitions = partition(samples, 4096, 16)
    for chosen, batch in zip(partitions, iter_micro_batches(samples, Weight.TURN, partitions, 16), strict=True):
        there = batch.to(DEVICE)
        logprobs_N, _ = learner._policy.read(learner._policy.hidden(there), there)
        for index, row in zip(
            chosen, torch.split(logprobs_N, [len(samples[i].positions) for i in chosen]), strict=True
        ):
            found[index] = row.cpu()
    return found


def as_sampled(learner: LocalLearner, samples: Sequence[Sample], advantage: float) -> list[Sample]:
    """The samples as if the learner's own weights had sampled them."""
    return [
        msgspec.structs.replace(s, logprobs=tuple(row.tolist()), advantages=(advantage,) * len(row))
        for s, row in zip(samples, logprobs(learner, samples), strict=True)
    ]


def master_weights(learner: LocalLearner) -> dict[str, Tensor]:
    return {name: t.clone() for name, t in learner.state().tensors.items() if name.startswith("master/")}


def moved(learner: LocalLearner, before: dict[str, Tensor]) -> Tensor:
    return torch.cat([(tensor - before[name]).flatten() for name, tensor in sorted(master_weights(learner).items())])


def test_updates_lower_the_loss() -> None:
    learner = learner_of()
    samples = as_sampled(learner, samples_of(), 1.0)
    first = learner.update(samples)
    assert first["gap/mean_difference"] < 0.02
    assert first["gap/outside_0.8_1.25"] < 0.01
    for _ in range(8):
        last = learner.update(samples)
    assert last["learner/loss"] < first["learner/loss"] - 0.05
    before = torch.cat([torch.tensor(s.logprobs) for s in samples])
    assert (torch.cat(logprobs(learner, samples)) - before).mean() > 0.05


def test_log_probabilities_are_those_of_a_plain_float32_forward() -> None:
    learner, samples = learner_of(), samples_of()
    model = copy.deepcopy(learner.model).float()
    gaps = []
    for sample, row in zip(samples, logprobs(learner, samples), strict=True):
        with torch.no_grad():
            logits_TV = model(torch.tensor([sample.tokens], device=DEVICE)).logits[0]
        for position, allowed, found in zip(sample.positions, sample.allowed, row.tolist(), strict=True):
            logits = logits_TV[position - 1]
            total = torch.logsumexp(logits if allowed is None else logits[list(allowed)], dim=0)
            gaps.append(abs((logits[sample.tokens[position]] - total).item() - found))
    assert sum(gaps) / len(gaps) < 0.02
    assert max(gaps) < 0.3


def test_logits_are_float32_from_bfloat16_factors() -> None:
    learner, samples = learner_of(), samples_of(8)
    partitions = partition(samples, 100_000, 16)
    (batch,) = iter_micro_batches(samples, Weight.TURN, partitions, 16)
    there = batch.to(DEVICE)
    with torch.no_grad():
        hidden_ND = learner._policy.hidden(there)
        found_N, _ = learner._policy.read(hidden_ND, there)
        exact_NV = hidden_ND.double() @ learner.model.lm_head.weight.double().T
    for row in there.free_M.tolist()[:20]:
        exact = exact_NV[row].log_softmax(0)[there.targets_N[row]].item()
        assert found_N[row].item() == pytest.approx(exact, abs=1e-3)
    for row in there.chosen_M.tolist()[:20]:
        ids = [number for number in there.allowed_NK[row].tolist() if number >= 0]
        exact = (exact_NV[row, there.targets_N[row]] - exact_NV[row, ids].logsumexp(0)).item()
        assert found_N[row].item() == pytest.approx(exact, abs=1e-3)


def test_attention_takes_the_flash_kernel_forward_and_backward() -> None:
    learner = learner_of()
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):  # any other kernel is an error in here
        report = learner.update(samples_of())
    assert report["learner/grad_norm"] > 0


def test_compiled_layers_learn_as_plain_ones_and_new_lengths_need_no_new_compilation() -> None:
    torch._dynamo.reset()
    plain, compiled = learner_of(), learner_of("learner.compile=true")
    start = master_weights(plain)
    samples = as_sampled(plain, samples_of(), 1.0)
    one, other = plain.update(samples), compiled.update(samples)
    assert other["learner/grad_norm"] == pytest.approx(one["learner/grad_norm"], rel=0.05)
    assert other["entropy/play"] == pytest.approx(one["entropy/play"], abs=0.01)
    assert other["gap/mean_difference"] < 0.02
    assert torch.cosine_similarity(moved(plain, start), moved(compiled, start), dim=0) > 0.9
    num_graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for length in (90, 140, 205, 260):
        compiled.update(samples_of(10, length))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == num_graphs
    torch._dynamo.reset()


def test_checkpointed_compiled_layers_keep_less_and_learn_the_same() -> None:
    torch._dynamo.reset()
    plain = learner_of()
    sparing = learner_of("learner.compile=true", "learner.gradient_checkpointing=true")
    samples = samples_of(96)
    one, other = plain.update(samples), sparing.update(samples)
    assert other["learner/grad_norm"] == pytest.approx(one["learner/grad_norm"], rel=0.05)
    peaks = [peak(learner, samples) for learner in (plain, sparing)]
    assert peaks[1] < 0.8 * peaks[0]
    torch._dynamo.reset()


def peak(learner: LocalLearner, samples: Sequence[Sample]) -> int:
    """Bytes that an update takes beyond what was there before."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    learner.update(samples)
    return torch.cuda.max_memory_allocated() - before


def test_when_memory_runs_out_the_step_begins_again_with_half() -> None:
    samples = samples_of(128, 500)  # about 80,000 tokens: gigabytes of activations
    learner, halved = learner_of("learner.token_budget=1000000"), learner_of("learner.token_budget=50000")
    start = master_weights(learner)
    room = peak(halved, samples)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 1.4 * room) / total)
    try:
        with pytest.warns(UserWarning, match="out of memory"):
            report = learner.update(samples)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert report["learner/out_of_memory"] == 1.0
    assert report["learner/token_budget"] < 60_000
    assert report["learner/tokens"] == sum(len(s.tokens) for s in samples)
    assert torch.cosine_similarity(moved(learner, start), moved(halved, start), dim=0) > 0.9


@pytest.mark.parametrize("left_gib", [2.0, 6.0])
def test_an_automatic_budget_fills_what_is_left_and_learns_the_same(left_gib: float) -> None:
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    others = total - free - torch.cuda.memory_reserved()
    if others > 2 * 2**30:  # this test fills the card, which would end what else runs on it
        pytest.skip(f"needs the card alone: {others / 2**30:.1f} GiB of it are taken")
    samples = samples_of(512, 500)  # about 400,000 positions: more than fits
    auto, fixed = learner_of("learner.token_budget=auto"), learner_of("learner.token_budget=4096")
    start = master_weights(auto)
    for learner in (auto, fixed):
        learner.update(samples)  # makes the optimizer's moments
    torch.cuda.empty_cache()
    ballast = torch.empty(torch.cuda.mem_get_info()[0] - int(left_gib * 2**30), dtype=torch.uint8, device=DEVICE)
    try:
        reports = [auto.update(samples) for _ in range(7)]
        free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        taken = peak(auto, samples)
        for _ in range(8):
            fixed.update(samples)
    finally:
        del ballast
        torch.cuda.empty_cache()
    budgets = [report["learner/token_budget"] for report in reports]
    print(f"{left_gib} GiB left: budgets {budgets}, {taken / 2**30:.2f} of {free / 2**30:.2f} GiB taken")
    assert not any("learner/out_of_memory" in report for report in reports)
    assert budgets[0] == 4096 < budgets[-1]
    assert budgets[-1] == budgets[-2], "it stays where it is"
    assert 0.5 * free < taken < 0.95 * free
    assert torch.cosine_similarity(moved(auto, start), moved(fixed, start), dim=0) > 0.9


def test_memory_stays_flat() -> None:
    learner = learner_of("learner.token_budget=4096", with_values=True)
    allocated, reserved = [], []
    for number in range(30):
        samples = samples_of(24, 100 + 10 * (number % 5))
        learner.update(samples)
        learner.values(samples)
        torch.cuda.synchronize()
        allocated.append(torch.cuda.memory_allocated())
        reserved.append(torch.cuda.memory_reserved())
    assert max(allocated[10:]) - min(allocated[10:]) < 2**20
    assert reserved[-1] <= 1.05 * max(reserved[:10])


def test_weights_stay_where_they_are_and_are_the_masters_rounded() -> None:
    learner = learner_of()
    places = {name: tensor.data_ptr() for name, tensor in learner.weights().merged().items()}
    learner.update(samples_of())
    assert {name: tensor.data_ptr() for name, tensor in learner.weights().merged().items()} == places
    for name, master in master_weights(learner).items():
        assert torch.equal(learner.weights().merged()[name.removeprefix("master/")], master.bfloat16())


def test_a_state_that_went_through_the_cpu_goes_on() -> None:
    learner, other = learner_of(with_values=True), learner_of(with_values=True)
    samples = samples_of()
    learner.update(samples)
    state = learner.state()
    weights, tensors = ({name: tensor.cpu() for name, tensor in x.items()} for x in (state.weights, state.tensors))
    other.restore(LearnerState(weights, tensors, state.numbers))
    for name, tensor in learner.state().tensors.items():
        assert torch.equal(tensor, other.state().tensors[name]), name
    one, two = learner.update(samples), other.update(samples)
    assert one["learner/loss"] == pytest.approx(two["learner/loss"], abs=1e-3)
    assert one["learner/grad_norm"] == pytest.approx(two["learner/grad_norm"], rel=0.02)


def test_an_adapter_learns_and_its_merged_weights_play_alike() -> None:
    pytest.importorskip("peft")
    torch._dynamo.reset()
    how = ("learner.lora_rank=8", "learner.divergence=k3", "learner.divergence_weight=0.0", "learner.compile=true")
    learner = learner_of(*how, "learner.lr=0.01")
    samples = as_sampled(learner, samples_of(), 1.0)
    first = learner.update(samples)
    assert first["learner/kl"] == pytest.approx(0.0, abs=1e-3)
    for _ in range(3):
        last = learner.update(samples)
    assert last["learner/kl"] > 1e-3
    assert last["learner/loss"] < first["learner/loss"]
    merged = learner_of()
    merged.model.load_state_dict(learner.weights().merged())
    gaps_N = torch.cat(logprobs(merged, samples)) - torch.cat(logprobs(learner, samples))
    assert gaps_N.abs().mean() < 0.03
    torch._dynamo.reset()
