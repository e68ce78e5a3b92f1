"""Models, adapters and splits that are named by relative paths: runs go on from any working directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

import mage
from mage.config.load import to_toml
from mage.errors import ConfigError
from mage.evaluation.splits import write_split
from mage.files import read_lines, write_atomically
from mage.runs.store import RUN, read_info
from mage.runs.sweep_plan import read_plan
from mage.training.run import create_run, create_run_directory, train_run
from mage.training.sweep import begin_sweep, run_sweep
from tests.test_gguf import random_model, write_gguf
from tests.tiny import MODEL, tiny_config, tiny_parts

ONE_STEP = ("steps=1", "evaluation.splits=[]", "alarms.entropy=0.0")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a model as a directory and one as a file."""
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "here"
    folder.mkdir()
    tiny_parts(f"agent.model={MODEL.replace('512', '1024')}").loaded.save(folder / "start-model")
    write_gguf(folder / "tiny.gguf", random_model("qwen2"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(folder)
    return folder


def trained(folder: Path, model: str, *overrides: str) -> Path:
    config = tiny_config(f"agent.model={model}", *ONE_STEP, *overrides)
    path, parts = create_run(config, folder, "run")
    train_run(path, Console(quiet=True), parts=parts)
    return path


def resumed(folder: Path, **values: object) -> None:
    given = {key.replace("__", "."): value for key, value in values.items()}
    assert train_run(folder, Console(quiet=True), values=given).is_finished


def metrics(folder: Path) -> list[dict[str, Any]]:
    timed = ("time", "seconds", "speed", "perf", "memory")
    return [
        {key: value for key, value in line.items() if not any(word in key for word in timed)}
        for line in read_lines(folder / "metrics.jsonl")
    ]


@pytest.mark.parametrize("model", ["start-model", "tiny.gguf", "../here/tiny.gguf"])
def test_a_run_of_a_relative_path_goes_on_and_is_evaluated_from_elsewhere(
    model: str, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path / "run", model, "agent.context=1024")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert mage.evaluate(run, opponents="rps-constants", trials=1).splits
    resumed(run, steps=2)
    assert read_info(run).config["agent"]["model"] == str(here / model)


def test_a_relative_and_an_absolute_path_have_the_same_metrics(here: Path, tmp_path: Path) -> None:
    relative, absolute = trained(tmp_path / "one", "start-model"), trained(tmp_path / "two", str(here / "start-model"))
    assert metrics(relative) == metrics(absolute)
    assert read_info(relative).config == read_info(absolute).config


def test_names_that_are_no_paths_stay_as_they_are(tmp_path: Path) -> None:
    for number, name in enumerate((MODEL, "smollm2", "Qwen2.5-1.5B", "org/name", "scripted:counter")):
        folder = tmp_path / str(number)
        create_run_directory(tiny_config(f"agent.model={name}"), folder)
        assert read_info(folder).config["agent"]["model"] == name


def test_a_run_that_was_killed_before_its_first_checkpoint_finds_its_adapter(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("peft", reason="the extra lora is not installed")
    mage.export_model(mage.open_run(trained(tmp_path / "run", "start-model", "learner.lora_rank=4")), here / "adapter")
    lora = ("agent.model=start-model", "learner.lora_rank=4", "learner.lora_init=adapter", *ONE_STEP)
    begun, _ = create_run(tiny_config(*lora), tmp_path / "begun", "begun")
    monkeypatch.chdir(tmp_path / "elsewhere")
    resumed(begun)


def test_a_sweep_begins_its_runs_from_elsewhere(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_split(here / "mine.json", "rps(rounds=2)", ["copy"])
    config = tiny_config("agent.model=start-model", *ONE_STEP, "evaluation.final_trials=1")
    (here / "tiny.toml").write_text(to_toml(config), encoding="utf-8")
    config = config.model_copy(update={"evaluation": config.evaluation.model_copy(update={"splits": ("mine.json",)})})
    sweep = begin_sweep([("tiny.toml", config)], 1, tmp_path / "sweep", None)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert [run.state for run in run_sweep(sweep, Console(quiet=True)).runs] == ["finished"]
    assert read_plan(sweep).runs[0].config["evaluation"]["splits"] == [str(here / "mine.json")]


@pytest.mark.parametrize("model", ["start-model", "tiny.gguf"])
def test_a_model_that_was_moved_is_named_anew(model: str, here: Path, tmp_path: Path) -> None:
    run = trained(tmp_path / "run", model, "agent.context=1024")
    moved = (here / model).rename(tmp_path / "elsewhere" / model)
    says = f"agent.model = {here / model}: there is no such file or directory; put the model .* agent.model=/models/"
    with pytest.raises(ConfigError, match=says):
        mage.evaluate(run, opponents="rps-constants", trials=1)
    with pytest.raises(ConfigError, match=says):
        resumed(run, steps=2)
    assert mage.evaluate(run, {"agent.model": str(moved)}, opponents="rps-constants", trials=1).splits
    resumed(run, steps=2, agent__model=f"../elsewhere/{model}")
    assert read_info(run).config["agent"]["model"] == str(Path(f"../elsewhere/{model}").absolute())
    with pytest.raises(ConfigError, match=r"agent\.model cannot change in a run that has begun"):
        resumed(run, steps=3, agent__model=MODEL)
    with pytest.raises(ConfigError, match=r"agent\.model cannot change in a run that has begun"):
        resumed(run, steps=3, agent__model=str(moved.rename(moved.with_name(f"other-{model}"))))


def test_a_relative_path_of_an_earlier_version_can_be_made_absolute(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(tmp_path / "run", "tiny.gguf", "agent.context=1024")
    info = read_info(run)
    config = {**info.config, "agent": {**info.config["agent"], "model": "tiny.gguf"}}
    write_atomically(run / RUN, msgspec.json.encode(msgspec.structs.replace(info, config=config)))
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"agent\.model = tiny\.gguf: there is no such file or directory"):
        resumed(run, steps=2)
    resumed(run, steps=2, agent__model=str(here / "tiny.gguf"))


def test_an_agent_is_called_by_the_last_part_of_its_models_path(here: Path) -> None:
    run = trained(here / "run", "tiny.gguf", "agent.context=1024")
    agents = {trial["agent"]["name"] for trial in read_lines(run / "trials.jsonl")}
    assert agents == {"tiny.gguf"}
    assert read_info(run).config["agent"]["model"] == str(here / "tiny.gguf")
