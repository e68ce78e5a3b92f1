"""The checkpoint to name where a run, or its folder of checkpoints, was named as a model or an adapter."""

from __future__ import annotations

from pathlib import Path


def newest_with(folder: Path, file: str) -> Path | None:
    """The newest checkpoint of a run, or in a folder of checkpoints, that has a file; None where there is none."""
    found = [path.parent for start in ("", "checkpoints/") for path in folder.glob(f"{start}step-[0-9]*/{file}")]
    return max(found, key=lambda path: path.name, default=None)


def held_instead(folder: Path) -> str:
    """What a directory without a model holds, and what to name in its place."""
    if (model := newest_with(folder, "config.json")) is not None:
        return f"no model, but its checkpoints do; name one, such as {model}"
    adapter = folder if (folder / "adapter_config.json").is_file() else newest_with(folder, "adapter_config.json")
    if adapter is None:
        return "no model: it has no config.json"
    return (
        f"an adapter and no model; name its base here and the adapter by learner.lora_init={adapter}, "
        "or name a directory that mage export-model RUN --merge wrote"
    )
