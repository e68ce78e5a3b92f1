"""The adapter that training begins with: a directory in PEFT's layout, as `mage export-model` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mage.config.sections import LearnerConfig
from mage.errors import ConfigError
from mage.files import BAD_JSON
from mage.models.mistaken_paths import ADAPTER_CONFIG, MODEL_CONFIG, newest_with

ADAPTER_FILE = "adapter_model.safetensors"
"""PEFT's name of the file with the weights."""
_PLAIN = {
    "peft_type": "LORA",
    "bias": "none",
    "use_rslora": False,
    "use_dora": False,
    "rank_pattern": {},
    "alpha_pattern": {},
    "modules_to_save": None,
}
"""What PEFT's settings must be where they are given: other adapters compute something else."""


def check_lora_init(config: LearnerConfig) -> None:
    """Raise a ConfigError where `lora_init` is no adapter of the rank and scale that are trained. Reads no tensors."""
    if not config.lora_init:
        return
    key = f"learner.lora_init = {config.lora_init}"
    if not config.lora_rank:
        raise ConfigError(f"{key}: an adapter is only trained with learner.lora_rank; set it to the adapter's rank")
    found = _settings(Path(config.lora_init), key)
    for name, plain in _PLAIN.items():
        if (value := found.get(name, plain)) != plain:
            raise ConfigError(f"{key}: its {name} is {value!r}; only {plain!r} can be trained on")
    alpha = config.lora_alpha or 2 * config.lora_rank
    for name, setting, own in (("r", "rank", config.lora_rank), ("lora_alpha", "alpha", alpha)):
        if found.get(name) != own:
            raise ConfigError(
                f"{key}: its {name} is {found.get(name)!r}, and {own} is trained; set learner.lora_{setting}"
            )
    if not (path := Path(config.lora_init) / ADAPTER_FILE).is_file():
        raise ConfigError(f"{key}: {path} does not exist")


def load_lora_init(folder: str) -> dict[str, Any]:
    """The tensors of the adapter, by PEFT's names."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(folder) / ADAPTER_FILE
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"learner.lora_init = {folder}: {path} cannot be read: {error}") from None


def _settings(folder: Path, key: str) -> dict[str, Any]:
    path = folder / ADAPTER_CONFIG
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"{key}: {_instead(folder)}") from None
    except (OSError, *BAD_JSON) as error:
        raise ConfigError(f"{key}: {path} cannot be read: {error}") from None


def _instead(folder: Path) -> str:
    """What a path without an adapter is, and what to name in its place."""
    checkpoint = newest_with(folder, ADAPTER_CONFIG)
    if checkpoint is not None:
        return f"there is no adapter in it, but there are in its checkpoints; name one, such as {checkpoint}"
    model = folder if (folder / MODEL_CONFIG).is_file() else newest_with(folder, MODEL_CONFIG)
    if model is not None:
        return f"it holds a whole model and no adapter; training begins with it by agent.model={model}"
    is_there = "it is no directory" if folder.exists() else "it does not exist"
    what = f"there is no {folder / ADAPTER_CONFIG}" if folder.is_dir() else is_there
    return f"{what}; name a checkpoint of a run with an adapter, or a directory that mage export-model or PEFT wrote"
