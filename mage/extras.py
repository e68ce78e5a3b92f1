"""Optional dependencies: which extra has which packages, and the error where one is not installed."""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from mage.errors import ConfigError

PACKAGE = "mage-rl"
EXTRAS = {
    "train": ("torch", "transformers"),
    "lora": ("peft",),
    "plot": ("matplotlib",),
    "ray": ("ray",),
    "remote": ("httpx",),
    "vllm": ("vllm",),
    "webshop": ("bm25s", "rapidfuzz"),
}
"""By extra, the packages that must be there for it to count as installed."""


def require(extra: str, needed: str, otherwise: str = "") -> None:
    """Raise a ConfigError where an extra is not installed; `needed` begins the message, as in "training needs"."""
    if any(find_spec(package) is None for package in EXTRAS[extra]):
        raise ConfigError(f"{needed} the extra {extra}: {install_command(extra)}{otherwise}")


def install_command(extra: str) -> str:
    """How to install an extra: into the clone that this package is run from, or beside the installed package."""
    return f"pip install -e '.[{extra}]'" if _is_clone() else f"pip install '{PACKAGE}[{extra}]'"


@cache
def _is_clone() -> bool:
    """Whether the package is installed from a clone that can be edited (PEP 610)."""
    try:
        origin = json.loads(distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return True  # run from its source
    return bool(origin.get("dir_info", {}).get("editable"))
