"""What the viewer answers about leagues: all of one, nothing from outside, and one line where it is broken."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from mage.league.report import LeagueReport, read_league
from mage.view.export import export_page
from tests.league_played import LEARNERS, write_league
from tests.test_docs import DOCS
from tests.viewed import Viewer, some_trials, write_lines, write_run, write_train_run


@pytest.fixture
def viewer(tmp_path: Path) -> Viewer:
    return Viewer(tmp_path)


def test_a_league_is_answered_as_it_is_on_file(tmp_path: Path, viewer: Viewer) -> None:
    path = write_league(tmp_path / "run", steps=40)
    answer = viewer.run("run", "/league")
    assert msgspec.convert(answer, LeagueReport) == read_league(path)
    assert [member["id"] for member in answer["members"] if member["kind"] == "learner"] == list(LEARNERS)
    assert answer["step"] == 40
    assert viewer.run("run")["league"] is True
    assert f"{LEARNERS[0]}/rating" in viewer.run("run")["keys"]


def test_a_run_without_a_league_has_none(tmp_path: Path, viewer: Viewer) -> None:
    write_train_run(tmp_path / "train")
    write_run(tmp_path / "trials", some_trials())
    for name in ("train", "trials"):
        assert viewer.run(name)["league"] is False
        assert viewer.error(f"/api/runs/{viewer.id(name)}/league", 404) == f"{name} has no league"
    assert "there is no run" in viewer.error("/api/runs/000000000000/league", 404)


def test_a_broken_league_says_so_and_leaves_the_run_alone(tmp_path: Path, viewer: Viewer) -> None:
    path = write_league(tmp_path / "run", steps=2)
    (path / "league.json").write_text('{"step": "many"}')
    assert "league.json cannot be read" in viewer.error(f"/api/runs/{viewer.id('run')}/league", 422)
    assert viewer.run("run")["status"] != "broken"
    (path / "league.json").write_bytes(b"\xff")
    assert "league.json cannot be read" in viewer.error(f"/api/runs/{viewer.id('run')}/league", 422)


def test_a_broken_event_is_one_line(tmp_path: Path, viewer: Viewer) -> None:
    path = write_league(tmp_path / "run", steps=2)
    write_lines(path / "events.jsonl", [{"step": 2, "league": "exploit", "member": "learner-0", "changes": 3}])
    assert "events.jsonl" in viewer.error(f"/api/runs/{viewer.id('run')}/league", 422)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = write_league(tmp_path / "outside", steps=2)
    path = write_train_run(tmp_path / "shown" / "run")
    (path / "league.json").symlink_to(outside / "league.json")
    viewer = Viewer(tmp_path / "shown")
    assert "is not followed" in viewer.error(f"/api/runs/{viewer.id('run')}/league", 422)


def test_it_can_only_be_read(tmp_path: Path, viewer: Viewer) -> None:
    path = write_league(tmp_path / "run", steps=2)
    before = (path / "league.json").read_bytes()
    assert viewer.client.post(f"/api/runs/{viewer.id('run')}/league", json={}).status_code == 405
    assert (path / "league.json").read_bytes() == before


def test_every_key_of_a_league_is_documented(tmp_path: Path, viewer: Viewer) -> None:
    write_league(tmp_path / "run", steps=60)
    answer = viewer.run("run", "/league")
    known = set(re.findall(r"`(\w+)`", (DOCS / "viewer.md").read_text(encoding="utf-8")))
    keys = set(answer) | {key for name in ("members", "payoffs", "events") for entry in answer[name] for key in entry}
    assert sorted(keys - known) == []


def test_an_exported_page_has_the_league(tmp_path: Path) -> None:
    path = write_league(tmp_path / "run", steps=20)
    page = export_page(path).content.decode()
    data = json.loads(page.partition('id="mage-data">')[2].partition("</script>")[0])
    (league,) = (answer for where, answer in data["responses"].items() if where.endswith("/league"))
    assert league["step"] == 20
    without = export_page(write_train_run(tmp_path / "other")).content.decode()
    assert "/league" not in without.partition('id="mage-data">')[2].partition("</script>")[0]
