"""Takes the pictures of the documentation: python -m tests.browser.pictures DIR

DIR has the runs that are shown: `demo` (mage train rps), `llm/rps-llm-seed0` and `-seed1` (mage sweep rps-llm, on a
GPU), `llm/kuhn` (mage train kuhn-llm, on a GPU), `noted` (mage trials demo) and `meet` (mage cross-play). The pictures
are small: 256 colours, and what fits a window.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from benchmarks.view_speed import Server
from tests.browser.opened import Opened
from tests.tree import ROOT

PICTURES = ROOT / "docs" / "pictures"
_WIDTH = 1200


class Picture(NamedTuple):
    """What one picture shows: an address, in which names in braces stand for ids of runs, and keys to press there."""

    name: str
    where: str
    height: int
    keys: Sequence[str] = ()


SHOWN = (
    Picture("runs", "#/runs?compare={llm/rps-llm-seed0}+{llm/rps-llm-seed1}+{demo}&over=recipes", 900),
    Picture("run", "#/runs/{demo}", 640),
    Picture("trial", "#/runs/{demo}/trials/8?at=1.5", 760),
    Picture("episodes", "#/runs/{demo}/trials/13?layout=columns&at=3.end", 760),
    Picture("kuhn", "#/runs/{llm/kuhn}/trials/25?layout=columns&at=3.end", 760),
    Picture("memory", "#/runs/{noted}/trials/4?at=1.notes", 680),
    Picture("pairs", "#/runs/{demo}/pairs", 760, ("]", "ArrowRight", "ArrowRight")),
    Picture("evaluation", "#/runs/{demo}/evaluations", 960),
    Picture("matrix", "#/runs/{meet}/evaluations", 560),
)


def take(root: Path) -> None:
    """Take all pictures, and one of a game that is played for it."""
    from playwright.sync_api import sync_playwright

    with Server(root) as server, sync_playwright() as driver:
        ids = {run["name"]: run["id"] for run in json.loads(server.get("/api/runs"))}
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for picture in SHOWN:
            opened = Opened(browser, server.url, width=_WIDTH)
            opened.go(f"/{_with_ids(picture.where, ids)}")
            opened.press(*picture.keys)
            _save(opened, picture.name, picture.height)
        opened = Opened(browser, server.url, width=_WIDTH)
        _play(opened)
        _save(opened, "play", 560)


def _with_ids(where: str, ids: dict[str, str]) -> str:
    for name, identity in ids.items():
        where = where.replace("{" + name + "}", identity)
    return where


def _play(opened: Opened) -> None:
    """Two rounds of the second episode against a scripted model that counts."""
    opened.go("/#/play")
    opened.page.select_option("label:has-text('Opponent') select", "scripted:counter")
    opened.find("button:text-is('Start')").click()
    for move in ("1", "1", "2", "note", "3", "1"):
        opened.wait(".moves button, textarea")
        opened.page.wait_for_timeout(400)
        if move == "note":
            opened.find("button:has-text('next episode')").click()
        else:
            opened.press(move)
    opened.wait(".seen:has-text('Round 3')")


def _save(opened: Opened, name: str, height: int) -> None:
    from PIL import Image

    opened.page.set_viewport_size({"width": _WIDTH, "height": height})
    opened.page.wait_for_timeout(600)
    shot = Image.open(BytesIO(opened.page.screenshot()))
    path = PICTURES / f"{name}.png"
    shot.convert("RGB").quantize(256).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}  {path.stat().st_size // 1000} kB")
    opened.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]))
