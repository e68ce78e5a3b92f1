"""Compiled layers: one compilation for all layers and lengths, and the same numbers."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from mage.errors import ConfigError
from mage.learners.forward import PolicyModel, compile_layers, is_compiled
from mage.learners.local import LocalLearner
from tests.made import made_model, made_samples, made_settings


def test_auto_compiles_on_cuda_alone() -> None:
    assert not is_compiled("auto", torch.device("cpu"))
    assert is_compiled(True, torch.device("cpu"))
    assert not is_compiled(False, torch.device("cuda"))


@pytest.mark.parametrize(
    ("overrides", "most"),
    [
        pytest.param((), 2, id="full"),
        pytest.param(("learner.lora_rank=4", "learner.divergence=k3"), 4, id="lora", marks=pytest.mark.slow),
    ],
)
def test_layers_of_any_number_and_length_are_compiled_once_and_learn_the_same(
    overrides: tuple[str, ...], most: int
) -> None:
    """Traced as on CUDA; what the trace is compiled to is the backend's matter. A reference without adapter is too."""
    torch._dynamo.reset()
    settings = made_settings("learner.lr=0.01", *overrides)
    plain, traced = (LocalLearner(made_model(num_hidden_layers=3), settings) for _ in range(2))
    counter = CompileCounterWithBackend("aot_eager")
    compile_layers(traced.model, backend=counter)
    for one, other in zip(traced.evaluate_tokens(made_samples(1)), plain.evaluate_tokens(made_samples(1)), strict=True):
        assert [list(token) for token in one] == [pytest.approx(token, abs=1e-6) for token in other]
    assert counter.frame_count == 0, "a few samples are read without compiling anything"
    for num, length in ((6, 24), (4, 30)):
        batch = made_samples(num, length)
        assert traced.update(batch) == pytest.approx(plain.update(batch), abs=1e-5)
    for name, tensor in plain.weights().merged().items():
        torch.testing.assert_close(traced.weights().merged()[name], tensor, atol=1e-5, rtol=1e-5)
    num_graphs = counter.frame_count
    assert 1 <= num_graphs <= most, "layers share it"
    for num, length in ((5, 40), (2, 50), (3, 61)):
        traced.update(made_samples(num, length))
    assert counter.frame_count == num_graphs, "new lengths need no new compilation"
    torch._dynamo.reset()


def test_what_has_no_layers_cannot_be_compiled() -> None:
    model = made_model()
    del model.model.layers
    with pytest.raises(ConfigError, match=r"learner\.compile = true: LlamaForCausalLM has no decoder layers"):
        compile_layers(model)


def test_layers_are_left_alone_unless_told() -> None:
    model = made_model()
    PolicyModel(model, 1.0, compiled=False)
    assert all(layer._compiled_call_impl is None for layer in model.model.layers)
    PolicyModel(model, 1.0, compiled=True)
    assert all(layer._compiled_call_impl is not None for layer in model.model.layers)
