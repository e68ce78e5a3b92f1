"""Pictures: what is drawn, counted on the figures themselves, and files that hold something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.errors import ConfigError
from mage.evaluation.compare.comparison import SplitTable
from mage.evaluation.compare.plots import (
    AXES,
    MOST_ROWS,
    episodes_figure,
    evaluated_lines,
    exploitation_figure,
    payoff_figure,
)
from mage.evaluation.crossplay import CrossPlayReport, PairResult
from mage.evaluation.exact import MyopicScores
from mage.evaluation.suite.report import to_json, world_report
from mage.plot_style import MOST_TOGETHER, Line, line_figure
from mage.stats import Estimate
from tests.compared import compared, made_inputs, made_run, made_split, recipe, scores, written

pytest.importorskip("matplotlib", reason="plots need the extra plot")


def table_of(folder: Path, num_methods: int, **changes: Any) -> SplitTable:
    """So many methods with one report each."""
    reports = [
        written(folder / f"{number}.json", made_split(scores(number / 10), **changes), name=f"method {number}")
        for number in range(num_methods)
    ]
    return compared(*reports).tables[0]


def labels(figure: Any) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_scores_by_episode_have_bands_dashed_controls_and_bounds(tmp_path: Path) -> None:
    figure = episodes_figure(table_of(tmp_path, 2))
    (panel,) = figure.axes
    assert len(panel.lines) == 2 + 2 + 2, "two methods, two without memory, bound and limit"
    assert len(panel.collections) == 2, "a band for each method"
    assert labels(figure) == ["method 0", "method 1", "memory off"]
    drawn: dict[str, Any] = {str(line.get_label()): line.get_ydata() for line in panel.lines}
    assert list(drawn["method 1"]) == pytest.approx([0.0, 0.05, 0.1])
    assert [text.get_text() for text in panel.texts] == ["best\nmemoryless", "limit"]
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("episode\n(bands: 95 % intervals)", "score")
    assert [float(tick) for tick in panel.get_xticks() if 1 <= tick <= 3] == [1.0, 2.0, 3.0]


def test_bounds_that_are_not_known_are_not_drawn(tmp_path: Path) -> None:
    (panel,) = episodes_figure(table_of(tmp_path, 1, limit=None, memoryless=None)).axes
    assert len(panel.lines) == 2
    assert not panel.texts


@pytest.mark.parametrize(
    ("high", "names"),
    [
        (0.25, ["best\nmemoryless", "limit"]),
        (1.0, ["best\nmemoryless", "limit"]),
        (0.9, ["best\nmemoryless", "limit", "myopic\nBayes"]),
    ],
)
def test_myopic_bayes_is_a_line_only_where_it_differs_from_bound_and_limit(
    tmp_path: Path, high: float, names: list[str]
) -> None:
    (panel,) = episodes_figure(table_of(tmp_path, 1, myopic=MyopicScores(0.25, 0.25, high))).axes
    assert [text.get_text() for text in panel.texts] == names
    assert len(panel.lines) == 2 + len(names)
    if len(names) == 3:
        assert panel.lines[-1].get_ydata() == [high, high]
        assert panel.texts[-1].get_verticalalignment() == "top", "below its line, since the limit is near above it"


def test_many_methods_get_a_panel_each(tmp_path: Path) -> None:
    num = MOST_TOGETHER + 1
    figure = episodes_figure(table_of(tmp_path, num))
    assert len(figure.axes) == num
    for panel in figure.axes:
        assert len(panel.lines) == (num - 1) + 2 + 2, "the others in grey, its own, without memory, and the bounds"
    assert [panel.get_title() for panel in figure.axes] == [f"method {number}" for number in range(num)]
    assert "dashed: memory off, dotted: best memoryless, grey line: limit" in figure.get_suptitle()
    assert not figure.legends


def test_wide_bands_do_not_flatten_the_lines() -> None:
    line = Line("a", [1, 2], [0.0, 1.0], [-9.0, -9.0], [9.0, 1.1])
    limited = line_figure([line], "", ("", ""), {}, widest=0.25)
    assert limited.axes[0].get_ylim() == pytest.approx((-0.29, 1.29))
    free = line_figure([line], "", ("", ""), {"limit": 20.0})
    assert free.axes[0].get_ylim() == pytest.approx((-9.8, 20.8))


def test_learning_is_the_mean_of_seeds_at_the_steps_that_all_have(tmp_path: Path) -> None:
    runs = [
        made_run(
            tmp_path / f"run-seed{seed}",
            made_split(scores(0.5)),
            config=recipe(1, seed),
            curves={"two": [(5, 0.25 + seed), (8 + seed, 7.0), (10, 0.5 + seed)]},
            num_tokens=100.0 * (seed + 1),
        )
        for seed in (0, 1)
    ]
    comparison = compared(*runs)
    ((steps,), (tokens,), (seconds,)) = (evaluated_lines(comparison, comparison.tables[0], axis) for axis in AXES)
    assert (steps.x, steps.y, steps.low, steps.high) == ([5.0, 10.0], [0.75, 1.0], [0.25, 0.5], [1.25, 1.5])
    assert (tokens.x, tokens.y) == ([750.0, 1500.0], [0.75, 1.0])
    assert seconds.x == [5.0, 10.0]


def test_two_seeds_show_their_range(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path / f"run-seed{seed}", made_split(scores(0.5 + seed / 4)), config=recipe(1, seed))
        for seed in (0, 1)
    ]
    (panel,) = episodes_figure(compared(*runs).tables[0]).axes
    assert panel.get_xlabel() == "episode\n(bands: 95 % intervals, of two seeds their range)"
    (band,) = panel.collections
    corners: Any = band.get_paths()[0].vertices
    assert {(float(x), float(y)) for x, y in corners if x == 3.0} == {(3.0, 0.5), (3.0, 0.75)}


def test_one_seed_is_drawn_as_it_is(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", made_split(scores(0.5)), config=recipe(1), curves={"two": [(5, 0.1), (10, 0.3)]})
    comparison = compared(run)
    (line,) = evaluated_lines(comparison, comparison.tables[0], AXES[0])
    assert (line.x, line.y, line.low) == ([5.0, 10.0], [0.1, 0.3], [0.1, 0.3])


def test_exploitation_is_a_heat_map_with_its_numbers(tmp_path: Path) -> None:
    table = table_of(tmp_path, 2, exploitation={"copy": 0.75, "uniform": None, "always(rock)": -0.5})
    (panel,) = exploitation_figure(table).axes
    assert [text.get_text() for text in panel.get_yticklabels()] == ["copy", "always(rock)"]
    assert [text.get_text() for text in panel.texts] == ["0.75", "0.75", "-0.50", "-0.50"]
    (image,) = panel.images
    assert image.get_clim() == (-0.5, 1.0)


def test_without_an_opponent_that_all_have_a_figure_for_there_is_no_picture(tmp_path: Path) -> None:
    one = written(tmp_path / "a.json", made_split(scores(0.5), exploitation={"copy": 0.5, "uniform": None}), name="a")
    two = written(tmp_path / "b.json", made_split(scores(0.5), exploitation={"copy": None, "uniform": 0.5}), name="b")
    assert list(mage.compare(one, two).figures()) == ["episodes-two"]


def test_of_many_opponents_the_spread_is_shown(tmp_path: Path) -> None:
    many = {f"opponent {number}": number / 100 for number in range(MOST_ROWS + 1)}
    (panel,) = exploitation_figure(table_of(tmp_path, 2, exploitation=many)).axes
    drawn: list[Any] = [line.get_xdata() for line in panel.lines]
    assert [len(values) for values in drawn] == [MOST_ROWS + 1, 2, MOST_ROWS + 1, 2, 2, 2]
    assert [text.get_text() for text in panel.get_yticklabels()] == ["method 0", "method 1"]


def meeting() -> CrossPlayReport:
    def cell(row: str, column: str, value: float) -> PairResult:
        return PairResult(row, column, Estimate(value, value - 0.25, value + 0.25), (), (), None, None, None, 3)

    cells = (cell("copy", "uniform", 0.5), cell("uniform", "copy", -0.5))
    return CrossPlayReport("rps(rounds=3)", 3, 4, ("copy", "uniform"), cells, (), {}, 0, 0)


def test_the_pay_off_matrix_has_its_intervals(tmp_path: Path) -> None:
    (panel,) = payoff_figure(meeting()).axes
    assert [text.get_text() for text in panel.texts] == ["", "+0.50\n±0.25", "-0.50\n±0.25", ""]
    (image,) = panel.images
    assert image.get_clim() == (-0.5, 0.5)
    path = tmp_path / "crossplay.json"
    path.write_bytes(to_json(world_report(meeting(), [], 0)))
    made = mage.compare(path)
    assert list(made.figures()) == ["payoffs-1"]
    out = made.write(tmp_path / "out")
    assert "| copy | – | +0.500 ±0.250 |" in (out / "table.md").read_text(encoding="utf-8")
    assert "copy,score against uniform,0.5,0.25,0.75,trials" in (out / "table.csv").read_text(encoding="utf-8")


def test_pictures_are_written_and_are_the_same_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["compare", *made_inputs(Path())]
    assert CliRunner().invoke(app, [*arguments, "-o", "out"], catch_exceptions=False).exit_code == 0
    files = {path.name: path.read_bytes() for path in Path("out/plots").iterdir()}
    names = ["episodes-two", "episodes-odd_split", *(f"learning-two-{axis.name}" for axis in AXES)]
    assert sorted(files) == sorted(f"{name}.{ending}" for name in names for ending in ("png", "svg"))
    for name, content in files.items():
        assert content.startswith(b"\x89PNG" if name.endswith("png") else b"<?xml"), name
        assert len(content) > 4000, name
    told = msgspec.json.decode(Path("out/sources.json").read_bytes())
    assert {f"plots/{name}" for name in files} < set(told["files"])
    CliRunner().invoke(app, [*arguments, "-o", "again"], catch_exceptions=False)
    again = {path.name: path.read_bytes() for path in Path("again/plots").iterdir()}
    assert [name for name in files if files[name] != again[name]] == []


def test_names_are_not_read_as_formulas(tmp_path: Path) -> None:
    report = written(tmp_path / "a.json", made_split(scores(0.5)), name="$a_$ and ^$")
    out = mage.compare(report).write(tmp_path / "out")
    assert "$a_$ and ^$" in (out / "plots" / "episodes-two.svg").read_text(encoding="utf-8")


def test_training_scores_are_drawn_by_pool(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path / name, made_split(scores(0.5)), config=recipe(number), training=[0.1 * number] * 10)
        for number, name in enumerate(("one", "two"), start=1)
    ]
    metrics = mage.compare(*runs).figures()
    assert [name for name in metrics if name.startswith("training")] == [f"training-1-{axis.name}" for axis in AXES]
    (panel,) = metrics["training-1-steps"].axes
    drawn: list[Any] = [line.get_ydata() for line in panel.lines]
    assert [list(values) for values in drawn] == [pytest.approx([0.1] * 10), pytest.approx([0.2] * 10)]


def test_without_matplotlib_it_is_one_line_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = written(tmp_path / "a.json", made_split(scores(0.5)), name="copy")
    monkeypatch.setattr("mage.extras.find_spec", lambda _: None)
    made = mage.compare(report)
    with pytest.raises(ConfigError, match=r"plots need the extra plot: pip install .*\[plot\]'"):
        made.write(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert (made.write(tmp_path / "out", plots=False) / "table.md").exists()
