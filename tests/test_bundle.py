"""Modules in one script: those of the pages fit, and whatever would not is an error before it is a broken page."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mage.errors import MageError
from mage.view.bundle import STATIC, script, style


def folder(tmp_path: Path, **files: str) -> Path:
    """Modules by name; `__` stands for a slash, and each is JavaScript."""
    for name, text in files.items():
        path = tmp_path / f"{name.replace('__', '/')}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_the_modules_of_the_pages_fit_into_one_script() -> None:
    found = script()
    for path in STATIC.rglob("*.js"):
        assert f'modules["{path.relative_to(STATIC).as_posix()}"]' in found, "whatever is there is used"
    assert style()


MAIN = """import { one, two as second } from "./below/numbers.js";
import * as words from "./words.js";
import {
  three,
} from "./below/numbers.js";

console.log(one + second() + three.value, words.hello, new words.Thing().name);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here to run the script")
def test_the_script_does_what_the_modules_do(tmp_path: Path) -> None:
    static = folder(
        tmp_path,
        app=MAIN,
        below__numbers='import { hello } from "../words.js";\n'
        "export const one = 1;\nexport function two() {\n  return hello.length;\n}\n"
        "const three = { value: 3 };\nexport { three };\nexport async function four() {}\n",
        words='export const hello = "hello";\nexport class Thing {\n  name = "thing";\n}\nconst one = "not this";\n',
    )
    done = subprocess.run(["node", "-e", script(static)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("9 hello thing\n", "")


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
        script(folder(tmp_path, **files))


@pytest.mark.parametrize("text", ["a { background: url(x.png) }", '@import "b.css";'])
def test_a_style_that_loads_something_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text(text)
    with pytest.raises(MageError, match=r"style\.css loads something"):
        style(tmp_path)
    (tmp_path / "style.css").write_text("a { color: red } /* </style> */")
    with pytest.raises(MageError, match="holds '</style'"):
        style(tmp_path)
