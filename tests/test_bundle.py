"""Modules in one script: those of the pages fit, and whatever would not is an error before it is a broken page."""

from __future__ import annotations

from pathlib import Path

import pytest

from mage.errors import MageError
from mage.view.bundle import STATIC, script, style
from tests.viewed import write_modules


def test_the_modules_of_the_pages_fit_into_one_script() -> None:
    found = script()
    for path in STATIC.rglob("*.js"):
        assert f'modules["{path.relative_to(STATIC).as_posix()}"]' in found, "whatever is there is used"
    assert style()


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (
            {"app": 'import { a } from "./a.js";\n', "a": 'import { b } from "./app.js";\n'},
            "in a circle: app.js > a.js",
        ),
        ({"app": 'import { a } from "./gone.js";\n'}, "gone.js is missing among the pages"),
        ({"app": 'import { a } from "../../secret.js";\n'}, "../../secret.js is missing among the pages"),
        ({"app": 'import { a } from "https://example.org/a.js";\n'}, "only paths that begin with a dot"),
        ({"app": 'import a from "./a.js";\n', "a": ""}, "imports 'a', a form that cannot"),
        ({"app": 'import "./a.js";\n', "a": ""}, "app.js has an 'import' of a form"),
        ({"app": 'const a = await import("./a.js");\n'}, r"app.js has an 'import\(' of a form"),
        ({"app": "export default 3;\n"}, "app.js has an 'export' of a form"),
        ({"app": "export let a = 3;\n"}, "app.js has an 'export' of a form"),
        ({"app": "const a = 1;\nexport { a as b };\n"}, "app.js has an 'export' of a form"),
        ({"app": "await open();\n"}, "app.js has an 'await' of a form"),
        ({"app": "const a = '</SCRIPT>';\n"}, "holds '</SCRIPT'"),
        ({"app": "const a = '<!-- ';\n"}, "holds '<!--'"),
    ],
)
def test_what_does_not_fit_is_refused(files: dict[str, str], problem: str, tmp_path: Path) -> None:
    with pytest.raises(MageError, match=problem):
        script(write_modules(tmp_path, **files))


@pytest.mark.parametrize("text", ["a { background: url(x.png) }", '@import "b.css";'])
def test_a_style_that_loads_something_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text(text)
    with pytest.raises(MageError, match=r"style\.css loads something"):
        style(tmp_path)
    (tmp_path / "style.css").write_text("a { color: red } /* </style> */")
    with pytest.raises(MageError, match="holds '</style'"):
        style(tmp_path)
