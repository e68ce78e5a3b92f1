"""For errors: what to name where a run, its folder of checkpoints or an adapter was named as a model or an adapter."""

from __future__ import annotations

from pathlib import Path

ADAPTER_CONFIG, MODEL_CONFIG = "adapter_config.json", "config.json"
"""Files that adapters in PEFT's layout and whole models in Hugging Face layout have."""


def newest_with(folder: Path, file: str) -> Path | None:
    """The newest checkpoint of a run, or in a folder of checkpoints, that has a file; None where there is none."""
    found = [path.parent for start in ("", "checkpoints/") for path in folder.glob(f"{start}step-[0-9]*/{file}")]
    return max(found, key=lambda path: path.name, default=None)


def held_instead(folder: Path) -> str:
    """What a directory without a model holds, and what to name in its place."""
    if (model := newest_with(folder, MODEL_CONFIG)) is not None:
        return f"no model, but its checkpoints do; name one, such as {model}"
    adapter = folder if (folder / ADAPTER_CONFIG).is_file() else newest_with(folder, ADAPTER_CONFIG)
    if adapter is None:
        return "no model: it has no config.json"
    return (
        f"an adapter and no model; name its base here and the adapter by learner.lora_init={adapter}, "
        "or name a directory that mage export-model RUN --merge wrote"
    )
