"""`mage value` and `mage.value`: tables, JSON that reads back, plots, worlds of one's own, and errors in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.errors import ConfigError, MageError, RecordError
from mage.evaluation.splits import write_split
from mage.evaluation.value.dial import Variation, parse_variation
from mage.evaluation.value.report import ValueRequest
from mage.evaluation.value.value_file import make_value_file, read_json
from mage.spec import with_parameters

OWN = '''
import mage


class Safe(mage.SoloWorld):
    """A safe with three codes. Try a code or walk away; a clerk sells the code."""

    def __init__(self, price=0.0):
        self.price, self.lowest, self.highest = price, min(0.0, -price), max(1.0, -price)

    def hidden(self):
        return {"1": 2, "2": 1, "3": 1}

    def actions(self, hidden, tried):
        return "" if tried else ["1", "2", "3", "walk", "buy"]

    def tell(self, hidden, tried):
        return hidden if tried == ("buy",) else "Open." if tried == (hidden,) else "Shut."

    def score(self, hidden, tried):
        return {(): 0.0, ("walk",): 0.6, ("buy",): -self.price}.get(tried, float(tried == (hidden,)))


mage.register_world("safe", Safe)
'''


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["value", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def line_of(printed: str, start: str) -> list[str]:
    (found,) = [line for line in printed.splitlines() if line.startswith(start)]
    return found.removeprefix(start).split()


def test_the_table_says_what_a_task_needs() -> None:
    printed = run("hidden(doors)", "--words", "2", "--last-episode")
    assert line_of(printed, "M   best without memory") == ["0.500"]
    assert line_of(printed, "G   myopic Bayes") == ["0.500", "1.500"]
    assert line_of(printed, "B   best last episode") == ["1.000", "2.000"]
    assert line_of(printed, "value of exploration, B - G+") == ["0.500"]
    assert line_of(printed, "price of exploring, C's sum - B's sum") == ["0"]
    assert line_of(printed, "differential 0.6 (MAGE)") == ["0.333", "0.667", "1.000", "2.000"]
    assert line_of(printed, "at least") == ["0.500", "0.667", "1.000"]
    assert "\nneeds exploration: paying each episode for itself ends at 0.5 of 1\n" in printed
    assert "lower bounds" in printed


def test_a_split_of_opponents_and_a_seat_are_named() -> None:
    printed = run("kuhn_poker", "--opponents", "kuhn-scripts", "--seat", "0", "--discount", "0.9")
    assert printed.startswith("kuhn_poker, seat 0: conservative, aggressive, intermediate, trials of 3 episodes\n")
    assert line_of(printed, "G-  myopic Bayes, worst ties")[:2] == ["0.216", "35/162"]
    assert line_of(printed, "F   told what is hidden") == ["0.278", "5/18"]
    assert line_of(printed, "cumulative 0.9 (LaMer)")[-1] == "0.475"
    assert "where ties break badly" in " ".join(printed.split())


def test_opponents_with_weights_are_a_mixture_that_is_drawn_for_a_trial() -> None:
    pool = "mixture(conservative,aggressive,each=trial,weights=[0.25,0.75])"
    mixed = mage.value("kuhn_poker", opponents=[pool]).report
    write_split("mine.json", "kuhn_poker", ["conservative", "aggressive"])
    even = mage.value("kuhn_poker", opponents=["mine.json"]).report
    given = mage.value("kuhn_poker", opponents=["aggressive", "conservative"]).report
    assert mixed.members == ((pool, 1.0),)
    assert mixed.memoryless != even.memoryless == given.memoryless
    assert (even.best_last, even.informed) == (given.best_last, given.informed)


def test_levels_are_members_of_a_world_of_one_seat() -> None:
    two = mage.value("hidden(haggling)", opponents=["1", "3"]).report
    assert two.members == (("1", 0.5), ("3", 0.5))
    assert (two.memoryless, two.informed) == (1.5, 2.0)


def test_json_reads_back_equal_and_can_be_printed_alone() -> None:
    run("hidden(scout)", "--episodes", "2", "--vary", "look=-0.6:0.1:8", "--json", "out/value.json", "--words", "2")
    found = read_json(Path("out/value.json"))
    request = ValueRequest("hidden(scout)", episodes=2, words=2)
    assert found == make_value_file(request, vary="look=-0.6:0.1:8")
    assert found.dial is not None
    assert len(found.dial.points) == 8
    document = json.loads(run("hidden(doors)", "--json", "-", "--words", "2"))
    assert document["verdict"] == "needs exploration: paying each episode for itself ends at 0.5 of 1"
    assert document["report"]["exploration"] == 0.5
    assert document["report"]["words_at_least"] == [0.5, pytest.approx(2 / 3)]
    assert document["report"]["myopic"]["low"] == [0.5, 0.5, 0.5]
    assert (document["curve"], document["dial"]) == ([], None)
    Path("other.json").write_text("{}")
    with pytest.raises(RecordError, match=r"other.json holds no values of a task"):
        read_json(Path("other.json"))


def test_bounds_are_called_bounds_in_json() -> None:
    (bound, *_) = json.loads(run("2048", "--samples", "2", "--json", "-"))["report"]["bounds"]
    assert (bound["of"], bound["kind"], bound["how"]) == (
        "memoryless",
        "upper bound",
        "the highest score of the world",
    )


def test_the_dial_is_printed_and_drawn() -> None:
    printed = run("hidden(scout)", "--episodes", "2", "--vary", "look=-1:0.1:12", "--plot", "dial.svg")
    assert line_of(printed.partition("jumps")[2], "cumulative 0.6 (LaMer)") == ["-0.050000", "0.500", "1.000"]
    assert line_of(printed.partition("jumps")[2], "final") == ["no", "jump", "1.000", "1.000"]
    drawn = Path("dial.svg").read_text()
    assert all(text in drawn for text in ("differential 0.6 (MAGE)", "look", "last score", "hidden(scout), 2 episodes"))


def test_the_curve_is_drawn_the_same_each_time() -> None:
    run("hidden(recipe)", "--episodes", "4", "--plot", "a.png", "--json", "curve.json")
    run("hidden(recipe)", "--episodes", "4", "--plot", "b.png")
    assert Path("a.png").read_bytes()[:4] == b"\x89PNG"
    assert Path("a.png").read_bytes() == Path("b.png").read_bytes()
    assert [point.episodes for point in read_json(Path("curve.json")).curve] == [1, 2, 3, 4]


@pytest.mark.usefixtures("own_names")
def test_a_world_of_ones_own_is_valued_with_its_parameter() -> None:
    Path("safe.py").write_text(OWN)
    printed = run("safe", "--import", "safe.py", "--episodes", "2", "--vary", "price=-1:0.1:12")
    assert line_of(printed, "M   best without memory") == ["0.600"]
    assert line_of(printed, "B   best last episode") == ["1.000", "1.000"]
    # With the weights 1 and w buying pays w - price, the likely code 0.5 + 0.8 w, walking away 0.6 + 0.6 w.
    found = mage.value("safe", episodes=2, vary="price=-1:0.1:12").dial
    assert found is not None
    assert {each.objective: each.value for each in found.thresholds} == {
        "single": pytest.approx(-0.6, abs=1e-9),
        "cumulative": pytest.approx(-0.38, abs=1e-9),
        "sum": pytest.approx(-0.3, abs=1e-9),
        "differential": pytest.approx(-0.2, abs=1e-9),
    }
    assert line_of(printed.partition("jumps")[2], "single (GRPO)") == ["-0.600000", "1.000", "0.600"]


def test_results_print_and_draw_what_was_asked_for() -> None:
    found = mage.value("hidden(doors)", curve=True)
    assert "needs exploration" in str(found)
    assert found.dial is None
    assert found.figure().axes[0].get_xlabel() == "episodes of a trial"
    assert read_json(found.write("doors.json")) == found.content
    with pytest.raises(ConfigError, match="there is nothing to draw"):
        mage.value("hidden(doors)").figure()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("kuhn_poker",), "kuhn_poker has 2 seats: name opponents, or a split of them, with --opponents"),
        (
            ("rps(rounds=4)", "--opponents", "rps-seven"),
            "the world rps(rounds=4): the split 'rps-seven' is made for rps(rounds=3)",
        ),
        (("rps", "--opponents", "nobody"), "'nobody' is neither a split"),
        (("kuhn_poker", "--opponents", "copy"), "copy"),
        (("hidden(doors)", "--level", "purple"), "unknown level 'purple'"),
        (("hidden(doors)", "--seat", "1"), "seat 1 does not exist; hidden(doors) has seats 0 to 0"),
        (("hidden(nowhere)",), "unknown table 'nowhere'"),
        (("hidden(doors)", "--discount", "0"), "discount = 0.0: allowed are numbers above 0 and up to 1"),
        (("hidden(doors)", "--discount", "1.5"), "discount = 1.5"),
        (("hidden(doors)", "--words", "65"), "words = 65: allowed are 0 to 64"),
        (("hidden(doors)", "--vary", "leave"), "'leave' is no range of a parameter; write PARAMETER=LOW:HIGH, or"),
        (("hidden(doors)", "--vary", "leave=1:0"), "LOW below HIGH"),
        (("hidden(doors)", "--vary", "leave=0:1:1"), "2 to 1000 points"),
        (("hidden(doors)", "--vary", "leave=0:nan"), "finite numbers"),
        (("hidden(doors)", "--vary", "look=0:1"), "unknown parameter 'look'"),
        (("hidden(doors)", "--plot", "value.pdf"), "--plot value.pdf: allowed are files that end in .png or .svg"),
        (("2048", "--samples", "2", "--plot", "value.png"), "exact references need two"),
        (("rps", "--opponents", "remote:http://localhost:1#m"), "is a model: what can be won"),
    ],
)
def test_errors_are_one_line_that_names_the_value(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(MageError) as caught:
        CliRunner().invoke(app, ["value", *arguments], catch_exceptions=False)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_out_of_range_are_refused_by_the_command_line() -> None:
    for option in (("--episodes", "0"), ("--samples", "1"), ("--words", "-1")):
        done = CliRunner().invoke(app, ["value", "hidden(doors)", *option])
        assert done.exit_code == 2
        assert re.search(rf"Invalid value for '{option[0]}'", done.output)


def test_ranges_of_parameters_are_read() -> None:
    assert parse_variation(" look = -1 : 0.5 ") == Variation("look", -1.0, 0.5)
    assert Variation("look", 0.1, 0.7, 4).values == pytest.approx([0.1, 0.3, 0.5, 0.7])
    assert with_parameters("hidden(scout)", {"look": 0.25}) == "hidden(scout,look=0.25)"
    assert with_parameters("hidden(scout,leave=0.2,look=1)", {"look": -0.5}) == "hidden(scout,leave=0.2,look=-0.5)"


@pytest.mark.parametrize("arguments", [["--json", "kept.json"], ["--plot", "kept.png"]])
def test_what_is_there_is_not_written_over(arguments: list[str]) -> None:
    Path(arguments[1]).write_text("mine")
    with pytest.raises(RecordError, match=f"^{arguments[1]} exists already; name a new file$"):
        CliRunner().invoke(app, ["value", "hidden(doors)", *arguments], catch_exceptions=False)
    assert Path(arguments[1]).read_text() == "mine"
