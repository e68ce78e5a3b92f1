"""What is compared, read from files: what it is called, what is one method, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mage.config.schema import Config
from mage.errors import ConfigError, MageError, RecordError
from mage.evaluation.compare.sources import method_name, read_inputs
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import to_json
from mage.runs.store import RunWriter
from tests.compared import (
    compared,
    made_report,
    made_run,
    made_split,
    recipe,
    scores,
    written,
)


def test_runs_that_differ_by_their_seed_alone_are_one_method_whatever_they_are_called(tmp_path: Path) -> None:
    first = made_run(tmp_path / "first", made_split(scores(0.5)), config=recipe(1, 0))
    second = made_run(tmp_path / "second", made_split(scores(0.6)), config=recipe(1, 1))
    assert compared(first, second).methods == ("first",)
    assert compared(first, f"after={second}").methods == ("first", "after")


def test_how_many_slots_an_engine_had_makes_no_other_method(tmp_path: Path) -> None:
    """Nor does a run of a version that did not know them."""
    few = recipe(1, 1).model_copy(update={"agent": recipe(1).agent.model_copy(update={"slots": 64})})
    first = made_run(tmp_path / "first", made_split(scores(0.5)), config=recipe(1, 0))
    second = made_run(tmp_path / "second", made_split(scores(0.6)), config=few)
    info = tmp_path / "first" / "run.json"
    known = json.loads(info.read_bytes())
    del known["config"]["agent"]["slots"], known["config"]["agent"]["thoughts"], known["config"]["tokens"]
    del known["config"]["league"]
    info.write_text(json.dumps(known))
    assert compared(first, second).methods == ("first",)


def test_a_report_of_a_run_is_of_the_same_method(tmp_path: Path) -> None:
    run = made_run(tmp_path / "mine-seed0", made_split(scores(0.5)), config=recipe(1))
    extra = written(
        tmp_path / "other.json", made_split(scores(0.5), split="new"), name="mine-seed0", kind="run", config=recipe(1)
    )
    comparison = compared(run, extra)
    assert comparison.methods == ("mine",)
    assert [table.split for table in comparison.tables] == ["two", "new"]
    inside = compared(str(tmp_path / "mine-seed0" / "evaluations" / "final.json"))
    assert inside.methods == ("mine",)
    assert inside.tables[0].rows[0].seeds == (0,)


def test_agents_are_called_by_what_they_are(tmp_path: Path) -> None:
    split, own = made_split(scores(0.5)), {"kind": "run", "config": recipe(1)}
    run = written(tmp_path / "a.json", split, name="20260131-235959-train-kuhn", **own)
    checkpoint = written(tmp_path / "b.json", split, name="kuhn-seed0/step-000100", **own)
    model = written(tmp_path / "c.json", split, name="smollm2", kind="model")
    assert compared(run, checkpoint, model).methods == ("kuhn", "kuhn/step-000100", "smollm2, plain, both")


def test_a_run_of_a_model_from_the_hub_is_that_run_wherever_it_is_told_of(tmp_path: Path) -> None:
    split = made_split(scores(0.5))
    final = written(tmp_path / "a.json", split, name="org/model", kind="", config=recipe(1, 0))
    later = written(tmp_path / "b.json", split, name="mine", kind="run", config=recipe(1, 1))
    (table,) = compared(f"mine={final}", f"mine={later}").tables
    assert [row.seeds for row in table.rows] == [(0, 1)]


def test_a_run_is_judged_by_its_newest_weights_and_its_most_trials(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made_run(run, made_split(scores(0.5, num=4)), config=recipe(1))
    other = {"name": "run", "kind": "run", "config": recipe(1)}
    folder = run / "evaluations"
    written(folder / "step-000005.json", made_split(scores(0.1, num=40)), step=5, **other)
    written(folder / "step-000010.json", made_split(scores(0.6, num=8)), step=10, **other)
    written(folder / "some" / "report.json", made_split(scores(0.2), split="new"), step=10, **other)
    forgetful = recipe(1).model_copy(update={"agent": Config().agent.model_copy(update={"temperature": 0.5})})
    written(folder / "cold" / "report.json", made_split(scores(0.9, num=80)), step=10, **{**other, "config": forgetful})
    (folder / "reflections-000010.json").write_text("{}")
    tables = compared(str(run)).tables
    assert [(table.split, table.rows[0].num_trials) for table in tables] == [("two", 8), ("new", 8)]


def two(tmp_path: Path, second: SplitReport, name: str = "uniform") -> tuple[str, ...]:
    first = written(tmp_path / "a.json", made_split(scores(0.5)), name="copy")
    return first, written(tmp_path / "b.json", second, name=name)


def refusals() -> dict[str, tuple[Callable[[Path], tuple[str, ...]], type[MageError], str]]:
    other_hash = made_split(scores(0.5), sha256="b" * 64)
    other_limit = made_split(scores(0.5), limit=0.9)

    def other_recipe(tmp_path: Path) -> tuple[str, ...]:
        paths = [tmp_path / place / "run" for place in ("a", "b")]
        return tuple(made_run(p, made_split(scores(0.5)), config=recipe(k + 1, k)) for k, p in enumerate(paths))

    def same_seed(tmp_path: Path) -> tuple[str, ...]:
        return tuple(made_run(tmp_path / name, made_split(scores(0.5)), config=recipe(1)) for name in "ab")

    def unreadable(tmp_path: Path) -> tuple[str, ...]:
        (tmp_path / "report.json").write_text("{")
        return (str(tmp_path / "report.json"),)

    def older(tmp_path: Path) -> tuple[str, ...]:
        content = msgspec.to_builtins(made_report(made_split(scores(0.5))))
        del content["reports"][0]["tasks"]
        (tmp_path / "old.json").write_bytes(msgspec.json.encode(content))
        return (str(tmp_path / "old.json"),)

    def changed(tmp_path: Path, **changes: Any) -> tuple[str, ...]:
        report = msgspec.structs.replace(made_report(made_split(scores(0.5))), **changes)
        (tmp_path / "bad.json").write_bytes(to_json(report))
        return (str(tmp_path / "bad.json"),)

    torn = msgspec.structs.replace(made_split(scores(0.5)), num_trials=7)

    def other_run(tmp_path: Path) -> tuple[str, ...]:
        RunWriter.create(tmp_path / "run", kind="duel", config={}, seed=0).close()
        return (str(tmp_path / "run"),)

    return {
        "hash": (lambda p: two(p, other_hash), RecordError, "mean different splits by 'two'"),
        "references": (lambda p: two(p, other_limit), RecordError, "have different exact references for 'two'"),
        "nothing shared": (
            lambda p: two(p, made_split(scores(0.5), split="new")),
            ConfigError,
            "no two have the same split, episodes and seats: copy on two (3 episodes, seats 0); uniform on new (3",
        ),
        "twice": (lambda p: two(p, made_split(scores(0.5)))[:1] * 2, ConfigError, "a.json is given twice"),
        "same name": (
            lambda p: two(p, made_split(scores(0.5)), "copy"),
            ConfigError,
            "are both 'copy' on two; name one of them otherwise, as in NAME=PATH",
        ),
        "other recipe": (other_recipe, ConfigError, "both called 'run' and differ by more than their seed"),
        "same seed": (same_seed, ConfigError, "are both 'a' with seed 0 on two"),
        "not there": (lambda p: (str(p / "nowhere"),), RecordError, "nowhere does not exist"),
        "no run": (lambda p: (str(p),), RecordError, "is no train run, sweep, evaluation or report"),
        "not judged": (lambda p: (made_run(p / "run"),), RecordError, "was not evaluated yet; run mage evaluate"),
        "unreadable": (unreadable, RecordError, "report.json cannot be read"),
        "older": (older, RecordError, "another version of mage wrote it: evaluate again"),
        "no config": (lambda p: changed(p, config={}), RecordError, "in its config: Object missing required field"),
        "nobody": (lambda p: changed(p, eval_agent={}), RecordError, "does not name the evaluated agent"),
        "torn": (lambda p: changed(p, reports=(torn,)), RecordError, "its trials on 'two' do not add up"),
        "no split": (lambda p: changed(p, reports=()), ConfigError, "none of these was evaluated on a split"),
        "other run": (other_run, RecordError, "is a duel run without a report.json"),
        "nothing": (lambda _: (), ConfigError, "name something to compare"),
    }


@pytest.mark.parametrize("name", refusals())
def test_what_cannot_be_compared_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    make, kind, message = refusals()[name]
    with pytest.raises(kind) as caught:
        compared(*make(tmp_path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_runs_of_a_sweep_that_nobody_judged_are_left_out_and_named(tmp_path: Path) -> None:
    done = made_run(tmp_path / "mage-seed0", made_split(scores(0.5)), config=recipe(1))
    made_run(tmp_path / "mage-seed1", config=recipe(1, 1))
    runs = [{"name": f"mage-seed{k}", "recipe": "mage", "config": {}} for k in (0, 1)]
    (tmp_path / "sweep.json").write_text(json.dumps({"schema": 2, "runs": runs, "max_minutes": None}))
    inputs = read_inputs([str(tmp_path)])
    assert [entry.seed for entry in inputs.entries] == [0]
    assert inputs.left_out == (str(tmp_path / "mage-seed1"),)
    assert Path(done).parent == tmp_path
    assert read_inputs([f"ours={tmp_path}"]).entries[0].method == "ours"


def test_names() -> None:
    assert method_name("20260131-235959-train-kuhn") == "kuhn"
    assert method_name("kuhn-seed12") == "kuhn"
    assert method_name("seeded") == "seeded"
