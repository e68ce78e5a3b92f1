"""The file tree in docs/architecture.md, made from module docstrings. `python -m tests.tree` writes it anew."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
_BLOCK = re.compile(r"(## The file tree\n.*?\n```\n).*?(```)", re.DOTALL)
_SENTENCE = re.compile(r"\.\s+(?=[A-Z`])")
_OTHERS = {
    "mage/worlds/tables/": "tables of hidden-type worlds: doors, scout, negotiation, recipe, diagnosis, haggling",
    "Makefile": "make demo, make test, make check",
    "constraints.txt": "the versions that are tested",
    ".ci/run": "what CI runs: the same commands",
    "benchmarks/": "speed and learning, each with command, numbers, machine and commit",
    "docs/": "the documentation; its commands and code are tested",
    "tests/": "contracts, golden transcripts and arithmetic",
    "mage/recipes/": "experiments as TOML: worlds, models, methods, variants and tuned combinations of them",
    "mage/splits/": "sets of opponents for evaluation, as hashed JSON",
    "mage/view/static/": "the pages: plain modules, one style sheet, a drawing for each game",
}
_WIDTH = 30


def tree() -> str:
    """One line per file of the package, folders first named, each with its gloss."""
    lines = [_line("", name, gloss) for name, gloss in _OTHERS.items() if not name.startswith("mage/")]
    return "\n".join([*lines, *_folder(ROOT / "mage", "")]) + "\n"


def _folder(folder: Path, indent: str) -> list[str]:
    path = f"{folder.relative_to(ROOT)}/"
    gloss = _OTHERS.get(path) or _gloss(folder / "__init__.py")
    lines = [_line(indent, f"{folder.name}/", gloss)]
    if path in _OTHERS:
        return lines
    inside = sorted(p for p in folder.iterdir() if p.name != "__pycache__")
    for file in (p for p in inside if p.suffix == ".py" and p.name != "__init__.py"):
        lines.append(_line(indent + "  ", file.name, _gloss(file)))
    for sub in (p for p in inside if p.is_dir() and any(q.name != "__pycache__" for q in p.iterdir())):
        lines += _folder(sub, indent + "  ")
    return lines


def _gloss(file: Path) -> str:
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    assert docstring, f"{file} has no docstring"
    return _SENTENCE.split(docstring.split("\n")[0])[0].rstrip(".").replace("`", "")


def _line(indent: str, name: str, gloss: str) -> str:
    return f"{indent + name:<{_WIDTH}} {gloss}".rstrip()


def with_tree(page: str) -> str:
    """The page with the tree as it should be."""
    assert _BLOCK.search(page), "there is a section for the file tree"
    return _BLOCK.sub(lambda match: match[1] + tree() + match[2], page)


if __name__ == "__main__":
    PAGE.write_text(with_tree(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
