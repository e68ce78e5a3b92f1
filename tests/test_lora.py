"""LoRA: the adapter learns, its base stays, engines and PEFT play what was learned."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch import Tensor

from mage.errors import ConfigError, RecordError
from mage.learners.local import LearnError, LocalLearner, load_weights
from mage.protocols import ScoringEngine
from mage.training.checkpoint import load_checkpoint, save_checkpoint
from mage.training.model_card import model_card
from mage.training.parts import Parts
from mage.weights import PolicyWeights
from tests.made import made_model, made_samples, made_settings
from tests.test_checkpoint import state
from tests.tiny import logprobs, model_of, samples_of, sharpen, tiny_parts, with_advantage

LORA = ("learner.lora_rank=4", "learner.lr=0.01")
DTYPES = [torch.float32, torch.bfloat16]


def learner_of(*overrides: str, dtype: torch.dtype = torch.float32, with_values: bool = False) -> LocalLearner:
    return LocalLearner(made_model(dtype), made_settings(*LORA, *overrides), with_values=with_values)


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def saved(learner: LocalLearner, folder: Path) -> dict[str, Tensor]:
    folder.mkdir(parents=True)
    learner.save(folder, "made")
    return load_file(folder / learner.weights_file)


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_the_adapter_learns(dtype: torch.dtype) -> None:
    learner, samples = learner_of(dtype=dtype), made_samples()
    base = copied({n: t for n, t in learner.model.state_dict().items() if ".lora_" not in n})
    before = copied(learner.weights().merged())
    assert all(torch.equal(t, made_model(dtype).state_dict()[n]) for n, t in before.items()), "at first it is the base"
    pushed = with_advantage(samples[0], 1.0)
    start = sum(logprobs(learner, pushed)[0])
    learner.update([pushed])
    assert sum(logprobs(learner, pushed)[0]) > start + 0.01
    assert all(torch.equal(learner.model.state_dict()[name], tensor) for name, tensor in base.items())
    changed = {name for name, tensor in learner.weights().merged().items() if not torch.equal(tensor, before[name])}
    assert changed == {f"{name}.weight" for name in learner.weights().adapter}
    assert len(changed) == 2 * 7, "all linear layers but the head"


@pytest.mark.parametrize("dtype", DTYPES)
def test_masters_stand_behind_the_adapter_alone(dtype: torch.dtype) -> None:
    learner = learner_of("learner.lr=1e-7", dtype=dtype)
    learner.update(made_samples())
    behind = {name: t for name, t in learner.state().tensors.items() if name.startswith("master/")}
    assert len(behind) == (0 if dtype is torch.float32 else 2 * 14)
    assert all(".lora_" in name and tensor.dtype is torch.float32 for name, tensor in behind.items())
    assert all(factors.a_RI.dtype is dtype for factors in learner.weights().adapter.values())


def test_merged_weights_and_factors_say_what_the_learner_says() -> None:
    learner, samples = learner_of("learner.lora_alpha=6"), made_samples()
    for _ in range(3):
        learner.update(samples)
    base, merged = made_model(), made_model()
    load_weights(merged, learner.weights().merged())
    whole = LocalLearner(merged, made_settings())
    for sample in samples:
        assert logprobs(whole, sample)[0] == pytest.approx(logprobs(learner, sample)[0], abs=1e-5)
    for name, (a_RI, b_OR, scaling) in learner.weights().adapter.items():
        assert scaling == 6 / 4
        assert a_RI.shape[0] == b_OR.shape[1] == 4
        weight = base.get_submodule(name).weight + scaling * b_OR @ a_RI
        torch.testing.assert_close(learner.weights().merged()[f"{name}.weight"], weight)
    assert LocalLearner(made_model(), made_settings()).weights().adapter == {}


def test_scaling_is_two_unless_told_otherwise() -> None:
    assert {factors.scaling for factors in learner_of().weights().adapter.values()} == {2.0}


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_reference_is_the_base_without_a_second_copy(dtype: torch.dtype) -> None:
    how = ("learner.divergence=k3", "learner.divergence_weight=0.0")
    learner, samples = learner_of(*how, dtype=dtype), made_samples()
    assert learner.update(samples)["learner/kl"] == 0.0
    base = LocalLearner(made_model(dtype), made_settings())
    mine, theirs = logprobs(learner, *samples), logprobs(base, *samples)
    gaps = [t - m for a, b in zip(mine, theirs, strict=True) for m, t in zip(a, b, strict=True)]
    expected = sum(torch.tensor(gaps).exp().sub(1.0).sub(torch.tensor(gaps)).tolist()) / len(gaps)
    assert learner.update(samples)["learner/kl"] == pytest.approx(expected, rel=1e-3 if dtype is torch.float32 else 0.2)
    assert expected > 1e-4


@pytest.mark.parametrize("checkpointing", ["false", "true"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_restored_learner_goes_on_bit_for_bit(dtype: torch.dtype, checkpointing: str, tmp_path: Path) -> None:
    how = ("learner.divergence=k3", "learner.divergence_weight=0.1", f"learner.gradient_checkpointing={checkpointing}")
    samples = made_samples()
    learner, other = (learner_of(*how, dtype=dtype, with_values=True) for _ in range(2))
    for _ in range(2):
        learner.update(samples)
    weights = saved(learner, tmp_path / "one")
    kept = replace(learner.state().copied(), weights=weights)
    other.update(samples[:2])
    other.restore(kept)
    assert other.update(samples) == learner.update(samples)
    again = saved(other, tmp_path / "two")
    assert all(torch.equal(tensor, again[name]) for name, tensor in saved(learner, tmp_path / "three").items())
    assert all(torch.equal(tensor, other.state().tensors[name]) for name, tensor in learner.state().tensors.items())


def test_adapters_are_drawn_from_the_seed_and_nothing_else() -> None:
    settings = [made_settings(*LORA, f"seed={seed}") for seed in (1, 1, 2)]
    models = [made_model() for _ in settings]
    before = torch.random.get_rng_state()
    first, same, other = (LocalLearner(*both).weights().adapter for both in zip(models, settings, strict=True))
    assert torch.equal(torch.random.get_rng_state(), before)
    for name, factors in first.items():
        assert torch.equal(factors.a_RI, same[name].a_RI)
        assert not torch.equal(factors.a_RI, other[name].a_RI)
        assert factors.b_OR.abs().sum() == 0
        assert factors.a_RI.abs().max() <= factors.a_RI.shape[1] ** -0.5
    drawn = [factors.a_RI.flatten()[0].item() for factors in first.values()]
    assert len(set(drawn)) == len(drawn)


def test_some_layers_may_be_chosen_and_others_are_refused() -> None:
    learner = learner_of('learner.lora_targets=["q_proj", "down_proj"]')
    assert {name.rsplit(".", 1)[-1] for name in learner.weights().adapter} == {"q_proj", "down_proj"}
    with pytest.raises(ConfigError, match=r"learner\.lora_targets = nothing: .*all-linear, or some of .*q_proj"):
        learner_of('learner.lora_targets=["nothing"]')
    with pytest.raises(
        ConfigError, match=r"learner\.lora_targets: model\.embed_tokens is a layer of the kind Embedding"
    ):
        learner_of('learner.lora_targets=["embed_tokens"]')
    with pytest.raises(ConfigError, match=r"lm_head shares its weight with the embeddings"):
        learner_of('learner.lora_targets=["lm_head"]')


def test_an_adapter_on_the_head_is_read_too() -> None:
    model = made_model(tie_word_embeddings=False)
    learner = LocalLearner(model, made_settings(*LORA, 'learner.lora_targets=["lm_head"]'))
    for _ in range(3):
        learner.update(made_samples())
    (sample,) = made_samples(1)
    with torch.no_grad():
        logits_TV = learner.model(torch.tensor([sample.tokens])).logits[0]
        bare_TV = model.lm_head.base_layer(learner.model.model(torch.tensor([sample.tokens])).last_hidden_state)[0]
    position = sample.positions[1]
    plain, bare = (x[position - 1].log_softmax(0)[sample.tokens[position]].item() for x in (logits_TV, bare_TV))
    assert logprobs(learner, sample)[0][1] == pytest.approx(plain, abs=1e-5)
    assert abs(plain - bare) > 1e-3


def test_without_peft_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage.extras.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"lora_rank = 4 needs the extra lora: pip install .*\[lora\]'"):
        learner_of()


def test_an_adapter_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    learner = learner_of()
    weights = saved(learner, tmp_path / "one")
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    rest = learner.state()
    with pytest.raises(LearnError, match=rf"{name} is on one side only"):
        learner.restore(replace(rest, weights={n: t for n, t in weights.items() if n != name}))
    with pytest.raises(LearnError, match=rf"{name} has shape \(3, 32\), not \(4, 32\)"):
        learner.restore(replace(rest, weights={**weights, name: torch.zeros(3, 32)}))


@pytest.fixture(scope="module")
def parts() -> Parts:
    """A run with an adapter that has learned one step."""
    made = sharpen(tiny_parts(*LORA))
    made.learner.update(samples_of(made))
    return made


def checkpoint(parts: Parts, folder: Path) -> Path:
    card = model_card(parts.config, 1, parts.loaded.name)
    return save_checkpoint(folder, parts.loaded, parts.learner, state(parts, 1), card, lambda _: None)


def test_engine_and_learner_agree_on_merged_weights(parts: Parts) -> None:
    report = parts.learner.update(samples_of(parts, 1))
    assert report["gap/mean_difference"] < 1e-4
    assert report["gap/outside_0.9_1.1"] == 0.0
    assert report["entropy/play"] < 0.99


def test_a_checkpoint_is_what_peft_loads(parts: Parts, tmp_path: Path) -> None:
    path = checkpoint(parts, tmp_path)
    names = {file.name for file in path.iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "optimizer.safetensors"} <= names
    assert not {"model.safetensors", "config.json"} & names
    written = json.loads((path / "adapter_config.json").read_text(encoding="utf-8"))
    assert written["base_model_name_or_path"] == parts.loaded.name
    assert written["r"] == 4
    assert written["target_modules"] == sorted(written["target_modules"])
    card = (path / "README.md").read_text(encoding="utf-8")
    assert f"library_name: peft\nbase_model: {json.dumps(parts.loaded.name)}\n" in card
    base = model_of(sharpen(tiny_parts()))
    adapted = PeftModel.from_pretrained(base, path).eval()
    ids = torch.tensor([[7, 8, 9, 10, 11]])
    with torch.no_grad():
        torch.testing.assert_close(adapted(ids).logits, model_of(parts).eval()(ids).logits, atol=1e-6, rtol=1e-6)


def test_a_checkpoint_goes_on_exactly(parts: Parts, tmp_path: Path) -> None:
    path = checkpoint(parts, tmp_path)
    other = sharpen(tiny_parts(*LORA))
    assert load_checkpoint(path, other.learner) == state(parts, 1)
    batch = samples_of(parts, 2)
    assert other.learner.update(batch) == parts.learner.update(batch)
    assert all(torch.equal(t, parts.learner.weights().merged()[n]) for n, t in other.learner.weights().merged().items())
    load_checkpoint(path, parts.learner)


def test_checkpoints_with_and_without_an_adapter_are_told_apart(parts: Parts, tmp_path: Path) -> None:
    path = checkpoint(parts, tmp_path / "adapter")
    whole = tiny_parts()
    with pytest.raises(RecordError, match=r"step-000001 has no model\.safetensors .*learner\.lora_rank"):
        load_checkpoint(path, whole.learner)
    other = checkpoint(whole, tmp_path / "whole")
    with pytest.raises(RecordError, match=r"step-000001 has no adapter_model\.safetensors .*learner\.lora_rank"):
        load_checkpoint(other, parts.learner)


def test_in_fewer_bits_the_engine_plays_the_adapter_itself() -> None:
    """Added to bfloat16 weights, an adapter this small would be rounded away."""
    small, whole = (
        sharpen(tiny_parts(*LORA, "learner.lr=1e-4", f"dtype={dtype}")) for dtype in ("bfloat16", "float32")
    )
    assert whole.server.limits.policies is None, "float32 weights can take it"
    assert small.server.limits.policies == 1
    samples = samples_of(small)
    metrics = small.learner.update([with_advantage(sample, 1.0) for sample in samples])
    assert metrics["gap/mean_difference"] < 0.03
    asyncio.run(small.publish(1))
    adapted = asyncio.run(_first_logprobs(small))
    asyncio.run(small.server.publish(small.policy, PolicyWeights(small.learner.weights().model), 1))
    assert asyncio.run(_first_logprobs(small)) != adapted


async def _first_logprobs(parts: Parts) -> tuple[float, ...]:
    chat_format = parts.loaded.chat_format
    assert isinstance(parts.engine, ScoringEngine)
    return await parts.engine.action_logprobs(
        chat_format.opening("Rules."), [chat_format.choice(a) for a in ("rock", "paper")]
    )
