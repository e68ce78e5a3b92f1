"""Results of every command on its Overview, in one number format, best first, and opponents in words."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copytree

import pytest

from benchmarks.view_speed import Server
from tests.browser.opened import Opened
from tests.browser.scenes import exploited, met, noted, seeded
from tests.browser.test_pages import run_id
from tests.recorded import guest_trial, make_task
from tests.viewed import write_run

FAMILY = "memory-one(first=rock,map=[paper,scissors,rock],on=them)"
"""An opponent whose settings are long."""
IN_WORDS = "Begins with rock; then it follows the other's last move: after rock paper, after paper scissors"
NUMBER = re.compile(r"[+−±]?\d+(\.\d\d\d?)?( ?%)?")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, learned_run: Path) -> Path:
    root = tmp_path_factory.mktemp("runs") / "shown"
    root.mkdir()
    copytree(learned_run, root / "learned")
    met(root / "met", FAMILY)
    exploited(root / "nash")
    noted(root / "notes")
    seeded(root / "sweep")
    write_run(root / "played", [guest_trial(make_task("rps(rounds=3)", (FAMILY,)))])
    return root


def test_cross_play_has_its_standings_on_the_overview_best_first(opened: Opened, server: Server) -> None:
    identity = run_id(server, "met")
    opened.go(f"/#/runs/{identity}")
    assert "mage cross-play" in opened.text()
    card = opened.find(".card:has(h2:text-is('Standings'))")
    report = server.json(f"/api/runs/{identity}/evaluations/crossplay")
    scores = {each["agent"]: each["score"]["value"] for each in report["found"]["standings"]}
    best = sorted(scores, key=lambda agent: -scores[agent])
    assert best != list(scores), "on file they stand as they were named"
    shown = card.locator("tbody th > span").evaluate_all("all => all.map((each) => each.title)")
    assert shown == best
    card.locator("a:has-text('The whole evaluation')").click()
    opened.wait("main h1:text-is('Evaluation')")
    shown = opened.find(".card:has(h2:text-is('Standings')) tbody th > span").evaluate_all(
        "all => all.map((each) => each.title)"
    )
    assert shown == best


def test_what_notes_do_is_shown_with_their_first_words_and_alone(opened: Opened, server: Server) -> None:
    identity = run_id(server, "notes")
    (report,) = server.json(f"/api/runs/{identity}/evaluations/reflections")["reports"]
    opened.go(f"/#/runs/{identity}/evaluations")
    card = opened.find(".card:has(h2:has-text('What reflections do'))")
    shown = [row.split("\t") for row in card.locator("table.list tbody tr").all_inner_texts()]
    gains = dict(row for row in shown if len(row) == 2)
    assert report["alone"]["reader_over_blank"]["value"] == 1.0
    assert gains["difference"].startswith("+1")
    assert gains["with its notes alone"].startswith(gains["difference"][:2])
    assert "over their first 2 words" in gains
    assert "the first words of its own" in card.inner_text()


def test_nashconv_has_its_result_on_the_overview(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{run_id(server, 'nash')}")
    card = opened.find(".card:has(h2:text-is('How far it can be exploited'))")
    assert card.locator("tbody tr").first.inner_text().split("\t")[1] == "2"
    assert "scripted:first in Kuhn poker" in card.inner_text()
    assert card.locator("a:has-text('The whole evaluation')").count() == 1


def test_a_sweep_has_its_means_on_the_overview(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{run_id(server, 'sweep')}")
    card = opened.find(".card:has(h2:text-is('Means over seeds'))")
    assert "2 seeds" in card.inner_text()
    assert "rps-constants, last episode" in card.inner_text()
    assert card.locator("a:has-text('The whole evaluation')").count() == 1


def test_numbers_of_scores_have_one_format_and_zero_is_0(opened: Opened, server: Server) -> None:
    opened.go("/#/runs")
    found = opened.page.evaluate(
        """import("/static/format.js").then(({ estimate, plain, shortNumber, signed }) => [
          [1, 0.5, -1 / 3, 0, -0, 1e-9, -5.6e-17, 0.3, -0.001].map((each) => signed(each)),
          [0, 2, 0.5, -6.7e-10, 1e-5, 123.456, 2e9].map((each) => plain(each)),
          [0.5, 1, 0.667, 0.0006, -1e-9].map((each) => shortNumber(each)),
          [estimate({ value: -0.3, low: -0.48, high: -0.1 }), estimate({ value: 0, low: 0, high: 0 })],
        ])"""
    )
    assert found == [
        ["+1", "+0.50", "−0.33", "0", "0", "0", "0", "+0.30", "0"],
        ["0", "2", "0.50", "0", "0", "123.46", "2.0e+9"],
        ["0.5", "1", "0.667", "6.0e−4", "−1.0e−9"],
        ["−0.30\u00a0±0.20", "0\u00a0±0"],
    ]
    for name, rest in (("met", ""), ("met", "/evaluations"), ("sweep", "/evaluations"), ("learned", "/evaluations")):
        opened.go(f"/#/runs/{run_id(server, name)}{rest}")
        cells = opened.find("td.number, td.heat").all_inner_texts()
        parts = [
            part for cell in cells for part in cell.replace("\u00a0", " ").split(" ") if part not in ("–", "to", "%")
        ]
        assert len(parts) > 5
        assert [part for part in parts if not NUMBER.fullmatch(part)] == [], name


def test_an_opponent_is_told_in_words_and_once(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{run_id(server, 'played')}/trials/0")
    text = opened.text()
    assert text.count(IN_WORDS) == 1
    assert FAMILY not in text, "its settings stand where the trial is told about, which is folded"
    opened.find("summary:has-text('About this trial')").click()
    assert opened.text().count(FAMILY) == 1
    opened.go(f"/#/runs/{run_id(server, 'played')}/trials")
    assert (opened.text().count(IN_WORDS), opened.text().count(FAMILY)) == (1, 0)
    opened.go(f"/#/runs/{run_id(server, 'met')}/evaluations")
    assert opened.text().count(IN_WORDS) == 1
    assert opened.find(".matrix thead th").all_inner_texts()[1:] == ["copy", "beat-last", "always(rock)", "memory-one"]


def test_the_opponents_of_an_evaluation_are_in_words(opened: Opened, server: Server) -> None:
    opened.go(f"/#/runs/{run_id(server, 'learned')}/evaluations")
    assert opened.find("th.met:has-text('always(paper)') .words").inner_text() == "Always paper."


def test_the_final_trial_says_why_it_has_no_advantages(opened: Opened, server: Server) -> None:
    identity = run_id(server, "learned")
    rows = server.json(f"/api/runs/{identity}/trials")["rows"]
    last = max(row["number"] for row in rows if row["step"] == 4)
    opened.go(f"/#/runs/{identity}/trials/{last}")
    assert "No advantages: this trial was played with the weights of step 4 to be looked at." in opened.text()
    assert "none: no update used this move" in opened.find(".stage").inner_text()
    trained = [row["number"] for row in rows if server.json(f"/api/runs/{identity}/trials/{row['number']}")["trained"]]
    opened.go(f"/#/runs/{identity}/trials/{trained[0]}")
    assert "No advantages" not in opened.text()
    opened.go(f"/#/runs/{run_id(server, 'played')}/trials/0")
    assert "advantage" not in opened.text().lower(), "there is no model, so there are no tokens"
