"""An adapter to begin with: training goes on from what another run, or PEFT, has written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

import mage
from mage.config.load import to_toml
from mage.errors import ConfigError
from mage.learners.registry import make_learner
from mage.learners.sharded.learner import close_pools
from mage.training.run import create_run, train_run
from tests.made import made_model, made_samples, made_settings
from tests.tiny import tiny_config, tiny_parts

pytest.importorskip("peft", reason="the extra lora is not installed")
LORA = ("learner.lora_rank=4", "learner.lr=0.05", "steps=2", "evaluation.splits=[]")
CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    yield
    close_pools()


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported adapter, with its base beside it."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "tiny.toml").write_text(to_toml(tiny_config(*LORA)), encoding="utf-8")
    run = mage.train(str(folder / "tiny.toml"), folder=folder / "run", quiet=True)
    return mage.export_model(run, folder / "adapter")


def begun_with(adapter: Path, *overrides: str) -> tuple[str, ...]:
    return (*LORA, f"agent.model={adapter / 'base'}", f"learner.lora_init={adapter}", *overrides)


def test_training_begins_with_the_weights_of_the_adapter(adapter: Path) -> None:
    from peft import AutoPeftModelForCausalLM

    wanted = AutoPeftModelForCausalLM.from_pretrained(adapter).merge_and_unload().state_dict()
    found = tiny_parts(*begun_with(adapter)).learner.weights().merged()
    assert max(float((found[name] - wanted[name]).abs().max()) for name in found) < 1e-6
    new = tiny_parts(*LORA, f"agent.model={adapter / 'base'}").learner.weights().merged()
    assert max(float((found[name] - new[name]).abs().max()) for name in found) > 1e-3


def test_a_run_needs_the_adapter_until_its_first_checkpoint(adapter: Path, tmp_path: Path) -> None:
    copy, quiet = shutil.copytree(adapter, tmp_path / "copy"), Console(quiet=True)
    config = tiny_config(*begun_with(copy))
    begun, _ = create_run(config, tmp_path / "begun", "begun")
    saved, parts = create_run(config, tmp_path / "saved", "saved")
    train_run(saved, quiet, parts=parts)
    (copy / CONFIG).unlink()
    (copy / TENSORS).unlink()
    assert train_run(saved, quiet, values={"steps": 3}).step == 3
    assert mage.evaluate(saved, opponents="rps-constants", trials=1).splits
    with pytest.raises(ConfigError, match=f"there is no {copy / CONFIG}"):
        train_run(begun, quiet)


def test_two_ranks_begin_with_it_too(tmp_path: Path) -> None:
    settings = made_settings("learner.lora_rank=4", "learner.lr=0.01")
    first = make_learner("local", made_model(), settings, with_values=False, imitates=False)
    first.update(made_samples())
    first.save(tmp_path, "base")
    settings = made_settings("learner.lora_rank=4", f"learner.lora_init={tmp_path}", "learner.ranks=2")
    ranks = make_learner("local", made_model(), settings, with_values=False, imitates=False)
    found, wanted = ranks.weights().merged(), first.weights().merged()
    assert max(float((found[name] - wanted[name]).abs().max()) for name in wanted) < 1e-6


def settings_with(name: str, value: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        found = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps({**found, name: value}))

    return change


def fewer_tensors(folder: Path) -> None:
    tensors = load_file(folder / TENSORS)
    del tensors[min(tensors)]
    save_file(tensors, folder / TENSORS)


def wider_tensors(folder: Path) -> None:
    tensors = load_file(folder / TENSORS)
    save_file({name: torch.cat([tensor, tensor]) for name, tensor in tensors.items()}, folder / TENSORS)


def damage(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(b"{")


def in_checkpoints(file: str) -> Callable[[Path], object]:
    """Makes the directory a run with two checkpoints that have a file."""

    def change(folder: Path) -> None:
        for name in ("config.json", CONFIG, TENSORS):
            (folder / name).unlink(missing_ok=True)
        for step in ("step-000002", "step-000012"):
            (folder / "checkpoints" / step).mkdir(parents=True)
            (folder / "checkpoints" / step / {"adapter": CONFIG, "config": "config.json"}[file]).touch()

    return change


def a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.touch()


REFUSED: dict[str, tuple[Callable[[Path], object], tuple[str, ...], str]] = {
    "rank": (bool, ("learner.lora_rank=8",), "its r is 4, and 8 is trained; set learner.lora_rank"),
    "alpha": (bool, ("learner.lora_alpha=5",), "its lora_alpha is 8, and 5 is trained; set learner.lora_alpha"),
    "no rank": (bool, ("learner.lora_rank=0",), "an adapter is only trained with learner.lora_rank"),
    "layers": (bool, ("learner.lora_targets=[q_proj]",), "the adapter does not fit: .* is on one side only"),
    "kind": (settings_with("use_rslora", True), (), "its use_rslora is True; only False can be trained on"),
    "whole": (settings_with("modules_to_save", ["lm_head"]), (), r"its modules_to_save is \['lm_head'\]; only None"),
    "nothing": (shutil.rmtree, (), "it does not exist; name a checkpoint .* mage export-model or PEFT wrote"),
    "run": (in_checkpoints("adapter"), (), "name one, such as .*/copy/checkpoints/step-000012$"),
    "whole model": (in_checkpoints("config"), (), "begins with it by agent.model=.*/copy/checkpoints/step-000012$"),
    "file": (a_file, (), "it is no directory; name a checkpoint of a run with an adapter, or a directory"),
    "no tensors": (lambda folder: (folder / TENSORS).unlink(), (), f"{TENSORS} does not exist"),
    "fewer": (fewer_tensors, (), "the adapter does not fit: .* is on one side only"),
    "wider": (wider_tensors, (), "the adapter does not fit: .* has shape"),
    "damaged tensors": (damage(TENSORS), (), f"{TENSORS} cannot be read"),
    "damaged config": (damage(CONFIG), (), f"{CONFIG} cannot be read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_adapter_that_does_not_fit_is_refused(adapter: Path, tmp_path: Path, name: str) -> None:
    change, overrides, message = REFUSED[name]
    copy = shutil.copytree(adapter, tmp_path / "copy")
    change(copy)
    config = tiny_config(*begun_with(copy), f"agent.model={adapter / 'base'}", *overrides)
    (tmp_path / "tiny.toml").write_text(to_toml(config), encoding="utf-8")
    with pytest.raises(ConfigError, match=f"^learner.lora_init = {copy}: .*{message}"):
        mage.train(str(tmp_path / "tiny.toml"), folder=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
