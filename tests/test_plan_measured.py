"""The constants of `mage plan` are what the benchmark pages say, and they agree with each other."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from mage.config.load import load_config
from mage.planning.learner_memory import measured_activation_bytes
from mage.planning.measured import Learning, Playing, measured
from mage.planning.plan import plan
from mage.planning.speed import solved
from mage.planning.trial_tokens import count_trial_tokens
from tests.tree import ROOT

CASES = measured().learning


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def row_of(name: str, first: str, section: str = "") -> list[str]:
    """The cells of the only row of a page, or of a section, that begins with a text; without marks and thousands."""
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", page(name), re.M | re.S) if section else [page(name)]
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {first} |")]
    return [re.sub(r"[*,]", "", cell).strip() for cell in line.strip("| ").split("|")][1:]


def result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page(f"benchmarks/results/{name}.json"))
    return found


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.case)
def test_updates_are_those_of_the_page_and_of_its_results(one: Learning) -> None:
    speed, _, tflops, peak = row_of(one.page, one.row)
    assert (float(speed), float(tflops), float(peak)) == (one.tokens_per_s, one.tflops, one.peak_gib)
    case = result("learner_speed")["cases"][one.case]
    assert case["token_budget"] == one.token_budget
    assert round(case["tokens_per_s"]) == one.tokens_per_s
    trials = {65536: 512, 32768: 256}.get(one.token_budget, 64)
    assert round(case["tokens"] / trials) == one.sample_tokens
    assert round(case["trained_tokens"] / trials) == (one.free_tokens or 9), "or nine choices"
    assert ("LoRA 16" in one.row, "compiled" in one.row) == (one.lora_rank == 16, one.compiled)
    assert one.row.lower().startswith(one.shape)


@pytest.mark.parametrize("one", measured().playing, ids=lambda one: one.row)
def test_rollouts_are_those_of_the_page(one: Playing) -> None:
    (table,) = [text for text in page(one.page).split("\n\n") if f"| {one.row} |" in text]
    heads, _, *rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table.splitlines()]
    cells = {row[0]: row[heads.index(one.row)] for row in rows}
    assert float(cells["trials with choices"]) == one.choice_s
    assert float(cells[f"trials with texts of {measured().played.answer_tokens} tokens"]) == one.text_s
    assert f", {one.trials}, ours" in one.row
    assert ("LoRA" in one.row) is (one.lora_rank > 0)
    assert one.row.lower().startswith(one.shape)


def test_the_tokens_of_trials_are_those_of_the_results() -> None:
    played, found = measured().played, result("engine_speed")
    for kind in ("choice", "text"):
        ours = found[f"rollout, {kind}"]["ours"]
        assert ours["tokens"] == getattr(played, f"{kind}_tokens")
        assert ours["counters"]["sampled"] == getattr(played, f"{kind}_sampled")
        assert found[f"rollout, {kind}"]["trials"] == played.trials
    assert played.choice_sampled == played.trials * played.answers


def test_the_demo_and_the_workers_are_those_of_their_pages() -> None:
    text, step = page(measured().cpu_step.page), measured().cpu_step
    for told in (
        f"{step.trials} trials and {step.tokens:,} tokens",
        f"{step.update_s} s with two",
        f"takes {step.play_s} s",
    ):
        assert told in text, told
    assert row_of(measured().worker.page, "of which messages and Ray")[0].startswith(f"{measured().worker.trial_ms} ")
    assert "two cores of a xeon at 2.5 ghz" in text.lower()


def test_ranks_were_not_timed() -> None:
    """Where they are, the plan should use it."""
    assert "Not measured: time" in page("benchmarks/ranks.md")


def test_the_bytes_of_a_trial_are_counted() -> None:
    assert count_trial_tokens(load_config("rps"), 1.0).total == pytest.approx(measured().text.trial_bytes, abs=1)
    assert measured().bytes_per_token(is_nano=False) < measured().bytes_per_token(is_nano=True)


def test_the_two_rollouts_are_reproduced_from_the_two_speeds() -> None:
    played = measured().played
    for one in measured().playing:
        reading, generation = solved(one)
        for seconds, (read, sampled) in (
            (one.choice_s, played.choice(one.trials)),
            (one.text_s, played.text(one.trials)),
        ):
            assert read / reading + sampled / generation == pytest.approx(seconds)


@pytest.mark.parametrize("one", measured().playing, ids=lambda one: one.row)
def test_generation_alone_was_as_fast(one: Playing) -> None:
    """Prompts of 170 tokens with 64 new ones, a measurement that the speeds are not made from."""
    (table,) = [text for text in page(one.page).split("\n\n") if f"| {one.row} |" in text]
    heads, _, first, *_ = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table.splitlines()]
    reading, generation = solved(one)
    expected = one.trials * (170 / reading + 64 / generation)
    assert first[0] == "generation with log-probabilities"
    assert 0.6 < float(first[heads.index(one.row)]) / expected < 1.1


def test_peaks_of_models_of_different_sizes_agree() -> None:
    """Bytes of activations for each number of a layer: alike where layers are compiled, and where LoRA is trained."""
    by_kind: dict[tuple[bool, bool], list[float]] = {}
    for one in CASES:
        by_kind.setdefault((one.lora_rank > 0, one.compiled), []).append(measured_activation_bytes(one))
    assert {len(found) for found in by_kind.values()} == {1, 2, 3}
    for found in by_kind.values():
        assert max(found) / min(found) < 1.2, "layers of Qwen2 have no norms of queries and keys"
        assert 2 < min(found) <= max(found) < 4, "a number of two bytes, some of them twice or in float32"


QWEN = ["batch.groups=32", "agent.slots=256"]
"""256 trials at once, with LoRA of rank 16: as they were measured."""


@pytest.mark.parametrize(
    ("recipe", "overrides", "gpus", "source"),
    [
        ("rps+smollm2", [], 1, ""),
        ("rps+smollm2", ["dtype=float32"], 1, "in bfloat16"),
        ("rps+smollm2", ["engine=vllm"], 1, "SmolLM2-135M, 512, ours"),
        (
            "rps+smollm2",
            ["rollout.workers=2", "rollout.gpus=1", "agent.slots=512", "rollout.chunk=512"],
            2,
            "2 workers",
        ),
        ("rps+qwen2.5-1.5b", QWEN, 1, ""),
        ("rps+qwen2.5-1.5b", [*QWEN, "learner.lora_rank=64"], 1, "LoRA, 256, ours, of rank 16"),
        (
            "rps+qwen2.5-1.5b",
            [*QWEN, "agent.slots=128"],
            1,
            "a pass of 128 rows is taken to last as long as one of 256",
        ),
        (
            "rps+qwen2.5-1.5b",
            ["batch.groups=128", "agent.slots=1024"],
            1,
            "with 1024 rows a pass is taken to be no faster",
        ),
        ("rps+qwen3-4b", [], 1, "as much slower with adapters as Qwen2.5-1.5B, LoRA"),
        ("rps", [], 0, ""),
        ("rps", ["engine=vllm", "agent.model=nano(heads=2)"], 0, "a step of rps with nano"),
    ],
)
def test_play_is_called_measured_where_it_was(recipe: str, overrides: list[str], gpus: int, source: str) -> None:
    model = recipe.partition("+")[2]
    found = plan(recipe, overrides, model=model if model.startswith("qwen2") else None, gpus=gpus, gib=139)
    (generation,) = (one for one in found.rates if one.name.startswith("generation"))
    assert generation.basis == ("extrapolated" if source else "measured")
    assert source in generation.source
