"""Extras: packages that only a part of the work needs; where one is missing, one line says what to install."""

from __future__ import annotations

from importlib.util import find_spec

from mage.errors import ConfigError

EXTRAS = {
    "train": ("torch", "transformers"),
    "lora": ("peft",),
    "plot": ("matplotlib",),
    "remote": ("httpx",),
}
"""By extra, the packages by which it is known to be there."""


def require(extra: str, needed: str, otherwise: str = "") -> None:
    """Fail where an extra is not installed; `needed` begins the message, as in "training needs"."""
    if any(find_spec(package) is None for package in EXTRAS[extra]):
        raise ConfigError(f"{needed} the extra {extra}: pip install 'mage-rl[{extra}]'{otherwise}")
