"""Files for vLLM: a model whose head is not tied, weights alone, and adapters as PEFT writes them."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory, gettempdir

from safetensors.torch import save_file
from torch import Tensor

from mage.cache import cache_directory
from mage.models.load import LoadedModel
from mage.weights import LowRank

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM makes room for."""


def write_config(folder: Path, loaded: LoadedModel) -> None:
    """Write the config of a model with a head of its own.

    Where a head is tied, vLLM leaves it as it was when weights are loaded again, without an error.
    """
    config = copy.deepcopy(loaded.model.config)
    config.tie_word_embeddings = False
    config.architectures = [type(loaded.model).__name__]
    config.save_pretrained(folder)


def kept_config(loaded: LoadedModel) -> Path:
    """A folder with the config of a model, as `write_config` writes it; the same each time for the same config.

    It is in the cache, or where that cannot be written, in the user's folder for temporary files.
    """
    with TemporaryDirectory(prefix="mage-vllm-") as scratch:
        write_config(Path(scratch), loaded)
        config = (Path(scratch) / "config.json").read_bytes()
    name = hashlib.sha256(config).hexdigest()[:16]
    try:
        return _with_config(cache_directory() / "vllm" / name, config)
    except OSError:
        return _with_config(Path(gettempdir()) / f"mage-vllm-{os.getuid()}" / name, config)


def _with_config(folder: Path, config: bytes) -> Path:
    """A folder that holds a config; another process may write the same one meanwhile."""
    path = folder / "config.json"
    if not path.is_file() or path.read_bytes() != config:
        folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=folder, delete=False) as scratch:
            scratch.write(config)
        Path(scratch.name).replace(path)
    return folder


def write_model(folder: Path, loaded: LoadedModel) -> None:
    """Write a model with a head of its own and its tokenizer, for a server."""
    write_config(folder, loaded)
    write_weights(folder, loaded.model.state_dict())
    loaded.tokenizer.save_pretrained(folder)


def write_weights(folder: Path, weights: Mapping[str, Tensor]) -> Path:
    """Write weights by the names of a state dict, tied ones under each name, to a file."""
    folder.mkdir(parents=True, exist_ok=True)
    copied = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in weights.items()}
    path = folder / "model.safetensors"
    save_file(copied, path, {"format": "pt"})
    return path


def write_adapter(folder: Path, factors: Mapping[str, LowRank]) -> None:
    """Write an adapter in PEFT's layout; the scaling is in the second matrix, so `lora_alpha` is the rank."""
    folder.mkdir(parents=True)
    tensors: dict[str, Tensor] = {}
    for name, (a_RI, b_OR, scaling) in factors.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = a_RI.detach().to("cpu", copy=True).contiguous()
        tensors[f"base_model.model.{name}.lora_B.weight"] = (scaling * b_OR.detach()).to("cpu").contiguous()
    rank = max(len(factor.a_RI) for factor in factors.values())
    config = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": rank,
        "bias": "none",
        "target_modules": sorted({name.rpartition(".")[2] for name in factors}),
    }
    save_file(tensors, folder / "adapter_model.safetensors", {"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps(config))


def room_for(rank: int) -> int | None:
    """The smallest rank of vLLM's that an adapter fits into; None where it has none.

    >>> room_for(4), room_for(64), room_for(1000)
    (8, 64, None)
    """
    return next((given for given in RANKS if rank <= given), None)
