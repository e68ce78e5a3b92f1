"""Where something was measured: what every figure in this folder has beside it."""

from __future__ import annotations

import platform
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def machine(device: torch.device) -> str:
    """What it ran on."""
    import torch  # here, because what is measured without it counts its memory
    import transformers

    card = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU {platform.machine()}"
    return f"{card}, torch {torch.__version__}, transformers {transformers.__version__}"


def commit() -> str:
    """The commit that was measured, with a plus where files had been changed."""
    found = subprocess.run(["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"
