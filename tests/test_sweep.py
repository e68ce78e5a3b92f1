"""Sweeps: runs inside one are the runs they would be alone; what was interrupted, killed or failed is gone on with."""

from __future__ import annotations

import fcntl
import weakref
from pathlib import Path
from signal import SIGINT, SIGKILL

import msgspec
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.config.load import to_toml
from mage.config.schema import Config
from mage.engines.local.server import LocalPolicyServer
from mage.errors import ConfigError, RecordError
from mage.files import count_lines, read_lines
from mage.grouped import crossed_mean
from mage.protocols import PolicyServer
from mage.results import Sweep
from mage.runs.console import as_text
from mage.runs.sweep_plan import SweepPlan
from mage.stats import Estimate, mean
from mage.training.model_cache import ModelCache
from mage.training.run import create_run, train_run
from mage.training.sweep import make_sweep, plan_sweep, run_sweep, summarise
from mage.training.sweep_summary import RunState, SweepRun, SweepSummary, minutes_of, summarise_recipes
from mage.training.sweep_tables import sweep_table
from tests.processes import Mage, when
from tests.tiny import MODEL, model_of, tiny_config

LOGS = ("metrics.jsonl", "trials.jsonl", "index.jsonl", "events.jsonl", "credit.jsonl")
QUIET = Console(quiet=True)
JUDGED = ('evaluation.splits=["rps-seven"]', "evaluation.final_trials=2", "world=rps(rounds=3)")
# In the order in which they run: the second shares the first one's engine, the third has another model.
RECIPES = {
    "one": tiny_config("steps=3", "seed=4", *JUDGED),
    "two": tiny_config("steps=2", "learner.lr=0.01", "agent.memory=both", "agent.reflection_tokens=4", *JUDGED),
    "three": tiny_config("steps=2", "agent.model=nano(hidden=32,layers=1,heads=2,context=512)", *JUDGED),
}


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("recipes")
    for name, config in RECIPES.items():
        (folder / f"{name}.toml").write_text(to_toml(config), encoding="utf-8")
    return {name: str(folder / f"{name}.toml") for name in RECIPES}


@pytest.fixture(scope="module")
def swept(recipes: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    folder = tmp_path_factory.mktemp("sweeps") / "sweep"
    return mage.sweep(list(recipes.values()), seeds=2, folder=folder, quiet=True)


def everything(run: Path) -> dict[str, bytes]:
    """What equal runs have in common to the bit."""
    newest = max((run / "checkpoints").iterdir())
    final = msgspec.json.decode((run / "evaluations" / "final.json").read_bytes())
    files = {str(path.relative_to(run)): path.read_bytes() for path in newest.iterdir()}
    return {
        **files,
        **{name: (run / name).read_bytes() for name in LOGS},
        "final": msgspec.json.encode(final["reports"]),
    }


def test_every_run_is_the_run_it_would_be_alone(swept: Sweep, recipes: dict[str, str], tmp_path: Path) -> None:
    assert list(swept.runs) == ["one-seed4", "one-seed5", "two-seed0", "two-seed1", "three-seed0", "three-seed1"]
    for name, run in swept.runs.items():
        recipe, seed = name.split("-seed")
        alone = mage.train(recipes[recipe], {"seed": int(seed)}, folder=tmp_path / name, quiet=True)
        assert run.config == alone.config
        found, wanted = everything(run.path), everything(alone.path)
        assert sorted(found) == sorted(wanted)
        assert [file for file in wanted if found[file] != wanted[file]] == []


def test_a_sweep_that_is_done_has_its_summary_and_stays_as_it_is(swept: Sweep) -> None:
    assert swept.summary.is_done
    written = msgspec.json.decode((swept.path / "summary.json").read_bytes(), type=SweepSummary)
    assert written == swept.summary == mage.open_sweep(swept.path).summary
    assert (swept.path / "summary.txt").read_text() == str(swept)
    (first, *_) = swept.summary.runs
    assert (first.recipe, first.seed, first.state, first.step, first.steps) == ("one", 4, RunState.FINISHED, 3, 3)
    assert first.minutes == pytest.approx(minutes_of(swept.path / "one-seed4"))
    assert [len(scores) for scores in first.scores.values()] == [2]
    before = {path: path.stat().st_mtime_ns for path in swept.path.rglob("*") if not path.name.startswith("summary")}
    assert swept.resume(quiet=True) == swept
    after = {path: path.stat().st_mtime_ns for path in swept.path.rglob("*") if not path.name.startswith("summary")}
    assert {path for path in before if path.is_file() and before[path] != after[path]} == set()


def test_the_table_has_a_row_for_each_seed_and_their_mean(swept: Sweep) -> None:
    lines = str(swept).splitlines()
    assert [line.strip() for line in lines if line.strip() in RECIPES] == list(RECIPES)
    assert sum("rps-seven" in line for line in lines) == 6
    means = [line.split() for line in lines if line.split()[:1] == ["mean"]]
    assert len(means) == 3
    last = swept.summary.recipes[0].scores["rps-seven"][-1]
    assert means[0][-2] == f"{round(last.value, 3) + 0.0:+.3f}"


def summary_of(seed: int, *values: float, state: RunState = RunState.FINISHED) -> SweepRun:
    scores = {"a": tuple(Estimate(value, value - 0.1, value + 0.1) for value in values)} if values else {}
    return SweepRun(f"r-seed{seed}", "r", seed, state, "", 5, 5, 1.0, scores)


def test_means_over_seeds_have_students_interval_and_leave_out_what_was_not_judged() -> None:
    runs = [
        summary_of(0, 0.0, 1.0),
        summary_of(1, state=RunState.OPEN),
        summary_of(2, 0.5, 2.0),
        summary_of(3, 1.0, 3.0),
    ]
    (recipe,) = summarise_recipes(runs)
    assert recipe.seeds == (0, 2, 3)
    assert recipe.scores == {"a": (mean([0.0, 0.5, 1.0]), mean([1.0, 2.0, 3.0]))}
    assert recipe.scores["a"][1].high == pytest.approx(2.0 + 4.302653 / 3**0.5)
    assert summarise_recipes(runs[:2])[0].scores == runs[0].scores, "one seed keeps its interval over trials"
    assert summarise_recipes(runs[1:2]) == ()


def test_means_over_seeds_on_members_not_met_are_over_both() -> None:
    tables = [{"x": (0.0,), "y": (0.4,)}, {"x": (0.2,), "y": (0.8,)}]
    runs = [
        msgspec.structs.replace(summary_of(seed, sum(row[0] for row in table.values()) / 2), member_scores={"a": table})
        for seed, table in enumerate(tables)
    ]
    (both,) = summarise_recipes(runs)
    (seeds_alone,) = summarise_recipes([msgspec.structs.replace(run, member_scores={}) for run in runs])
    wide, narrow = (found.scores["a"][0] for found in (both, seeds_alone))
    assert wide.value == narrow.value == pytest.approx(0.35)
    assert (wide.high, narrow.high) == pytest.approx((crossed_mean([0.2, 0.5], [0.1, 0.6]).high, mean([0.2, 0.5]).high))
    assert wide.high is not None
    assert narrow.high is not None
    assert wide.high > narrow.high


def test_runs_that_have_no_score_are_named_in_the_table() -> None:
    failed = SweepRun("r-seed0", "r", 0, RunState.FAILED, "it broke", 0, 5, 1.0, {})
    text = as_text(sweep_table(SweepSummary((failed, summary_of(1, state=RunState.OPEN)), ())))
    assert "seed 0 is failed: it broke" in text
    assert "seed 1 is open" in text


def test_interrupted_and_killed_a_sweep_goes_on_to_the_same_end(
    mage: Mage, swept: Sweep, recipes: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "sweep"
    begun = when(lambda: count_lines(folder / "one-seed5" / "timings.jsonl") >= 1, SIGINT)
    ended = mage("sweep", *recipes.values(), "--seeds", "2", "--run", folder, meanwhile=begun)
    assert ended.code == 0, ended.said
    assert "interrupt again to stop at once" in ended.said
    assert ended.said.endswith(f"\ngo on with  mage sweep --resume {folder}\n")
    assert [run.state for run in summarise(folder).runs] == [RunState.FINISHED, *[RunState.OPEN] * 5]
    ended = mage("sweep", "--resume", folder, meanwhile=when((folder / "three-seed0" / "run.json").exists, SIGKILL))
    assert ended.code == -SIGKILL
    (folder / "three-seed1").mkdir()  # as if the kill had come while it was made
    (folder / "three-seed1" / "trials.jsonl").touch()
    ended = mage("sweep", "--resume", folder)
    assert ended.code == 0, ended.said
    assert ended.said.startswith("run 5 of 6: three-seed0\n"), "what is done is not done again"
    for name, run in swept.runs.items():
        found, wanted = everything(folder / name), everything(run.path)
        assert [file for file in wanted if found[file] != wanted[file]] == []
    assert [run.scores for run in summarise(folder).runs] == [run.scores for run in swept.summary.runs]


def planned(config: Config, num_seeds: int = 1, max_minutes: float | None = None) -> SweepPlan:
    return plan_sweep([("tiny", config)], num_seeds, max_minutes)


@pytest.mark.slow
def test_time_is_for_each_run_which_is_judged_where_it_stands(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    make_sweep(folder, planned(tiny_config("steps=50", *JUDGED), 2, max_minutes=0.0))
    summary = run_sweep(folder, QUIET)
    assert [(run.state, run.step) for run in summary.runs] == [(RunState.STOPPED, 1)] * 2
    assert all(len(run.scores["rps-seven"]) == 2 for run in summary.runs)
    assert summary.is_done
    assert run_sweep(folder, QUIET) == summary
    assert count_lines(folder / "tiny-seed0" / "metrics.jsonl") == 1


@pytest.mark.slow
def test_time_that_was_used_before_an_interrupt_is_not_given_again(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    make_sweep(folder, planned(tiny_config("steps=50", *JUDGED), max_minutes=0.0))
    run_sweep(folder, QUIET)
    (folder / "ended.jsonl").unlink()  # as if it had been killed before it was judged
    (run,) = run_sweep(folder, QUIET).runs
    assert (run.state, run.step) == (RunState.STOPPED, 1)


def test_a_run_that_fails_costs_no_other_and_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    bad = tiny_config("steps=3", "learner.lr=1e30", "learner.max_skips=0")
    plan = plan_sweep([("bad", bad), ("good", tiny_config("steps=1", *JUDGED))], 1, None)
    make_sweep(folder, plan)
    summary = run_sweep(folder, QUIET)
    assert [run.state for run in summary.runs] == [RunState.FAILED, RunState.FINISHED]
    assert "not finite" in summary.runs[0].error
    done = CliRunner().invoke(app, ["sweep", "--resume", str(folder)])
    assert done.exit_code == 1
    assert "run 1 of 2: bad-seed0" in done.output
    assert "run 2 of 2" not in done.output
    assert [line["name"] for line in read_lines(folder / "ended.jsonl")] == ["bad-seed0", "good-seed0", "bad-seed0"]


def test_what_cannot_be_swept_is_refused_before_anything_is_made(tmp_path: Path, recipes: dict[str, str]) -> None:
    same = [("a/x.toml", RECIPES["one"]), ("b/x.toml", RECIPES["one"])]
    with pytest.raises(ConfigError, match="recipes of a sweep need different names, not x, x"):
        plan_sweep(same, 1, None)
    for names, num_seeds in (([], 1), ([("x", RECIPES["one"])], 0)):
        with pytest.raises(ConfigError, match="at least one recipe and one seed"):
            plan_sweep(names, num_seeds, None)
    with pytest.raises(ConfigError, match="unknown opponent 'nobody'"):
        mage.sweep([recipes["one"]], {"population.members": ["nobody"]}, folder=tmp_path / "never")
    with pytest.raises(RecordError, match="is not a sweep; a sweep is a directory with a"):
        mage.open_sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="is not empty"):
        mage.sweep([recipes["one"]], folder=tmp_path)


def test_a_sweep_that_is_being_made_is_left_alone(swept: Sweep) -> None:
    with (swept.path / "sweep.json").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RecordError, match="is being written by another process"):
            run_sweep(swept.path, QUIET)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give recipes to sweep over, or --resume DIR"),
        (["rps", "--resume", "x"], "give recipes to sweep over, or --resume DIR"),
        (["--resume", "x", "--seeds", "2"], "a resumed sweep has its plan"),
        (["steps=3"], "at least one recipe and one seed"),
        (["--resume", "nowhere"], "nowhere is not a sweep"),
    ],
)
def test_wrong_commands_are_one_line(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["sweep", *arguments])
    assert isinstance(done.exception, (ConfigError, RecordError))
    assert message in str(done.exception)


@pytest.mark.slow
def test_overrides_go_for_all_recipes_and_seeds_count_from_their_own(recipes: dict[str, str], tmp_path: Path) -> None:
    arguments = [recipes["one"], recipes["two"], "steps=1", "evaluation.splits=[]", "--seeds", "1"]
    done = CliRunner().invoke(app, ["sweep", *arguments, "--run", str(tmp_path / "sweep")], catch_exceptions=False)
    assert done.exit_code == 0
    found = mage.open_sweep(tmp_path / "sweep").runs
    assert {name: (run.config.steps, run.config.seed) for name, run in found.items()} == {
        "one-seed4": (1, 4),
        "two-seed0": (1, 0),
    }
    assert "seed 4 is finished after 1 of 1 steps" in done.output


@pytest.mark.slow
def test_a_composed_recipe_names_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(to_toml(tiny_config("steps=1", *JUDGED)), encoding="utf-8")
    (tmp_path / "less.toml").write_text("seed = 3\n[learner]\nlr = 0.05\n", encoding="utf-8")
    swept = mage.sweep(["tiny.toml", "tiny.toml+less.toml"], seeds=1, quiet=True)
    assert list(swept.runs) == ["tiny-seed0", "tiny+less-seed3"]
    assert swept.path.name.endswith("-sweep-tiny-tiny+less")
    assert [recipe.recipe for recipe in swept.summary.recipes] == ["tiny", "tiny+less"]
    assert swept.runs["tiny+less-seed3"].config.learner.lr == 0.05
    run = mage.train("tiny.toml+less.toml", {"seed": 4}, quiet=True)
    assert run.path.name.endswith("-train-tiny+less")
    rows = mage.compare(swept, run).comparison.tables[0].rows
    assert [(row.method, row.seeds) for row in rows] == [("tiny", (0,)), ("tiny+less", (3, 4))]


def test_a_bench_lends_one_engine_and_a_model_that_nobody_has_trained() -> None:
    model_cache = ModelCache()
    first, engine = model_cache.get(tiny_config("seed=1"))
    with torch.no_grad():
        first.model.model.embed_tokens.weight.zero_()
    again, same = model_cache.get(tiny_config("seed=1", "learner.lr=0.5"))
    assert same is engine
    assert again.model is not first.model
    assert again.model.model.embed_tokens.weight.abs().sum().item() > 0
    other, same = model_cache.get(tiny_config("seed=2"))
    assert same is engine, "an engine plays with what is published"
    assert not torch.equal(other.model.model.embed_tokens.weight, again.model.model.embed_tokens.weight)
    _, another = model_cache.get(tiny_config("seed=2", f"agent.model={MODEL.replace('hidden=16', 'hidden=32')}"))
    assert another is not engine


def num_slots(server: PolicyServer) -> int:
    assert isinstance(server, LocalPolicyServer)
    return server._first._executor.num_slots


def test_slots_are_as_many_as_a_config_asks_for() -> None:
    model_cache = ModelCache()
    _, engine = model_cache.get(tiny_config("agent.slots=3"))
    assert num_slots(engine) == 3
    _, same = model_cache.get(tiny_config("agent.slots=3"))
    _, usual = model_cache.get(tiny_config())
    assert same is engine
    assert usual is not engine
    assert num_slots(usual) > 3


def test_what_a_run_left_behind_is_let_go_of_before_the_next_begins(tmp_path: Path) -> None:
    model_cache = ModelCache()
    path, parts = create_run(tiny_config("steps=1"), tmp_path / "run", "tiny", model_cache)
    recorder = train_run(path, QUIET, parts=parts)
    assert recorder.is_finished
    trained = weakref.ref(model_of(parts))
    assert trained() is not None
    del parts, recorder
    model_cache.get(tiny_config("seed=1"))
    assert trained() is None
