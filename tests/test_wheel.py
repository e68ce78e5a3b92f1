"""The wheel: it has every file of the package, and trains, evaluates and views where it is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.tiny import SMALL
from tests.tree import ROOT

SOURCES = ("mage", "docs", "pyproject.toml", "README.md", "LICENSE")
"""What a wheel is built from."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree, built from a copy: a build leaves folders behind."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / "tree" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / "tree" / name)
    _pip("wheel", "--no-build-isolation", "--wheel-dir", folder / "built", folder / "tree")
    (built,) = (folder / "built").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with the wheel in it; what it depends on is taken from this environment."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, symlinks=True)
    _pip("--python", folder / "bin" / "python", "install", wheel)
    (packages,) = folder.glob("lib/python*/site-packages")
    paths = dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))
    (packages / "dependencies.pth").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    return folder / "bin"


def _pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run([*command, "--no-deps", "--no-index"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def environment() -> dict[str, str]:
    """No path to this tree."""
    return {**{key: value for key, value in os.environ.items() if key != "PYTHONPATH"}, "HF_HUB_OFFLINE": "1"}


def run(folder: Path, *command: str | Path) -> str:
    """What a program prints in a folder."""
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
    files = [path for path in (ROOT / "mage").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    package = {path.relative_to(ROOT).as_posix() for path in files}
    assert {"mage/py.typed", "mage/worlds/tables/doors.toml", "mage/view/static/index.html"} < package
    assert {name for name in names if name.startswith("mage/")} == package
    pages = {path.name for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".png")}
    assert {Path(name).name for name in names if "/share/doc/mage-rl/" in name} == pages


@pytest.mark.slow
def test_an_installed_wheel_trains_evaluates_and_views_outside_the_clone(installed: Path, tmp_path: Path) -> None:
    where = run(tmp_path, installed / "python", "-c", "import mage; print(mage.__file__)").strip()
    assert Path(where).is_relative_to(installed.parent)
    small = [*SMALL, "steps=1", "evaluation.final_trials=1"]
    run(tmp_path, installed / "mage", "train", "rps", *small, "--run", "runs/small")
    told = run(tmp_path, installed / "mage", "evaluate", "runs/small", "--opponents", "always:rock", "--trials", "1")
    assert "always(rock)" in told
    assert "rps-seven" in run(tmp_path, installed / "mage", "list", "splits")
    pages = dict(viewed(installed, tmp_path, "/", "/static/app.js", "/api/runs", "/help/quickstart"))
    assert b"/static/app.js" in pages["/"]
    assert b"import" in pages["/static/app.js"]
    assert {found["kind"] for found in json.loads(pages["/api/runs"])} == {"train", "evaluate"}
    assert b"</h1>" in pages["/help/quickstart"]


def viewed(programs: Path, folder: Path, *paths: str) -> Iterator[tuple[str, bytes]]:
    """What the viewer answers."""
    command = [str(programs / "mage"), "view", "runs", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            url = urlsplit(found[0])
            headers = {"X-Mage-Token": parse_qs(url.query).get("token", [""])[0]}
            for path in paths:
                request = urllib.request.Request(url._replace(path=path).geturl(), headers=headers)
                with urllib.request.urlopen(request, timeout=60) as answer:
                    yield path, answer.read()
        finally:
            server.terminate()
