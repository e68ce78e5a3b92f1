"""Comparisons: goldens of the tables, means over seeds, ties, and what the files state."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from mage.cli import app
from mage.errors import RecordError
from mage.evaluation.compare.columns import printed_episodes
from mage.evaluation.compare.markup import escape_latex
from mage.evaluation.compare.significance import Mark, Pairing
from mage.evaluation.compare.tables import all_tables, as_csv, notes
from mage.evaluation.exact import MyopicScores
from mage.evaluation.suite.report import to_json
from mage.files import read_lines
from mage.stats import Estimate, mean
from tests.compared import (
    GOLDEN,
    compared,
    golden_tables,
    made_inputs,
    made_report,
    made_split,
    scores,
    written,
)
from tests.test_docs import JUDGED, MODEL, SMALL, blocks, commands


@pytest.fixture
def everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    return made_inputs(Path())


def test_golden_tables(everything: list[str]) -> None:
    """After a change that is meant: `python -m tests.compared`, then review the difference."""
    found = golden_tables(everything)
    assert sorted(found) == sorted(path.name for path in GOLDEN.iterdir())
    for name, content in found.items():
        assert content == (GOLDEN / name).read_text(encoding="utf-8"), name


def test_latex_prints_what_is_written() -> None:
    assert escape_latex("a_b & 50% {x} #1 $ ^ ~ \\ <|>") == (
        r"a\_b \& 50\% \{x\} \#1 \$ \textasciicircum{} \textasciitilde{} \textbackslash{} "
        r"\textless{}\textbar{}\textgreater{}"
    )
    assert escape_latex("step-1 to -2.5, (-3)") == "step-1 to $-$2.5, ($-$3)"


def test_seeds_are_one_row_with_students_interval(everything: list[str]) -> None:
    row = compared(*everything).tables[0].rows[0]
    assert (row.method, row.seeds, row.num_trials) == ("mage", (0, 1, 2), 24)
    assert row.scores[2] == mean([0.9, 0.92, 0.91])
    assert row.metrics["regret"].estimate.value == pytest.approx(0.09)


def test_one_report_keeps_its_interval_over_trials(everything: list[str]) -> None:
    comparison = compared(*everything)
    row = comparison.tables[0].rows[2]
    assert (row.method, row.seeds) == ("copy", ())
    assert row.scores[2] == made_split(scores(0.7)).agent.scores[2]
    assert (row.tokens, row.seconds) == (100.0, 0.5)
    assert any("intervals over trials" in note and "copy" in note for note in notes(comparison))


def test_other_tasks_are_not_called_the_same(tmp_path: Path) -> None:
    one = written(tmp_path / "a.json", made_split(scores(0.5)), name="copy")
    other = msgspec.structs.replace(made_report(made_split(scores(0.3)), name="uniform"), seed=8)
    (tmp_path / "b.json").write_bytes(to_json(other))
    comparison = compared(one, str(tmp_path / "b.json"))
    assert comparison.tables[0].rows[1].metrics["score_3"].standing.pairing is Pairing.NONE
    assert "of several evaluation seeds" in notes(comparison)[0]


def test_pairs_are_what_the_reports_share(everything: list[str]) -> None:
    first, second = compared(*everything).tables
    standing = {row.method: row.metrics["score_3"].standing for row in first.rows}
    assert standing["mage"].mark is Mark.BEST
    assert (standing["grpo"].pairing, standing["copy"].pairing) == (Pairing.SEED, Pairing.NONE)
    behind = second.rows[0].metrics["score_3"].standing
    assert (behind.mark, behind.pairing) == (Mark.NONE, Pairing.TRIAL), "no scatter in the pairs"
    assert behind.behind is not None
    assert behind.behind.estimate == Estimate(0.25, None, None)


def test_costs_come_from_the_runs(everything: list[str]) -> None:
    table = compared(*everything).tables[0]
    assert [cost.method for cost in table.costs] == ["mage", "grpo"]
    mage_cost, grpo_cost = table.costs
    bound, most = mage_cost.reached.values()
    assert bound.tokens is not None
    assert most.tokens is not None
    assert (bound.tokens.value, most.tokens.value, most.num) == (6000.0, 10_000.0, 3)
    assert [found.num for found in grpo_cost.reached.values()] == [2, 0], "0.1 stays under the bound of 0.25"


def test_other_lengths_and_seats_are_other_tables(tmp_path: Path) -> None:
    short = written(tmp_path / "a.json", made_split([[0.1, 0.2]] * 2), name="copy")
    long = written(tmp_path / "b.json", made_split([[0.1, 0.2, 0.3]] * 2), name="copy")
    both = written(tmp_path / "c.json", made_split([[0.1, 0.2]] * 2, seats=(0, 1)), name="copy")
    names = [table.name for table in compared(short, long, both).tables]
    assert names == ["two, 2 episodes, seats 0", "two, 3 episodes", "two, 2 episodes, seats 0 and 1"]


def test_long_trials_have_a_column_for_some_episodes_and_a_line_for_all(tmp_path: Path) -> None:
    report = written(tmp_path / "a.json", made_split([[0.1] * 30] * 2), name="copy")
    comparison = compared(report)
    (sheet,) = all_tables(comparison, ())
    assert [name for name in sheet.head if name.startswith("episode")][-2:] == ["episode 20", "episode 30 (last)"]
    lines = list(csv.DictReader(as_csv(comparison, ()).splitlines()))
    assert sum(line["figure"].startswith("score_") for line in lines) == 32, "30 episodes, the bound and the limit"
    assert printed_episodes(6) == {1, 2, 3, 4, 5, 6}


def test_myopic_bayes_stands_between_the_bound_and_the_limit(tmp_path: Path) -> None:
    split = made_split([[0.1, 0.2]] * 2, myopic=MyopicScores(0.5, 0.625, 0.75))
    old = written(tmp_path / "a.json", made_split([[0.1, 0.3]] * 2), name="older")
    comparison = compared(old, written(tmp_path / "b.json", split, name="copy"))
    (sheet,) = all_tables(comparison, ())
    rows = {row[0].text: [cell.text for cell in row if cell.text] for row in sheet.rows[-sheet.num_references :]}
    assert rows == {
        "best memoryless": ["best memoryless", "1/4 = 0.250", "3/4 = 0.750"],
        "myopic Bayes": ["myopic Bayes", "0.500 to 0.750", "0.250 to 0.500"],
        "limit": ["limit", "1", "0"],
    }
    lines = list(csv.DictReader(as_csv(comparison, ()).splitlines()))
    (line,) = [line for line in lines if line["method"] == "myopic Bayes"]
    assert (line["figure"], line["value"], line["low"], line["high"], line["interval"]) == (
        *("score_2", "0.625", "0.5", "0.75"),
        "ties",
    )


def test_the_files_state_what_they_are_made_of(everything: list[str]) -> None:
    out = Path("out")
    done = CliRunner().invoke(app, ["compare", *everything, "-o", str(out), "--no-plots"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "saved in    out" in done.output
    told = json.loads((out / "sources.json").read_text())
    assert told["files"] == ["table.md", "table.csv", "table.tex"]
    assert {"mage", "python", "open_spiel"} <= set(told["versions"])
    assert [(s["method"], s["seed"]) for s in told["sources"]][:6] == [
        (m, s) for m in ("mage", "grpo") for s in range(3)
    ]
    copy = told["sources"][6]
    assert (copy["method"], copy["seed"], copy["task_seed"]) == ("copy", None, 7)
    assert (copy["command"], copy["versions"]["commit"]) == ("mage evaluate copy", "abc1234")
    assert copy["splits"] == {"two": "a" * 64, "odd_split": "a" * 64}
    for name in ("table.md", "table.tex"):
        text = (out / name).read_text(encoding="utf-8")
        assert "mage evaluate copy" in text, name
        assert "mage abc1234" in text, name


def test_a_comparison_replaces_an_earlier_one_and_nothing_else(everything: list[str], tmp_path: Path) -> None:
    out = Path("out")
    CliRunner().invoke(app, ["compare", *everything, "-o", "out", "--no-plots"], catch_exceptions=False)
    (out / "mine.txt").write_text("kept")
    (out / "table.csv").write_text("old")
    CliRunner().invoke(app, ["compare", *everything, "-o", "out", "--no-plots"], catch_exceptions=False)
    assert (out / "mine.txt").read_text() == "kept"
    assert (out / "table.csv").read_text().startswith("split,")
    with pytest.raises(RecordError, match="runs is not empty and holds no comparison"):
        CliRunner().invoke(app, ["compare", *everything, "-o", "runs", "--no-plots"], catch_exceptions=False)


def test_the_page_about_comparing_on_a_real_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="plots need the extra plot")
    monkeypatch.chdir(tmp_path)
    values = {**SMALL, **JUDGED, "agent.model": MODEL, "evaluation.every": 1, "evaluation.trials": 1}
    tiny = ["steps=2", "agent.context=512", *(f"{key}={json.dumps(value)}" for key, value in values.items())]
    more = {"sweep": tiny, "evaluate": ["--trials", "2"], "compare": ["--no-plots"]}
    given = commands("compare.md")
    assert [verb for _, (_, verb, *_) in given] == list(more)
    for _, (_, verb, *arguments) in given:
        done = CliRunner().invoke(app, [verb, *arguments, *more[verb]], catch_exceptions=False)
        assert done.exit_code == 0, (verb, done.output)
    assert "22/63 = 0.349" in done.output
    (code,) = [block.text for block in blocks("compare.md") if block.info == "python then"]
    names: dict[str, Any] = {}
    exec(compile(code, "compare.md", "exec"), names)
    (table,) = names["made"].comparison.tables
    assert [(row.method, row.seeds) for row in table.rows] == [
        ("rps", (0, 1)),
        ("rps+grpo", (0, 1)),
        ("bayes-optimal", ()),
    ]
    assert (table.rows[2].scores[2].value, table.rows[2].metrics["regret"].estimate.value) == pytest.approx((1.0, 0.0))
    assert [found.of for found in table.costs[0].reached.values()] == [2, 2]
    timings = list(read_lines(Path("sweep") / "rps-seed0" / "timings.jsonl"))
    assert [timing["evaluation_s"] > 0 for timing in timings] == [False, True], (
        "the first evaluation is in the second step"
    )
    spent = sum(timing["step_s"] - timing["evaluation_s"] for timing in timings)
    (history,) = [e.history for e in names["made"].comparison.entries if (e.method, e.seed) == ("rps", 0)]
    assert history.seconds == pytest.approx(spent)
    assert sorted(path.name for path in Path("comparison").iterdir()) == [
        "plots",
        "sources.json",
        "table.csv",
        "table.md",
        "table.tex",
    ]
