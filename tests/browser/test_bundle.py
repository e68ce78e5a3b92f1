"""Modules in one script, run by a browser: it does what the modules would do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mage.view.bundle import script
from tests.viewed import write_modules

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MAIN = """import { one, two as second } from "./below/numbers.js";
import * as words from "./words.js";
import {
  three,
} from "./below/numbers.js";

document.body.append(one + second() + three.value, " ", words.hello, " ", new words.Thing().name);
"""
NUMBERS = """import { hello } from "../words.js";
export const one = 1;
export function two() {
  return hello.length;
}
const three = { value: 3 };
export { three };
export async function four() {}
"""
WORDS = """export const hello = "hello";
export class Thing {
  name = "thing";
}
const one = "not this";
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, executable: str) -> Path:
    return tmp_path_factory.mktemp("runs")


def test_the_script_does_what_the_modules_do(browser: Browser, tmp_path: Path) -> None:
    made = script(write_modules(tmp_path / "static", app=MAIN, below__numbers=NUMBERS, words=WORDS))
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><body><script>{made}</script></body>", encoding="utf-8")
    opened = browser.new_page()
    opened.goto(page.as_uri())
    assert opened.inner_text("body") == "9 hello thing"
    opened.close()
