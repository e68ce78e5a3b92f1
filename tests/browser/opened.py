"""A page in a browser, as the tests of the viewer see it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

_PATIENCE_MS = 90_000
"""Machines that test may be slow and busy."""
_SETTLED = "main[aria-busy='false']"
"""What a page is once all of it is there. The policy of the pages forbids to wait for an expression."""
_TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")


class Opened:
    """A page, and all that it asked for or complained about."""

    def __init__(self, browser: Browser, address: str, *, width: int = 1280, theme: Any = "light") -> None:
        self._context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        self.page = self._context.new_page()
        self.page.set_default_timeout(_PATIENCE_MS)
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda said: self.troubles.append(said.text) if said.type == "error" else None)
        self.page.on("dialog", lambda dialog: self.troubles.append(f"a dialog: {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self._address, _, token = address.partition("/?token=")
        if token:
            self._context.request.get(address)  # the first visit, which leaves a cookie

    def go(self, where: str) -> None:
        """Open an address within the pages, and wait until it is there."""
        self.page.goto("about:blank")
        self.page.goto(f"{self._address}{where}")
        self.page.wait_for_selector(_SETTLED)
        self.draw()

    def move(self, where: str) -> None:
        """Go on to another address as a click on a link does, without loading anything again."""
        self.page.evaluate("document.querySelector('main .page').classList.add('old')")
        self.page.evaluate("where => { location.hash = where; }", where.partition("#")[2])
        self.page.wait_for_selector(f"{_SETTLED} .page:not(.old)")
        self.draw()

    def draw(self) -> None:
        """Let the browser lay out and paint what is there: charts follow the size of their place."""
        self.page.evaluate(_TWO_FRAMES)

    def resize(self, width: int, height: int) -> None:
        """Give the window another size, and wait until the page has followed."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.draw()

    def text(self) -> str:
        """All that can be read below the header."""
        return str(self.page.inner_text("main"))

    def find(self, selector: str) -> Locator:
        """What fits a selector."""
        return self.page.locator(selector)

    def wait(self, selector: str) -> None:
        """Wait until something is to be seen."""
        self.page.wait_for_selector(selector)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def hash(self) -> str:
        """Where the page is."""
        return str(self.page.evaluate("location.hash"))

    def too_faint(self) -> list[str]:
        """Texts that differ too little from what lies behind them: less than WCAG's AA asks for."""
        found: list[str] = self.page.evaluate(CONTRAST)
        return found

    def overhang(self) -> int:
        """By how many pixels the page is wider than its window, after it was laid out again."""
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def close(self) -> None:
        """Throw the page away, and all that its browser remembers of it."""
        self._context.close()
