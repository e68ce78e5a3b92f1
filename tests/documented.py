"""What docs/metrics.md says: the keys of each file that a run writes."""

from __future__ import annotations

import re
from pathlib import Path

METRICS = Path(__file__).parents[1] / "docs" / "metrics.md"


def documented(section: str) -> list[str]:
    """The keys that docs/metrics.md defines for a file."""
    text = METRICS.read_text(encoding="utf-8")
    (found,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    keys = re.findall(r"^\| `([^`]+)` \|", found, re.MULTILINE)
    assert keys
    return keys


def fits(pattern: str, key: str) -> bool:
    """Whether a key is what a documented one, with names in angle brackets, stands for."""
    pieces = [re.escape(p) for p in re.split(r"<\w+>", pattern)]
    return re.fullmatch(".+".join(pieces), key) is not None
