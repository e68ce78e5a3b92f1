"""Bundles the viewer's JavaScript modules and style into one script and one style sheet, for exported pages.

It supports the forms that these modules use: imports and exports at the start of a line, from relative paths, of names
that are never reassigned. Anything else raises an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from posixpath import dirname, join, normpath

from mage.errors import MageError

STATIC = Path(__file__).parent / "static"
STYLE, MAIN = "style.css", "app.js"
_IMPORT = re.compile(r'^import\s+([^"\';]+?)\s+from\s+"([^"]+)";?$', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+((?:async\s+)?function\*?|class|const)\s+([A-Za-z_$][\w$]*)", re.MULTILINE)
_NAMED = re.compile(r"^export\s+\{([^}]*)\};?$", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export|await)\b|\bimport\s*\(|\bimport\.meta\b", re.MULTILINE)
_TAG = re.compile(r"</(?:script|style)|<!--|<script", re.IGNORECASE)
"""Text that would end an inline script or style, or change how the rest is parsed."""


def script(static: Path = STATIC) -> str:
    """All modules that the main one needs, each in a function, in the order of imports."""
    sources: dict[str, str] = {}
    _collect(static, MAIN, sources, ())
    bodies = [f"modules[{_quoted(name)}] = (() => {{\n{source}}})();\n" for name, source in sources.items()]
    found = '"use strict";\n{\nconst modules = {};\n' + "".join(bodies) + "}\n"
    return _harmless(found, MAIN)


def style(static: Path = STATIC) -> str:
    """The style sheet; an error if it loads other files."""
    found = _read(static, STYLE)
    if re.search(r"@import|url\(", found):
        raise MageError(f"{STYLE} loads something: a page on its own cannot")
    return _harmless(found, STYLE)


def _collect(static: Path, name: str, sources: dict[str, str], above: tuple[str, ...]) -> None:
    """Add a module after the modules that it imports."""
    if name in above:
        raise MageError(f"modules import each other in a circle: {' > '.join((*above, name))}")
    if name in sources:
        return
    text = _read(static, name)
    needed = {path: _resolved(name, path) for _, path in _IMPORT.findall(text)}
    for other in needed.values():
        _collect(static, other, sources, (*above, name))
    sources[name] = _as_function(name, text, needed)


def _as_function(name: str, text: str, needed: Mapping[str, str]) -> str:
    """The body of a function that returns what the module exports."""
    exported = [found[1] for found in _EXPORT.findall(text)]
    for names in _NAMED.findall(text):
        exported += [one.strip() for one in names.split(",") if one.strip()]
    text = _IMPORT.sub(lambda found: f"const {_pattern(name, found[1])} = modules[{_quoted(needed[found[2]])}];", text)
    text = _NAMED.sub("", _EXPORT.sub(r"\1 \2", text))
    odd = _LEFT.search(text)
    if odd or any(not re.fullmatch(r"[\w$]+", one) for one in exported):
        what = odd[0].strip() if odd else "export"
        raise MageError(f"{name} has an {what!r} of a form that cannot be put into one page")
    return f"{text}\nreturn {{ {', '.join(exported)} }};\n"


def _pattern(name: str, what: str) -> str:
    """An import clause as a destructuring pattern."""
    if re.fullmatch(r"\*\s+as\s+[\w$]+", what):
        return what.split()[-1]
    if re.fullmatch(r"\{[\w$,\s]*\}", what):
        return re.sub(r"\s+as\s+", ": ", what)
    raise MageError(f"{name} imports {' '.join(what.split())!r}, a form that cannot be put into one page")


def _resolved(name: str, path: str) -> str:
    if not path.startswith(("./", "../")):
        raise MageError(f"{name} imports {path!r}: only paths that begin with a dot can be put into one page")
    return normpath(join(dirname(name), path))


def _read(static: Path, name: str) -> str:
    path = static / name
    if name.startswith("..") or not path.is_file():
        raise MageError(f"{name} is missing among the pages in {static}")
    return path.read_text(encoding="utf-8")


def _harmless(text: str, name: str) -> str:
    found = _TAG.search(text)
    if found:
        raise MageError(f"{name} or what it imports holds {found[0]!r}, which no inline script or style may")
    return text


def _quoted(name: str) -> str:
    if not re.fullmatch(r"[\w./-]+", name):
        raise MageError(f"{name!r} is an odd name for a module")
    return f'"{name}"'
