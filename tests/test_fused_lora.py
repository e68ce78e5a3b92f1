"""A linear layer with its adapter as one operation: the same numbers and gradients as PEFT's layer, in fewer steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft.tuners.lora import Linear, LoraConfig
from torch import Tensor

from mage.learners.fused_lora import FusedLoraLinear
from mage.learners.local import LocalLearner
from tests.made import made_model, made_settings

IN, OUT, RANK = 12, 20, 4


def layer_of(kind: type[Linear], dtype: torch.dtype, *, bias: bool = True) -> Any:
    """A layer of PEFT's with random matrices, B included, and the given forward pass."""
    torch.manual_seed(0)
    base = torch.nn.Linear(IN, OUT, bias=bias).requires_grad_(False)
    layer: Any = Linear(base, "default", LoraConfig(), r=RANK, lora_alpha=3 * RANK)
    torch.nn.init.normal_(layer.lora_B["default"].weight)
    layer.__class__ = kind
    return layer.to(dtype)


def passed(layer: Any, x: Tensor) -> dict[str, Tensor]:
    """The output, and the gradients of the input and of both matrices."""
    x = x.clone().requires_grad_(True)
    y = layer(x)
    weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(y)
    (y * weights).sum().backward()
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    return {"y": y.detach(), "x": x.grad, "a": a.grad, "b": b.grad}


@pytest.mark.parametrize("shape", [(7, IN), (2, 3, IN)], ids=["rows", "batch"])
@pytest.mark.parametrize("bias", [True, False])
def test_it_computes_what_pefts_layer_does(shape: tuple[int, ...], bias: bool) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = passed(layer_of(FusedLoraLinear, torch.float64, bias=bias), x)
    expected = passed(layer_of(Linear, torch.float64, bias=bias), x)
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-12, atol=1e-12)


def test_in_bfloat16_it_is_no_further_from_the_truth() -> None:
    x = torch.randn(512, IN, generator=torch.Generator().manual_seed(1)).bfloat16()
    truth = layer_of(Linear, torch.bfloat16).double()(x.double())
    ours, pefts = (layer_of(kind, torch.bfloat16)(x).double() - truth for kind in (FusedLoraLinear, Linear))
    assert ours.square().mean() < pefts.square().mean()


def test_disabled_it_is_the_frozen_layer() -> None:
    layer = layer_of(FusedLoraLinear, torch.float32)
    x = torch.ones(2, IN)
    layer.enable_adapters(False)
    assert torch.equal(layer(x), layer.base_layer(x))
    layer.enable_adapters(True)
    assert not torch.equal(layer(x), layer.base_layer(x))


def test_every_layer_with_an_adapter_is_one() -> None:
    learner = LocalLearner(made_model(), made_settings("learner.lora_rank=4"))
    adapted = [module for module in learner.model.modules() if isinstance(module, Linear)]
    assert adapted
    assert all(isinstance(module, FusedLoraLinear) for module in adapted)
