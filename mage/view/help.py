"""The documentation as web pages: renders the Markdown files of `docs/`, with HTML in them escaped."""

from __future__ import annotations

import itertools
import re
import sysconfig
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree.ElementTree import tostring

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from mage.view.read.folder import NotFoundError

if TYPE_CHECKING:
    from markdown_it.token import Token

_PICTURES = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg"}
_PAGE = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>{title} · mage</title>
    <link rel="icon" href="data:,">
    <link rel="stylesheet" href="/static/style.css">
  </head>
  <body>
    <nav aria-label="Help"><a href="/">mage</a> {links}</nav>
    <main class="help">
{content}
    </main>
  </body>
</html>
"""


def docs_folder() -> Path:
    """The folder of the documentation: beside the package in a checkout, else under the installation prefix."""
    checkout = Path(__file__).resolve().parents[2] / "docs"
    return checkout if checkout.is_dir() else Path(sysconfig.get_path("data")) / "share" / "doc" / "mage-rl"


def pages() -> Mapping[str, Path]:
    """All pages by name."""
    return {path.stem: path for path in sorted(docs_folder().glob("*.md"))}


def pictures() -> Mapping[str, Path]:
    """All pictures by their path below the pages, and by their name: when installed, they are in one folder."""
    found = [path for path in docs_folder().rglob("*") if path.suffix in _PICTURES and not path.is_symlink()]
    return {path.name: path for path in found} | {path.relative_to(docs_folder()).as_posix(): path for path in found}


def help_routes() -> list[Route]:
    """The routes of the documentation."""
    return [Route("/help", _contents), Route("/help/{page:path}", _page)]


def _contents(request: Request) -> Response:
    entries = [f'<li><a href="/help/{name}">{escape(_title(path))}</a></li>' for name, path in pages().items()]
    return HTMLResponse(_with_layout("Help", "<h1>Help</h1>\n<ul>\n" + "\n".join(entries) + "\n</ul>"))


def _page(request: Request) -> Response:
    """A page, whose name may end in `.md` as in links between the files, or a picture."""
    name = str(request.path_params["page"])
    picture = pictures().get(name)
    if picture is not None:
        return FileResponse(picture, media_type=_PICTURES[picture.suffix])
    path = pages().get(name.removesuffix(".md"))
    if path is None:
        raise NotFoundError(f"there is no page {name[:80]!r}; there are {', '.join(pages())}")
    return HTMLResponse(_with_layout(_title(path), rendered(path.read_text(encoding="utf-8"))))


@lru_cache(maxsize=64)
def rendered(text: str) -> str:
    """Markdown as HTML: HTML in the text is escaped, pictures get their URL, headings get anchors.

    >>> rendered("# On *trials*").strip()
    '<h1 id="on-trials">On <em>trials</em></h1>'
    >>> rendered("<script>alert(1)</script>").strip()
    '<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>'
    """
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.use(dollarmath_plugin, renderer=_equation)
    tokens = markdown.parse(text)
    for heading, inline in itertools.pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", _anchor(inline))
    for picture in (child for token in tokens for child in token.children or () if child.type == "image"):
        picture.attrSet("src", f"/help/{picture.attrGet('src')}")
    return str(markdown.renderer.render(tokens, markdown.options, {}))


def _equation(source: str, options: Mapping[str, bool]) -> str:
    """An equation as MathML, with text in it escaped."""
    from latex2mathml.converter import convert_to_element

    mathml = convert_to_element(source, display="block" if options["display_mode"] else "inline")
    for element in mathml.iter():
        element.text = None if element.text is None else unescape(element.text)
    return tostring(mathml, encoding="unicode")


def _anchor(heading: Token) -> str:
    words = "".join(child.content for child in _texts(heading.children or ()))
    return re.sub(r"[^\w\- ]", "", words).strip().casefold().replace(" ", "-")


def _texts(children: Sequence[Token]) -> list[Token]:
    return [child for child in children if child.type in ("text", "code_inline")]


def _title(path: Path) -> str:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("#").strip() or path.stem


def _with_layout(title: str, content: str) -> str:
    links = " ".join(f'<a href="/help/{name}">{escape(_title(path))}</a>' for name, path in pages().items())
    return _PAGE.format(title=escape(title), links=links, content=content)
