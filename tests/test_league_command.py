"""`mage league`: what it prints, draws and refuses, and the intervals of ratings worked by hand."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from mage.cli import app
from mage.cli.league import league_tables
from mage.errors import MageError, RecordError
from mage.league.members import anchor
from mage.league.payoffs import MatchScore
from mage.league.report import LeagueReport, read_league
from mage.league.state import League, new_league
from tests.league_played import LEARNERS, write_league
from tests.viewed import write_lines, write_train_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_league(tmp_path_factory.mktemp("runs") / "league")


def mage(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False, env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    return done.output


def with_league(path: Path, league: League, **more: object) -> Path:
    """A run with this league."""
    write_train_run(path)
    (path / "league.json").write_bytes(msgspec.json.encode({"step": 3, "league": league, **more}))
    return path


def printed(report: LeagueReport, *, width: int = 120, colours: bool = False) -> str:
    system: Any = "truecolor" if colours else None
    console = Console(file=StringIO(), width=width, force_terminal=colours, color_system=system, markup=False)
    console.print(league_tables("run", report, width))
    return str(console.file.getvalue()) if isinstance(console.file, StringIO) else ""


def section(text: str, heading: str) -> list[str]:
    """The lines below a heading."""
    return text.partition(f"\n{heading}\n")[2].partition("\n\n")[0].splitlines()


def test_members_pay_offs_tree_and_events_are_printed_plainly_without_a_terminal(run: Path) -> None:
    text = mage("league", run)
    assert "\x1b" not in text
    assert "league at step 100, 4 learners, 5 anchors, 10 snapshots" in text
    report = read_league(run)
    leader = next(line for line in section(text, "Members") if line.startswith(report.leader))
    assert leader.split()[:4] == ["learner-1", "learner", "0", "learner-3"], "it copied another"
    first, *rows = section(text, "Pay-offs")
    assert sorted(first.split()) == sorted(LEARNERS)
    assert len([row for row in rows if "±" in row]) == 4 + 5 + 10
    tree = section(text, "Family tree")
    at = tree.index("learner-1")
    assert [line.strip("├└─│ ") for line in tree[at : at + 5]] == [
        "learner-1",
        "learner-1@20",
        "learner-1@40",
        "copied learner-3 at step 50",
        "learner-1@60",
    ]
    assert "learner-3@100" in [line.strip("├└─│ ") for line in tree]
    assert "├── went back to learner-3@60 at step 66" in tree
    events = " ".join(" ".join(section(text, "What happened")).split())
    for said in ("behind over 15 opponents", "learner.lr 0.0006 to 0.00144", "every 20 steps", "pays like", "alarm:"):
        assert said in events, said


def test_a_terminal_has_the_pay_offs_in_colour(run: Path) -> None:
    report = read_league(run)
    assert "\x1b[30;48;2;" in printed(report, colours=True), "black on a colour of its own"
    strongest = max(report.payoffs, key=lambda payoff: abs(payoff.score.value)).score.value
    red, green, blue = (140, 196, 245) if strongest > 0 else (255, 179, 122)
    assert f"48;2;{red};{green};{blue}m{strongest:+.2f}" in printed(report, colours=True)


def test_learners_that_do_not_fit_beside_each_other_stand_below(run: Path) -> None:
    wide, narrow = (section(printed(read_league(run), width=width), "Pay-offs") for width in (120, 60))
    assert len([line for line in wide if line.startswith("copy")]) == 1
    assert len([line for line in narrow if line.startswith("copy")]) == 2


def test_json_is_all_there_is(run: Path) -> None:
    said = mage("league", run, "--json")
    assert msgspec.json.decode(said, type=LeagueReport) == read_league(run)
    first = json.loads(said)["events"][0]
    assert first == {
        "step": 20,
        "league": "snapshot",
        "member": "learner-0@20",
        "parent": "learner-0",
        "reason": "every 20 steps",
        "changes": {},
    }


def test_pictures_are_drawn(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the extra plot")
    folder = tmp_path / "deep" / "plots"
    assert f"saved in   {folder}" in mage("league", run, "--plots", folder)
    names = ["anchors.png", "diversity.png", "nash-conv.png", "payoffs.png", "ratings.png"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.iterdir())
    json.loads(mage("league", run, "--plots", folder, "--json"))


def test_what_has_no_figures_is_not_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the extra plot")
    from mage.league.plots import league_figures

    league = new_league([anchor("copy")], [{}, {}]).with_results([MatchScore("learner-0", "copy", 0.5)], 3, 9.0)
    report = read_league(with_league(tmp_path / "run", league))
    rows = [{"step": n, "learner-0/rating": n / 10, "learner-1/nash_conv": None} for n in (1, 2)]
    drawn = dict(league_figures(report, rows))
    assert list(drawn) == ["ratings", "payoffs"]
    (curve,) = drawn["ratings"].axes[0].lines
    drawn_values: Any = curve.get_ydata()
    assert list(drawn_values) == [0.1, 0.2]
    assert [text.get_text() for text in drawn["payoffs"].axes[0].texts] == ["+0.50", "", "", "", "", ""]


def test_ratings_have_the_interval_of_what_they_rest_on(tmp_path: Path) -> None:
    """One learner against one anchor: half the score each way, and half the width of the score's interval."""
    scores = (0.0, 1.0, 0.0, 1.0, 0.0, 1.0)
    league = new_league([anchor("copy"), anchor("beat-last")], [{}])
    league = league.with_results([MatchScore("learner-0", "copy", score) for score in scores], 3, 1e12)
    report = read_league(with_league(tmp_path / "run", league))
    (payoff,) = report.payoffs
    assert payoff.score.value == pytest.approx(0.5)
    assert (payoff.results, payoff.updated) == (6, 3)
    assert payoff.score.high == pytest.approx(0.5 + 1.96 * (0.3 / 6) ** 0.5)
    ratings = {member.id: member.rating for member in report.members}
    ours, theirs = ratings["learner-0"], ratings["copy"]
    assert ours is not None
    assert theirs is not None
    assert [ours.value, theirs.value] == pytest.approx([0.25, -0.25])
    assert ours.high == pytest.approx(0.25 + 1.96 * (0.3 / 6) ** 0.5 / 2)
    assert ratings["beat-last"] is None, "nobody has met it"


def test_the_ratings_are_those_of_the_league(run: Path) -> None:
    saved = msgspec.json.decode((run / "league.json").read_bytes(), type=dict[str, msgspec.Raw])
    ratings = msgspec.json.decode(saved["league"], type=League).ratings()
    shown = {member.id: member.rating.value for member in read_league(run).members if member.rating is not None}
    assert shown == ratings


@pytest.mark.parametrize(("num", "half_life"), [(1, 9.0), (6, 1e-3)])
def test_one_result_that_is_not_forgotten_has_no_interval(tmp_path: Path, num: int, half_life: float) -> None:
    results = [MatchScore("learner-0", "copy", 0.5)] * num
    league = new_league([anchor("copy")], [{}]).with_results(results, 3, half_life)
    report = read_league(with_league(tmp_path / "run", league))
    assert [(payoff.score.low, payoff.score.high) for payoff in report.payoffs] == [(None, None)]
    assert "+0.25  " in printed(report)


def test_a_league_in_which_nobody_has_played_is_printed(tmp_path: Path) -> None:
    report = read_league(with_league(tmp_path / "run", new_league([anchor("copy")], [{}, {}])))
    assert [member.rating for member in report.members] == [None] * 3
    assert "nothing yet" in printed(report)


def test_foreign_text_is_shown_and_never_obeyed(tmp_path: Path) -> None:
    run = with_league(tmp_path / "run", new_league([anchor("copy")], [{}]))
    event = {"step": 1, "league": "evict", "member": "\x1b[2J", "parent": None, "reason": "[red]why[/red]\x07"}
    write_lines(run / "events.jsonl", [{"step": 1, "warning": "slow"}, event])
    text = mage("league", run)
    assert "\\x1b[2J" in text
    assert "[red]why[/red]\\x07" in text
    assert "slow" not in text, "other events are not the league's"


BROKEN: dict[str, tuple[str, str]] = {
    "{": ("league.json", "cannot be read"),
    '{"step": 1}': ("league.json", "cannot be read"),
    '{"step": 1, "league": {"members": [], "payoffs": {"cells": {}}, "hyper": {}, "drawn": {}}}': (
        "league.json",
        "has no learner",
    ),
}


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_league_is_one_line(tmp_path: Path, content: str) -> None:
    run = write_train_run(tmp_path / "run")
    (run / "league.json").write_text(content)
    with pytest.raises(RecordError) as refused:
        mage("league", run)
    assert all(part in str(refused.value) for part in BROKEN[content])


@pytest.mark.parametrize(
    ("column", "change", "says"),
    [
        ("nobody", {}, "pay-offs of 'nobody'"),
        ("copy", {"weight": 0.0}, "a pay-off without observations"),
        ("copy", {"weight_squares": 0.0}, "a pay-off without observations"),
        ("copy", {"count": 0}, "a pay-off without observations"),
    ],
)
def test_pay_offs_that_cannot_be_are_refused(tmp_path: Path, column: str, change: dict[str, object], says: str) -> None:
    league = new_league([anchor("copy")], [{}]).with_results([MatchScore("learner-0", "copy", 0.5)], 3, 9.0)
    run = with_league(tmp_path / "run", league)
    saved = json.loads((run / "league.json").read_text())
    cells = saved["league"]["payoffs"]["cells"]
    cells["learner-0"] = {column: cells["learner-0"]["copy"] | change}
    (run / "league.json").write_text(json.dumps(saved))
    with pytest.raises(RecordError, match=says):
        mage("league", run)


def test_a_broken_event_is_one_line(tmp_path: Path) -> None:
    run = with_league(tmp_path / "run", new_league([], [{}]))
    write_lines(run / "events.jsonl", [{"step": 1, "league": "evict", "member": 7}])
    with pytest.raises(RecordError, match="an event of the league that cannot be read"):
        mage("league", run)


def test_a_run_without_a_league_says_so(tmp_path: Path) -> None:
    write_train_run(tmp_path / "run")
    with pytest.raises(MageError, match=r"has no league; a train run with league.learners over 0"):
        mage("league", tmp_path / "run")
    with pytest.raises(MageError, match="does not exist"):
        mage("league", tmp_path / "nowhere")


def test_pictures_that_cannot_be_written_are_one_line(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot write to"):
        mage("league", run, "--plots", tmp_path / "file" / "plots")
