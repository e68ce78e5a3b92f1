"""Optional dependencies: which extra has which packages, and the error where one is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from mage.errors import ConfigError

EXTRAS = {
    "train": ("torch", "transformers"),
    "lora": ("peft",),
    "plot": ("matplotlib",),
    "remote": ("httpx",),
}
"""By extra, the packages that must be there for it to count as installed."""


def require(extra: str, needed: str, otherwise: str = "") -> None:
    """Raise a ConfigError where an extra is not installed; `needed` begins the message, as in "training needs"."""
    if any(find_spec(package) is None for package in EXTRAS[extra]):
        raise ConfigError(f"{needed} the extra {extra}: pip install 'mage-rl[{extra}]'{otherwise}")
