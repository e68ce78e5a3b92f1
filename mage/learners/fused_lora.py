"""A linear layer with its LoRA adapter as one operation.

PEFT multiplies, scales and adds in steps of their own, each of which writes a tensor as wide as the output. Here
the product with B adds to the output in place, as it does in the engine, with one rounding less.
"""

from __future__ import annotations

from typing import Any

import torch
from peft.tuners.lora import Linear
from torch import Tensor
from torch.nn import functional


class FusedLoraLinear(Linear):
    """PEFT's layer with another forward pass: one adapter, no dropout, nothing merged."""

    def forward(self, x: Tensor) -> Tensor:
        """The output of the frozen layer and, unless it is disabled, of the adapter."""
        if self.disable_adapters:
            output: Tensor = self.base_layer(x)
            return output
        (name,) = self.active_adapters
        a_RI, b_OR = self.lora_A[name].weight, self.lora_B[name].weight
        fused: Tensor = _LowRankLinear.apply(  # type: ignore[no-untyped-call]
            x, self.base_layer.weight, self.base_layer.bias, a_RI, b_OR, self.scaling[name]
        )
        return fused


class _LowRankLinear(torch.autograd.Function):
    """x W' + bias + scaling (x A') B', with W and the bias frozen."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight_OI: Tensor, bias_O: Tensor | None, a_RI: Tensor, b_OR: Tensor, scaling: float
    ) -> Tensor:
        x_TI = x.flatten(0, -2)
        inner_TR = functional.linear(x_TI, a_RI)
        y_TO = functional.linear(x_TI, weight_OI, bias_O).addmm_(inner_TR, b_OR.t(), alpha=scaling)
        ctx.save_for_backward(x_TI, inner_TR, weight_OI, a_RI, b_OR)
        ctx.scaling = scaling
        ctx.shape = x.shape
        return y_TO.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x_TI, inner_TR, weight_OI, a_RI, b_OR = ctx.saved_tensors
        gradient_TO = gradient.flatten(0, -2)
        gradient_TR = (gradient_TO @ b_OR).mul_(ctx.scaling)
        gradient_x = (gradient_TO @ weight_OI).addmm_(gradient_TR, a_RI).view(ctx.shape)
        gradient_a = gradient_TR.t() @ x_TI
        gradient_b = (gradient_TO.t() @ inner_TR).mul_(ctx.scaling)
        return gradient_x, None, None, gradient_a, gradient_b, None
