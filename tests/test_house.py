"""The house itself: the file tree is true, README is short, heavy imports stay where they belong."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mage.evaluation.splits import fingerprint, load_split, split_names
from mage.splits.__main__ import definitions
from tests.tree import PAGE, ROOT, with_tree

MODULES = sorted((ROOT / "mage").rglob("*.py"))
TORCH_FOLDERS = {"engines", "models", "learners", "training"}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_the_file_tree_is_true() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tree(page), "run python -m tests.tree"


def test_readme_is_for_newcomers() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 160


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_torch_is_imported_only_where_models_live(path: Path) -> None:
    if path.relative_to(ROOT / "mage").parts[0] not in TORCH_FOLDERS:
        assert not [name for name in imports(path) if name.split(".")[0] == "torch" and path.name != "tracker.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_global_randomness(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\brandom\.(random|choice|choices|randint|randrange|seed|shuffle|sample|uniform)\(", text)
    assert "np.random" not in text
    assert "torch.manual_seed(" not in text


def test_broad_excepts_stand_at_the_one_boundary() -> None:
    found = [p.relative_to(ROOT) for p in MODULES if re.search(r"except( Base)?( )?Exception", p.read_text())]
    assert [str(p) for p in found] == ["mage/rollout/group.py"]


def test_shipped_splits_are_their_definitions() -> None:
    assert sorted(split.name for split in definitions()) == split_names()
    for split in definitions():
        assert load_split(split.name) == split, "run python -m mage.splits"
        assert fingerprint(split.world, split.members, split.episodes) == split.sha256
