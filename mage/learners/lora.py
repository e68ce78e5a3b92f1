"""LoRA adapters, by PEFT and in PEFT's file format.

The adapter computes in the model's dtype; the learner keeps float32 master weights of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from mage.config.sections import LearnerConfig
from mage.errors import ConfigError
from mage.extras import require
from mage.learners.load_weights import LearnError
from mage.learners.lora_init import ADAPTER_FILE, check_lora_init, load_lora_init
from mage.seeds import stream
from mage.weights import LowRank, PolicyWeights

ALL_LINEAR = "all-linear"
"""Every linear layer but the head."""
_NAME = "default"
_PREFIX = "base_model.model."
"""What PEFT puts before the names of modules in its files."""


class Adapter:
    """An adapter in a model's linear layers. The model is changed in place, and its own weights are frozen."""

    def __init__(
        self, model: Any, *, rank: int, alpha: int, targets: str | tuple[str, ...], seed: int, init: str = ""
    ) -> None:
        """`init` is the directory of an adapter to begin with."""
        self._model = model
        self._config = _inject(model, rank, alpha or 2 * rank, targets)
        from mage.learners.fused_lora import FusedLoraLinear  # here, because `_inject` says what to do without PEFT

        self._layers: dict[str, Any] = {n: m for n, m in model.named_modules() if hasattr(m, "lora_A")}
        embeddings = model.get_input_embeddings()
        for name, layer in self._layers.items():
            if not isinstance(layer.base_layer, torch.nn.Linear):
                kind = type(layer.base_layer).__name__
                raise ConfigError(f"learner.lora_targets: {name} is a layer of the kind {kind}; name linear layers")
            if layer.base_layer.weight is embeddings.weight:
                raise ConfigError(f"learner.lora_targets: {name} shares its weight with the embeddings; name others")
            layer.__class__ = FusedLoraLinear
            _initialise(layer, stream(seed, "lora", name).getrandbits(63))
        if init:
            self._begin_with(init)
        embeddings.register_forward_hook(_ask_for_gradient)

    @torch.no_grad()
    def _begin_with(self, folder: str) -> None:
        """Take the matrices of an adapter in a directory."""
        tensors, own = load_lora_init(folder), self.state()
        try:
            self.by_parameter(tensors)
        except LearnError as error:
            raise ConfigError(f"learner.lora_init = {folder}: {error}") from None
        for name, tensor in tensors.items():
            own[name].copy_(tensor)

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """Disable the adapter: the model is then the reference of the divergence penalty."""
        for layer in self._layers.values():
            layer.enable_adapters(False)
        try:
            yield
        finally:
            for layer in self._layers.values():
                layer.enable_adapters(True)

    def factors(self, tensors: Mapping[str, Tensor]) -> dict[str, LowRank]:
        """The matrices of a `state` by the names of their modules."""
        return {
            name: LowRank(tensors[_file_name(name, "A")], tensors[_file_name(name, "B")], float(layer.scaling[_NAME]))
            for name, layer in self._layers.items()
        }

    def base(self) -> dict[str, Tensor]:
        """All weights of the model by their own names, without the adapter."""
        return {
            name.replace(".base_layer.", "."): tensor
            for name, tensor in self._model.state_dict().items()
            if ".lora_" not in name
        }

    def weights(self, tensors: Mapping[str, Tensor] | None = None) -> PolicyWeights:
        """The base and the adapter, or that of `tensors`, another `state`."""
        return PolicyWeights(self.base(), self.factors(self.state() if tensors is None else tensors))

    def state(self) -> dict[str, Tensor]:
        """The adapter's tensors by the names of PEFT's files."""
        return {
            _file_name(name, letter): matrices[_NAME].weight.detach()
            for name, layer in self._layers.items()
            for letter, matrices in (("A", layer.lora_A), ("B", layer.lora_B))
        }

    def by_parameter(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors by PEFT's file names, checked, as tensors by the names of the model's parameters."""
        own = self.state()
        different = sorted(set(own) ^ set(tensors))
        if different:
            raise LearnError(f"the adapter does not fit: {different[0]} is on one side only")
        for name, tensor in tensors.items():
            if tensor.shape != own[name].shape:
                found, needed = tuple(tensor.shape), tuple(own[name].shape)
                raise LearnError(f"the adapter does not fit: {name} has shape {found}, not {needed}")
        return {
            name.removeprefix(_PREFIX).removesuffix("weight") + f"{_NAME}.weight": tensor
            for name, tensor in tensors.items()
        }

    def save(self, folder: Path, base: str, tensors: Mapping[str, Tensor] | None = None) -> None:
        """Write the adapter, or that of `tensors`, as PEFT does, with the name of the model it belongs to."""
        written = self.state() if tensors is None else tensors
        save_file({name: tensor.contiguous() for name, tensor in written.items()}, folder / ADAPTER_FILE)
        self._config.base_model_name_or_path = base
        self._config.save_pretrained(folder)


def new_adapter(model: Any, config: LearnerConfig, seed: int) -> Adapter | None:
    """The adapter that a config asks for; None where the whole model is trained."""
    if config.lora_rank == 0:
        return None
    # Ranks without weights get them from the first one, and may be on a machine without these files.
    init = "" if model.get_input_embeddings().weight.is_meta else config.lora_init
    if init:
        check_lora_init(config)
    return Adapter(
        model, rank=config.lora_rank, alpha=config.lora_alpha, targets=config.lora_targets, seed=seed, init=init
    )


def _file_name(module: str, letter: str) -> str:
    """The name of a module's matrix in PEFT's files."""
    return f"{_PREFIX}{module}.lora_{letter}.weight"


def _inject(model: Any, rank: int, alpha: int, targets: str | tuple[str, ...]) -> Any:
    """Add adapter layers to the model; return their PEFT config."""
    require("lora", f"learner.lora_rank = {rank} needs")
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules=targets if isinstance(targets, str) else list(targets),
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
        inference_mode=False,
    )
    device = next(model.parameters()).device
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            made = get_peft_model(model, config, autocast_adapter_dtype=False)
    except ValueError as error:
        named = targets if isinstance(targets, str) else ", ".join(targets)
        linear = sorted({n.rsplit(".", 1)[-1] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)})
        why = f"{str(error).splitlines()[0]}; {ALL_LINEAR}, or some of {', '.join(linear)}"
        raise ConfigError(f"learner.lora_targets = {named}: {why}") from None
    written: Any = made.peft_config[_NAME]
    written.target_modules = sorted(written.target_modules)
    written.inference_mode = True  # as PEFT writes it: the file is for inference
    return written


def _ask_for_gradient(module: torch.nn.Module, inputs: object, embedded: Tensor) -> None:
    """Make the first layer's input require a gradient like the others', so that one compilation serves all layers."""
    if torch.is_grad_enabled():
        embedded.requires_grad_(True)


@torch.no_grad()
def _initialise(layer: Any, seed: int) -> None:
    """PEFT's initialisation from a seeded stream. B is zero, so that a new adapter changes nothing."""
    a_RI = layer.lora_A[_NAME].weight
    bound = 1.0 / math.sqrt(a_RI.shape[1])
    drawn_RI = torch.empty(a_RI.shape).uniform_(-bound, bound, generator=torch.Generator().manual_seed(seed))
    a_RI.copy_(drawn_RI)
    layer.lora_B[_NAME].weight.zero_()
