"""The pages under Help: all of docs, with equations drawn, and no markup that nobody wrote."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mage.view.help import pages, rendered
from tests.viewed import Viewer


@pytest.fixture
def viewer(tmp_path: Path) -> Viewer:
    return Viewer(tmp_path)


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_help_has_every_page_with_its_equations_drawn(viewer: Viewer, name: str) -> None:
    answer = viewer.client.get(f"/help/{name}")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert viewer.client.get(f"/help/{name}.md").text == answer.text
    prose = re.sub(r"<(code|pre)\b.*?</\1>", "", answer.text, flags=re.DOTALL)
    assert "$" not in prose
    assert "<script" not in answer.text.replace('<script type="module"', "")
    for picture in re.findall(r'<img src="([^"]+)"', answer.text):
        assert viewer.client.get(picture).headers["content-type"].startswith("image/")


def test_the_help_lists_its_pages_and_knows_no_others(viewer: Viewer) -> None:
    assert 'href="/help/method"' in viewer.client.get("/help").text
    assert "there is no page 'nope'" in viewer.error("/help/nope", 404)
    equations = re.findall(r"<math.*?</math>", viewer.client.get("/help/method").text, re.DOTALL)
    assert any("<mi>γ</mi>" in equation for equation in equations)


def test_markdown_cannot_bring_markup_with_it() -> None:
    hostile = "<img src=x onerror=a()> [a](javascript:b()) $\\text{<script>c()</script>}$ `<i>`\n\n<script>d()</script>"
    page = rendered(hostile)
    assert not re.search(r"<(img|script|i)\b", page)
    assert "href" not in page
    assert "&lt;script&gt;d()&lt;/script&gt;" in page
