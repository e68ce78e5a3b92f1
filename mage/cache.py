"""The directory of caches on disk: exact values and converted models."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """$MAGE_CACHE, or `mage` in the user's cache directory."""
    if chosen := os.environ.get("MAGE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mage"
