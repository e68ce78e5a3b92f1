"""Takes the pictures of the documentation: python -m tests.browser.pictures DIR [NAME…]

DIR has the runs that are shown: `demo` (mage train rps), `noted` (mage trials demo), `meet` (mage cross-play), `league`
(mage train rps-league), and of a GPU `llm/rps-llm-seed0` and `-seed2` (mage sweep rps-llm), `llm/kuhn` (mage train
kuhn-llm), `llm/ttt` (mage train tictactoe-llm). The pictures are small: 256 colours, and what fits a window.
"""

from __future__ import annotations

import json
import shutil
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
    width: int = 1200
    theme: str = "light"
    only: str = ""
    """A selector: what of the page is shown, cut off at the height; all of it where it is empty."""


STRIP = ".transcript.columns"
SHOWN = (
    Picture("strip", "#/runs/{llm/rps-llm-seed0}/trials/14?layout=columns&at=3.end", 210, only=STRIP),
    Picture("runs", "#/runs?compare={llm/rps-llm-seed0}+{llm/rps-llm-seed2}+{demo}&over=recipes", 980),
    Picture("run", "#/runs/{demo}", 860),
    Picture("trials", "#/runs/{demo}/trials", 620),
    Picture("trial", "#/runs/{demo}/trials/8?at=1.5", 780),
    Picture("episodes", "#/runs/{demo}/trials/9?layout=columns&at=3.end&seen=all", 760),
    Picture("kuhn", "#/runs/{llm/kuhn}/trials/25?layout=columns&at=3.end", 760),
    Picture("tictactoe", "#/runs/{llm/ttt}/trials/20?at=2.5", 780),
    Picture("memory", "#/runs/{noted}/trials/4?at=1.notes", 780),
    Picture("pairs", "#/runs/{demo}/pairs", 820, ("]", "ArrowRight", "ArrowRight")),
    Picture("evaluation", "#/runs/{demo}/evaluations", 1400),
    Picture("kuhn-evaluation", "#/runs/{llm/kuhn}/evaluations", 1000, theme="dark"),
    Picture("league", "#/runs/{league}/league", 1500),
    Picture("matrix", "#/runs/{meet}/evaluations", 720),
    Picture("dark", "#/runs/{demo}/trials/9?at=2.1", 780, theme="dark"),
    Picture("narrow", "#/runs/{demo}/trials/9?at=1.2", 1100, width=400),
    Picture("help", "#/help/method", 760),
)


def take(root: Path, names: Sequence[str] = ()) -> None:
    """Take the pictures of these names, or all; `play` and `over` are of one game that is played for them."""
    from playwright.sync_api import sync_playwright

    with Server(root) as server, sync_playwright() as driver:
        ids = {run["name"]: run["id"] for run in json.loads(server.get("/api/runs"))}
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for picture in SHOWN:
            if names and picture.name not in names:
                continue
            opened = Opened(browser, server.link, width=picture.width, theme=picture.theme)
            opened.go(f"/{_with_ids(picture.where, ids)}")
            opened.press(*picture.keys)
            _save(opened, picture)
            opened.close()
        if names and "play" not in names:
            return
        opened = Opened(browser, server.link, width=_WIDTH)
        _play(opened, "112 31")
        _save(opened, Picture("play", "", 600))
        _play_on(opened, "2 123")
        opened.wait(".table[data-phase=over]")
        _save(opened, Picture("over", "", 720))
        opened.close()


def _with_ids(where: str, ids: dict[str, str]) -> str:
    for name, identity in ids.items():
        where = where.replace("{" + name + "}", identity)
    return where


def _play(opened: Opened, moves: str) -> None:
    """Sit down against a scripted model that counts, and make some moves."""
    opened.go("/#/play")
    opened.page.select_option("label:has-text('Opponent') select", "scripted:counter")
    opened.find("button:text-is('Start')").click()
    _play_on(opened, moves)


def _play_on(opened: Opened, moves: str) -> None:
    """Play by numbers of moves; a space goes on to the next episode."""
    for move in moves:
        fresh = f".table:not([data-seen])[data-phase={'note' if move == ' ' else 'move'}]"
        opened.wait(fresh)
        opened.find(fresh).evaluate("table => table.setAttribute('data-seen', '')")
        if move == " ":
            opened.find("button:has-text('next episode')").click()
        else:
            opened.press(move)
    opened.wait(".table:not([data-seen])[data-phase=move], .table[data-phase=over]")


def _save(opened: Opened, picture: Picture) -> None:
    from PIL import Image

    opened.resize(picture.width, 900 if picture.only else picture.height)
    part = opened.find(picture.only) if picture.only else opened.page
    whole = Image.open(BytesIO(part.screenshot()))
    shot = whole.crop((0, 0, whole.width, min(whole.height, picture.height)))
    path = PICTURES / f"{picture.name}.png"
    shot.convert("RGB").quantize(256).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}  {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    take(Path(sys.argv[1]), sys.argv[2:])
