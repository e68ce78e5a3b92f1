"""What is shown and kept of an evaluation: tables that fit a terminal, reports that read back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from mage.config.load import load_config
from mage.errors import RecordError
from mage.evaluation.exact import References
from mage.evaluation.splits import load_split, make_split, split_names
from mage.evaluation.suite.evaluate import SplitReport, evaluate_split, evaluation_tasks, split_references
from mage.evaluation.suite.regret import mean_over_seats, score_parts, task_value
from mage.evaluation.suite.report import evaluation_report, read_report, to_json
from mage.evaluation.suite.report_tables import Seconds, evaluation_table, exact, interval, percent, summary_table
from mage.grouped import Units
from mage.stats import Estimate, proportion
from mage.types import Memory
from tests.evaluated import KUHN, SEVEN, evaluated, policy_agent, scripted
from tests.seated import WORLD


def printed(table: RenderableType, width: int = 80) -> list[str]:
    console = Console(width=width, force_terminal=False, markup=False, emoji=False, highlight=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get().splitlines()


def kuhn_report() -> SplitReport:
    return evaluated(policy_agent("uniform"), policy_agent("always:bet"), KUHN, 4, (0, 1))


def with_references(split: str, seats: Sequence[int]) -> SplitReport:
    """The figures of any agent under another split's name and references."""
    shipped = load_split(split)
    base = evaluated(policy_agent("uniform"), policy_agent("uniform"), SEVEN, 1)
    return msgspec.structs.replace(
        base, split=split, sha256=shipped.sha256, references=split_references(shipped, seats, base.episodes)
    )


def test_references_stand_beside_the_scores() -> None:
    reports = [with_references(name, (0,)) for name in ("rps-seven", "rps-trained", "rps-held-out")]
    reports = [*reports, kuhn_report()]
    lines = printed(summary_table(reports))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    bounds = [line.split()[2:] for line in lines if line.startswith("best memoryless")]
    assert [word for words in bounds for word in words if "/" in word] == ["22/63", "2/7", "2/5", "1/9"]
    limits = " ".join(line for line in lines if line.startswith("limit"))
    assert "157/648" in limits
    between = [lines[k - 1] for k, line in enumerate(lines) if line.startswith("limit")]
    assert [line.split()[:2] for line in between] == [["myopic", "Bayes"]] * 2
    assert between[0].split()[2] == "1"
    assert between[1].split()[-3:] == ["0.231", "to", "0.241"]
    assert all(f"{report.split}" in text for report in reports)
    assert text.count("score, episode 3") == 2, "four splits do not fit beside each other"
    assert text.count("Fixed tasks") == 1


def test_no_table_is_wider_than_a_terminal_or_loses_a_word() -> None:
    base = kuhn_report()
    reports = [msgspec.structs.replace(base, split=name) for name in split_names()]
    lines = printed(evaluation_table(reports))
    assert max(map(len, lines)) <= 80
    for name in split_names():
        assert name in "\n".join(lines)
    assert "…" not in "\n".join(lines)
    assert len(printed(summary_table(reports[:1]))) < 25
    assert len(printed(evaluation_table(reports[:1]))) < 60


def rows_of(report: SplitReport, seconds: Seconds | None = None) -> list[tuple[str, str]]:
    lines = printed(evaluation_table([report], seconds))
    return [(line[:26].strip(), line[26:].strip()) for line in lines]


def test_results_second_chances_cost_and_health_are_shown() -> None:
    report = evaluated(scripted(Memory.BOTH), scripted(Memory.NONE), SEVEN, 4)
    rows = rows_of(report, {"rps-seven": {"agent": 7.0, "control": 1.0}})
    cells = dict(rows)
    rates = report.agent.rates[0]
    shares = [100 * share.value for share in (rates.win, rates.draw, rates.loss)]
    assert cells["win/draw/loss, episode 1"] == "{:.0f}/{:.0f}/{:.0f} %".format(*shares)
    places = [name for name, _ in rows if name.startswith(("pass@", "if ", "without ")) and ":" not in name]
    assert places == [
        "pass@2 (%)",
        "if independent",
        "without memory",
        "pass@3 (%)",
        "if independent",
        "without memory",
    ]
    assert ("pass@2 (%)", percent(report.agent.passes[1].solved)) in rows
    assert ("if independent", percent(report.agent.passes[1].independent)) in rows
    assert ("without memory", percent(report.control.passes[1].solved)) in rows
    assert cells["seconds"] == "0.25"
    assert cells["tokens read"] == f"{report.agent.tokens_read / 28:,.0f}"
    assert cells["invalid/cut replies"] == f"0/0 of {report.agent.replies}"
    assert cells["failed trials"] == "0"
    assert "recovery" not in cells
    assert dict(rows_of(report))["seconds"] == "–"


def test_the_last_score_is_split_into_what_memory_and_exploration_gave() -> None:
    report = evaluated(scripted(Memory.BOTH), scripted(Memory.NONE), SEVEN, 4)
    last, cells = report.agent.scores[-1].value, dict(rows_of(report))
    assert report.parts is not None
    assert msgspec.structs.astuple(report.parts) == pytest.approx((22 / 63, last - 22 / 63, 0.0))
    assert cells["memoryless+memory+explore"] == f"0.35+{last - 22 / 63:.2f}+0"
    assert cells["value of memory/explore"] == "0.651/0"
    unlimited = [(seat, msgspec.structs.replace(found, bayes_last=None)) for seat, found in report.references]
    found = task_value(unlimited)
    assert found is not None
    assert found.memory == pytest.approx(1 - 22 / 63)
    assert found.exploration is None
    before = msgspec.structs.replace(report, parts=None, task_value=None)
    assert {"memoryless+memory+explore", "value of memory/explore"}.isdisjoint(dict(rows_of(before)))


@given(st.floats(-2, 3), st.floats(-1, 1), st.floats(0, 1))
def test_the_parts_of_a_score_sum_to_it(score: float, memoryless: float, gap: float) -> None:
    parts = score_parts(score, memoryless, memoryless + gap)
    assert parts.memoryless + parts.memory + parts.exploration == pytest.approx(score, abs=1e-9)
    assert min(parts.memory, parts.exploration) >= 0
    assert parts.memory <= gap + 1e-9


def test_what_a_switch_costs_is_shown() -> None:
    split = load_split("rps-switching")
    some = msgspec.structs.replace(split, members=split.members[:4])
    tasks = evaluation_tasks(some, episodes=6, seats=(0,), trials=1, seed=7)
    report = asyncio.run(evaluate_split(WORLD, scripted(Memory.BOTH), scripted(Memory.NONE), some, tasks))
    found = report.agent.recovery
    assert found is not None
    assert len(found.after) == 3, "switches come after two or three episodes of six"
    cells = dict(rows_of(report))
    assert cells["last score before"] == interval(found.before)
    assert cells["episode 3 after"] == interval(found.after[2])
    assert cells["recovery"].count(" to ") == 1
    assert "score, episode 6" in cells


def test_long_trials_are_shown_in_part() -> None:
    tasks = evaluation_tasks(SEVEN, episodes=30, seats=(0,), trials=1, seed=7)
    report = asyncio.run(evaluate_split(WORLD, policy_agent("uniform"), policy_agent("uniform"), SEVEN, tasks))
    shown = [name for name, _ in rows_of(report) if name.startswith("score, episode")]
    assert shown == [f"score, episode {k}" for k in (1, 2, 3, 6, 12, 18, 24, 30)]
    assert "pass@30 (%)" in dict(rows_of(report))


def test_the_last_episode_is_shown_of_every_length() -> None:
    reports = []
    for episodes in (5, 20):
        tasks = evaluation_tasks(SEVEN, episodes=episodes, seats=(0,), trials=1, seed=7)
        found = asyncio.run(evaluate_split(WORLD, policy_agent("uniform"), policy_agent("uniform"), SEVEN, tasks))
        reports.append(msgspec.structs.replace(found, split=f"of {episodes}"))
    lines = printed(evaluation_table(reports))
    (fifth,) = [line for line in lines if line.startswith("score, episode 5 ")]
    assert interval(reports[0].agent.scores[-1]) in fifth
    assert [line.split()[0] for line in lines if line.startswith("pass@")] == ["pass@2", "pass@3", "pass@5", "pass@20"]


def test_shares_show_both_ends_of_their_intervals() -> None:
    assert percent(proportion(40, 40)) == "100 (91.2–100)", "±4.4 would leave out the lower half of it"
    assert percent(proportion(0, 10)) == "0.0 (0.0–30.8)"


def test_a_reference_that_is_missing_for_one_seat_is_a_dash() -> None:
    (_, first), (_, second) = split_references(KUHN, (0, 1), 3)
    without: References = msgspec.structs.replace(second, memoryless=None)
    assert exact(mean_over_seats([(0, first), (1, second)], "memoryless")) == "1/9 = 0.111"
    assert exact(mean_over_seats([(0, first), (1, without)], "memoryless")) == "–"
    assert exact(mean_over_seats([], "memoryless")) == "–"
    assert interval(Estimate(-1e-9, -0.5, 0.5)) == "0 ±0.500"
    assert interval(Estimate(-0.25, -0.5, 0.0)) == "-0.250 ±0.250"


def test_a_report_of_before_reads_without_what_it_did_not_know() -> None:
    values = msgspec.json.decode(msgspec.json.encode(kuhn_report()))
    for key in ("units", "score_range", "parts", "task_value"):
        values.pop(key, None)
    for _, references in values["references"]:
        del references["myopic"]
    old = msgspec.json.decode(msgspec.json.encode(values), type=SplitReport)
    assert (old.units, old.score_range, old.parts, old.task_value) == (Units.TRIALS, None, None, None)
    cells = dict(rows_of(old))
    assert cells["myopic Bayes"] == "–"
    assert cells["limit"].startswith("157/648")


def test_a_report_reads_back_with_all_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/mage", "evaluate", "my run"])
    config = load_config("rps", ["evaluation.seed=11"])
    report = evaluation_report([kuhn_report()], config, 42)
    assert (report.command, report.step, report.seed) == ("mage evaluate 'my run'", 42, 11)
    assert report.config == config.model_dump(mode="json")
    assert {"mage", "python", "open_spiel", "torch"} <= set(report.versions)
    assert "CPU" in report.machine
    path = tmp_path / "report.json"
    path.write_bytes(to_json(report))
    assert report.eval_agent == {"name": "nano"}
    assert b'"seats": [0, 1]' in path.read_bytes(), "rows of numbers stay on a line"
    assert b'"weights=[0.25, 0.75]' not in path.read_bytes(), "and texts as they are"
    assert read_report(path, SplitReport) == report
    assert to_json(read_report(path, SplitReport)) == to_json(report)


@pytest.mark.parametrize("content", [b"[]", b"{", b"\xff", None])
def test_a_report_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "report.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordError, match=r"report\.json is not a report that can be read"):
        read_report(path, SplitReport)


def test_a_report_of_another_version_is_refused_with_a_way_out(tmp_path: Path) -> None:
    content = msgspec.json.decode(to_json(evaluation_report([kuhn_report()], load_config("rps"), 1)))
    del content["reports"][0]["tasks"]
    path = tmp_path / "report.json"
    path.write_bytes(msgspec.json.encode(content))
    with pytest.raises(
        RecordError, match=r"missing required field `tasks`.*another version of mage wrote it: evaluate"
    ):
        read_report(path, SplitReport)


def test_texts_in_a_report_keep_their_brackets(tmp_path: Path) -> None:
    odd = {"name": "map=[0,  1]", "text": "[\n 1,\n 2]", "list": [1, 2], "mixed": [[1], ["a", 2]], "none": []}
    report = evaluation_report([kuhn_report()], load_config("rps"), 1, eval_agent=odd, seconds={"a": {"agent": 1.5}})
    path = tmp_path / "report.json"
    path.write_bytes(to_json(report))
    assert read_report(path, SplitReport).eval_agent == odd
    assert read_report(path, SplitReport).seconds == {"a": {"agent": 1.5}}


def test_one_trial_alone_has_scores_and_no_interval(tmp_path: Path) -> None:
    rock = make_split("rock", "", SEVEN.world, ("always:rock",), held_out=False)
    report = evaluated(scripted(Memory.BOTH), scripted(Memory.NONE), rock, 1)
    assert report.num_trials == 1
    assert report.agent.scores == tuple(Estimate(value, None, None) for value in (0.0, 1.0, 1.0))
    assert report.over_control == report.agent.adaptation == Estimate(1.0, None, None)
    assert not report.over_control.is_over(0.0), "which is evidence of nothing"
    assert not report.over_control.holds(1.0)
    cells = {tuple(line.split()[-2:]) for line in printed(summary_table([report])) if "±" in line}
    assert cells == {("0", "±n/a"), ("+1.000", "±n/a")}
    path = tmp_path / "report.json"
    path.write_bytes(to_json(evaluation_report([report], load_config("rps"), 1)))
    assert b'"low": null' in path.read_bytes()
    assert read_report(path, SplitReport).reports == (report,)
