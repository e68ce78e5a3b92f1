"""Sweeps that vary a setting: plan, scores against the value, exact steps behind them; a finished one is redrawn."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.config.load import load_config, to_toml
from mage.config.schema import Config
from mage.config.vary import VariedSetting, parse_vary, vary_setting, with_value
from mage.errors import ConfigError, InexactError, RecordError
from mage.evaluation.compare.sources import read_inputs
from mage.evaluation.config_splits import evaluated_splits
from mage.evaluation.value.dial import last_scores
from mage.evaluation.value.jumps import stepped_curve
from mage.evaluation.value.objective_end import objective_end
from mage.evaluation.value.report import ValueRequest
from mage.results import Sweep
from mage.runs.console import as_text
from mage.runs.sweep_plan import read_plan
from mage.stats import Estimate
from mage.training.sweep import plan_sweep
from mage.training.sweep_dial import SweepDial, SweepLine, SweepPoint, make_dial, read_dial
from mage.training.sweep_dial_plot import dial_figure
from mage.training.sweep_summary import RecipeSummary, SweepSummary
from mage.training.sweep_tables import dial_table
from tests.tiny import tiny_config

LOOK = VariedSetting("world.look", (0.1, -1.0))
SCOUT = (
    "world=hidden(scout,leave=0.3,look=0.0)",
    "population.members=[]",
    'evaluation.splits=["population"]',
    "evaluation.final_trials=2",
    "steps=1",
)
OBJECTIVES = {"single": "single", "discounted": "cumulative", "cumulative": "sum", "differential": "differential"}
OBJECTIVES["final"] = "final"
"""The recipe of each objective, and what `mage value` calls it."""


def scout(*overrides: str) -> Config:
    return tiny_config(*SCOUT, *overrides)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    folder = tmp_path_factory.mktemp("dial")
    (folder / "scout.toml").write_text(to_toml(scout()), encoding="utf-8")
    recipes = [f"{folder / 'scout.toml'}+{objective}" for objective in ("single", "differential")]
    return mage.sweep(recipes, vary={"world.look": [0.1, -1]}, seeds=2, folder=folder / "sweep", quiet=True)


def jumps(line: SweepLine) -> list[float]:
    return [value for (value, _), (following, _) in pairwise(line.steps) if value == following]


def test_every_recipe_is_trained_at_every_value_with_every_seed(swept: Sweep) -> None:
    assert list(swept.runs) == [
        f"scout+{objective}-look={look}-seed{seed}"
        for objective in ("single", "differential")
        for look in ("0.1", "-1.0")
        for seed in (0, 1)
    ]
    assert {name: run.config.world for name, run in swept.runs.items() if name.startswith("scout+single")} == {
        f"scout+single-look={look}-seed{seed}": f"hidden(scout,leave=0.3,look={look})"
        for look in ("0.1", "-1.0")
        for seed in (0, 1)
    }
    assert [recipe.label for recipe in swept.summary.recipes] == [
        f"scout+{objective} world.look={look}" for objective in ("single", "differential") for look in ("0.1", "-1.0")
    ]
    assert all(recipe.seeds == (0, 1) for recipe in swept.summary.recipes)
    titles = [line.strip() for line in str(swept).splitlines() if line.startswith("scout+")]
    assert titles == [recipe.label for recipe in swept.summary.recipes]


def test_the_dial_has_learned_scores_over_exact_steps(swept: Sweep) -> None:
    dial = swept.dial
    assert dial is not None
    assert (dial.world, dial.key, dial.values, dial.common, list(dial.named_lines)) == (
        "hidden(scout,leave=0.3)",
        "world.look",
        (0.1, -1.0),
        "scout",
        ["single", "differential"],
    )
    for line in dial.lines:
        for point in line.points:
            (mean,) = [
                recipe
                for recipe in swept.summary.recipes
                if (recipe.recipe, recipe.varied) == (line.recipe, {"world.look": point.value})
            ]
            assert (point.seeds, point.score) == ((0, 1), mean.scores["population"][-1])
            assert point.score is not None
            assert len(point.by_seed) == 2
            assert sum(point.by_seed) / 2 == pytest.approx(point.score.value)
    single, differential = dial.lines
    assert [point.exact for point in single.points] == pytest.approx([0.3, 0.3], abs=1e-9)
    assert [point.exact for point in differential.points] == pytest.approx([1.0, 0.5], abs=1e-9)
    assert {round(last, 9) for _, last in single.steps} == {0.3}
    assert jumps(differential) == pytest.approx([-0.5], abs=1e-9)
    assert (swept.path / "dial.png").read_bytes().startswith(b"\x89PNG")
    assert (swept.path / "summary.txt").read_text() == str(swept)


def test_a_finished_dial_is_redrawn_and_nothing_else(swept: Sweep) -> None:
    kept = {path: path.read_bytes() for path in swept.path.rglob("*") if path.is_file()}
    (swept.path / "dial.png").unlink()
    dial = swept.dial
    assert dial is not None
    marked = [msgspec.structs.replace(line, steps=((0.0, 7.0),)) for line in dial.lines]
    written = msgspec.structs.replace(dial, lines=tuple(marked))
    (swept.path / "dial.json").write_bytes(msgspec.json.encode(written))
    done = CliRunner().invoke(app, ["sweep", "--resume", str(swept.path)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "run 1 of" not in done.output
    assert read_dial(swept.path) == written, "exact values are found once"
    (swept.path / "dial.json").unlink()
    assert swept.resume(quiet=True).dial == dial
    assert {path: path.read_bytes() for path in swept.path.rglob("*") if path.is_file()} == kept


def test_a_dial_that_cannot_be_read_says_what_to_do(swept: Sweep, tmp_path: Path) -> None:
    assert read_dial(tmp_path) is None
    (tmp_path / "dial.json").write_text("{}")
    with pytest.raises(RecordError, match=r"dial.json cannot be read: .*; delete it to have it made again"):
        read_dial(tmp_path)


def test_runs_that_are_compared_are_told_apart_by_their_value(swept: Sweep) -> None:
    methods = [entry.method for entry in read_inputs([str(swept.path)]).entries]
    assert list(dict.fromkeys(methods)) == [recipe.label for recipe in swept.summary.recipes]


@pytest.mark.parametrize("recipe", OBJECTIVES)
@pytest.mark.parametrize("table", ["doors", "scout", "negotiation", "recipe"])
def test_what_an_objective_ends_at_is_what_mage_value_says(table: str, recipe: str) -> None:
    config = load_config(
        f"rps+{recipe}",
        [
            f"world=hidden({table})",
            "population.split=",
            "population.members=[]",
            'evaluation.splits=["population"]',
            "agent.memory=history",
        ],
    )
    (split,) = evaluated_splits(config)
    wanted = last_scores(ValueRequest(f"hidden({table})"), [OBJECTIVES[recipe]])[OBJECTIVES[recipe]]
    assert objective_end(config, split) == pytest.approx(wanted, abs=1e-12)


def test_the_end_of_an_objective_follows_weights_and_seats() -> None:
    config = load_config("dilemma+final")
    (split,) = evaluated_splits(config)
    assert objective_end(config, split) == pytest.approx(3.7, abs=1e-9)
    config = load_config("dilemma+final", ["trial.seats=[0, 1]"])
    assert objective_end(config, split) == pytest.approx(3.7, abs=1e-9)


def test_without_a_discount_for_later_episodes_each_is_paid_for_itself() -> None:
    config = scout("credit.objective=cumulative", "credit.episode=0")
    (split,) = evaluated_splits(config)
    assert objective_end(config, split) == pytest.approx(0.3, abs=1e-12)


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (["credit.estimator=cloning", "credit.options={teacher='bayes-optimal'}"], "cloning has no objective"),
        (["league.learners=2"], "opponents change"),
        (["trial.early_stop=true"], "whole trials"),
        (["trial.replay_deal=true"], "fresh deals"),
        (["agent.memory=none"], "agent.memory = none"),
        (["agent.memory=reflections"], "agent.memory = reflections"),
        (["population.sampler=prioritised"], "training draws other tasks than 'population' has"),
        (["batch.replay=0.5"], "training draws other tasks than 'population' has"),
    ],
)
def test_training_without_an_exact_end_says_why(overrides: list[str], why: str) -> None:
    config = scout(*overrides)
    (split,) = evaluated_splits(config)
    with pytest.raises(InexactError, match=why):
        objective_end(config, split)


def test_splits_that_are_not_trained_on_and_discounts_between_turns_have_no_exact_end() -> None:
    config = tiny_config('evaluation.splits=["rps-seven"]', "world=rps(rounds=3)")
    with pytest.raises(InexactError, match="training draws other tasks than 'rps-seven' has"):
        objective_end(config, *evaluated_splits(config))
    config = load_config("dilemma+lamer")
    with pytest.raises(InexactError, match=r"credit.turn = 0.95"):
        objective_end(config, *evaluated_splits(config))
    config = scout("credit.turn=0.95", "credit.objective=final")
    assert objective_end(config, *evaluated_splits(config)) == pytest.approx(1.0)


def dial_of(config: Config, vary: VariedSetting) -> SweepDial:
    """The dial of a sweep that has not begun."""
    dial = make_dial(plan_sweep([("scout.toml", config)], 1, None, vary), SweepSummary((), ()))
    assert dial is not None
    return dial


def test_any_key_may_vary_and_what_is_not_exact_is_left_out() -> None:
    (line,) = dial_of(scout("credit.episode=0.6"), vary_setting("agent.memory", ["none", "history"])).lines
    assert [point.exact for point in line.points] == [None, 1.0]
    assert (line.steps, line.missing[:20]) == ((), "agent.memory = none:")
    (line,) = dial_of(scout(), vary_setting("trial.episodes", [1, 2, 3])).lines
    assert [point.exact for point in line.points] == pytest.approx([0.3, 1.0, 1.0])
    assert line.steps == (), "there is nothing between whole numbers"
    cost = scout("world=hidden(scout,leave=0.3,look=-0.15)")
    (line,) = dial_of(cost, vary_setting("credit.episode", [0.1, 0.9])).lines
    # With the discount G a trial brings 0.3 + 0.3 G by leaving, 0.25 + 0.5 G by guessing, -0.15 + G by looking.
    assert jumps(line) == pytest.approx([0.25, 0.8], abs=1e-9)
    plain = plan_sweep([("scout.toml", scout())], 1, None)
    assert make_dial(plain, SweepSummary((), ())) is None


def test_a_step_is_found_between_two_values() -> None:
    curve = stepped_curve(lambda value: value if value < 0.3 else 2.0, [1.0, 0.0])
    assert [value for value, _ in curve] == pytest.approx([0.0, 0.3, 0.3, 1.0], abs=1e-9)
    assert [last for _, last in curve] == pytest.approx([0.0, 0.3, 2.0, 2.0], abs=1e-9)
    assert stepped_curve(lambda value: value, [0.0, 1.0]) == ((0.0, 0.0), (1.0, 1.0))


def test_recipes_that_were_not_evaluated_have_a_dash() -> None:
    dial = dial_of(scout("credit.objective=final"), LOOK)
    mean = RecipeSummary("scout", (0,), {"population": (Estimate(0.25, 0.0, 0.5),)}, {"world.look": -1.0})
    found = make_dial(plan_sweep([("scout", scout())], 1, None, LOOK), SweepSummary((), (mean,)), dial)
    assert found is not None
    (line,) = found.lines
    assert [point.score for point in line.points] == [None, Estimate(0.25, 0.0, 0.5)]
    printed = as_text(dial_table(SweepDial("world.look", (line,)))).splitlines()
    assert printed[0].split() == ["world.look", "0.1", "-1.0"]
    assert printed[1].split() == ["scout", "–", "+0.250", "±0.250"]
    assert printed[2].split() == ["exact", "+1.000", "+1.000"]


def test_plots_have_a_line_for_each_recipe_and_words_side_by_side() -> None:
    points = (
        SweepPoint("none", (0, 1), Estimate(0.2, -9.0, 9.4), None),
        SweepPoint("history", (0, 1), Estimate(0.9, None, None), 1.0),
    )
    dial = SweepDial("agent.memory", tuple(SweepLine(f"scout+{name}", "population", points) for name in "ab"))
    (panel,) = dial_figure(dial).axes
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["none", "history"]
    assert [bars.get_label() for bars in panel.containers] == ["a", "b"]
    assert panel.get_title() == "scout"
    low, high = panel.get_ylim()
    assert -1 < low < 0.2, "a huge interval does not flatten the scores"
    assert 1.0 < high < 2


def test_a_value_replaces_the_end_of_its_schedule() -> None:
    config = scout("schedule.leave=[[0.5,0.0],[0.5,0.3],[0.8,0.3]]", "schedule.look=[[0.0,1.0],[0.3,0.0]]")
    varied = with_value(config, "world.leave", 0.5, "here")
    assert varied.world == "hidden(scout,leave=0.5,look=0.0)"
    assert varied.schedule == {
        "leave": ((0.5, 0.0), (0.5, 0.5), (0.8, 0.5)),
        "look": ((0.0, 1.0), (0.3, 0.0)),
    }
    assert varied.world_at(10**9, 0) == varied.world


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("world.look", "cannot read --vary 'world.look'; write KEY=VALUE,VALUE"),
        ("world.look=", "cannot read --vary 'world.look='"),
        ("=1,2", "cannot read --vary '=1,2'"),
        ("seed=1,2", "seed is not varied"),
        ("trial.seats=[0]", r"trial.seats = \[0\]: values that vary are numbers, texts, true or false"),
        ("world.look=0.1,0.1", "world.look needs values that differ, not 0.1, 0.1"),
        ("world.look=1,1.0", "world.look needs values that differ, not 1.0, 1.0"),
        ("world.price=1,2", "price"),
        ("learner.speed=1,2", "unknown key 'learner.speed'"),
        ("trial.episodes=0,1", "trial.episodes = 0"),
    ],
)
def test_what_cannot_vary_is_one_line(setting: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        plan_sweep([("scout", scout())], 1, None, parse_vary(setting))


@pytest.mark.parametrize(
    ("world", "says"),
    [
        ("hidden(scout,look=0.2)", "scout: world.look cannot vary: its schedule ends at -0.4, and world has 0.2"),
        ("hidden(scout)", "scout: world.look cannot vary: its schedule ends at -0.4, and world has no value of it"),
    ],
)
def test_a_schedule_that_ends_elsewhere_is_refused(world: str, says: str) -> None:
    config = scout(f"world={world}", "schedule.look=[[0.5,0.1],[0.5,-0.4]]")
    with pytest.raises(ConfigError, match=says):
        plan_sweep([("scout", config)], 1, None, LOOK)


def test_dials_need_a_split_and_one_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"scout: evaluation.splits = \[\]: scores against world.look need a split"):
        plan_sweep([("scout", scout("evaluation.splits=[]"))], 1, None, LOOK)
    with pytest.raises(ConfigError, match="vary has one key with its values, not 2"):
        mage.sweep(["rps"], vary={"world.rounds": [1], "steps": [1]}, folder=tmp_path / "never")
    done = CliRunner().invoke(app, ["sweep", "--resume", "x", "--vary", "steps=1,2"])
    assert "a resumed sweep has its plan" in str(done.exception)


def test_values_that_are_texts_name_runs_too(tmp_path: Path) -> None:
    vary = vary_setting("world", ["hidden(scout)", "hidden(doors)"])
    names = [run.name for run in plan_sweep([("scout", scout())], 1, None, vary).runs]
    assert names == ["scout-world=hidden_scout_-seed0", "scout-world=hidden_doors_-seed0"]
    with pytest.raises(ConfigError, match="the names of runs would be the same"):
        plan_sweep([("scout", scout())], 1, None, vary_setting("world", ["hidden(scout)", "hidden( scout )"]))


def test_a_plan_without_a_varied_setting_is_written_as_before(tmp_path: Path) -> None:
    mage.sweep([write(tmp_path, scout())], seeds=1, folder=tmp_path / "sweep", quiet=True)
    assert "varied" not in (tmp_path / "sweep" / "sweep.json").read_text()
    assert "varied" not in (tmp_path / "sweep" / "summary.json").read_text()
    assert not list((tmp_path / "sweep").glob("dial*"))
    assert read_plan(tmp_path / "sweep").runs[0].label == "scout"


def write(folder: Path, config: Config) -> str:
    (folder / "scout.toml").write_text(to_toml(config), encoding="utf-8")
    return str(folder / "scout.toml")
