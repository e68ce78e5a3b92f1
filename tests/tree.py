"""The file tree in README, made from the first line of every file. `python -m tests.tree` writes it anew."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"(## The file tree\n\n```\n).*?(\n```)", re.DOTALL)
_OTHERS = {
    "Makefile": "make demo, make test, make check",
    "constraints.txt": "the versions we test with",
    ".ci/run": "what CI runs: the same commands",
    "benchmarks/": "speed and learning, each with command, numbers, machine and commit",
    "docs/": "longer explanations",
    "tests/": "contracts, goldens and arithmetic; one file per module",
    "mage/recipes/": "experiments as TOML: worlds, models, methods, variants and tuned combinations of them",
    "mage/splits/": "sets of opponents to judge by, as hashed JSON",
    "mage/view/static/": "the pages: plain modules, one style sheet, a drawing for each game",
}
_WIDTH = 30


def tree() -> str:
    """One line per file of the package, folders first named, each with its gloss."""
    lines = [_line("", name, gloss) for name, gloss in _OTHERS.items() if not name.startswith("mage/")]
    return "\n".join([*lines, *_folder(ROOT / "mage", "")])


def _folder(folder: Path, indent: str) -> list[str]:
    path = f"{folder.relative_to(ROOT)}/"
    gloss = _OTHERS.get(path) or _gloss(folder / "__init__.py")
    lines = [_line(indent, f"{folder.name}/", gloss)]
    if path in _OTHERS:
        return lines
    inside = sorted(p for p in folder.iterdir() if p.name != "__pycache__")
    for file in (p for p in inside if p.suffix == ".py" and p.name != "__init__.py"):
        lines.append(_line(indent + "  ", file.name, _gloss(file)))
    for sub in (p for p in inside if p.is_dir()):
        lines += _folder(sub, indent + "  ")
    return lines


def _gloss(file: Path) -> str:
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    assert docstring, f"{file} has no docstring"
    first = docstring.split("\n")[0]
    return first.split(". ")[0].rstrip(".").replace("`", "")


def _line(indent: str, name: str, gloss: str) -> str:
    return f"{indent + name:<{_WIDTH}} {gloss}".rstrip()


def with_tree(readme: str) -> str:
    """README with the tree as it should be."""
    return _BLOCK.sub(lambda match: match[1] + tree() + match[2], readme)


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(with_tree(path.read_text(encoding="utf-8")), encoding="utf-8")
