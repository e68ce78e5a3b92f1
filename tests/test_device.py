"""Where models live: what a config asks for, and what the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mage.config.load import load_config
from mage.errors import ConfigError
from mage.models.device import Placement, resolve_placement
from mage.training.run import create_run_directory
from mage.types import Device, Dtype
from tests.tiny import tiny_config, tiny_parts


@pytest.mark.parametrize("has_cuda", [True, False])
def test_auto_is_what_there_is_and_names_are_meant(has_cuda: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_cuda)
    best = Placement("cuda", "bfloat16") if has_cuda else Placement("cpu", "float32")
    assert resolve_placement(Device.AUTO, Dtype.AUTO) == best
    assert resolve_placement(Device.AUTO, Dtype.FLOAT32) == Placement(best.device, "float32")
    assert resolve_placement(Device.CPU, Dtype.AUTO) == Placement("cpu", "float32")
    assert resolve_placement(Device.CPU, Dtype.BFLOAT16) == Placement("cpu", "bfloat16")


def test_cuda_that_is_not_there_is_refused_in_one_line_before_a_run_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="device = 'cuda': PyTorch finds no CUDA device here; use cpu, or auto"):
        create_run_directory(tiny_config("device=cuda"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("key", "known"), [("device", "'cpu', 'cuda' or 'auto'"), ("dtype", "'auto', 'float32' or ")])
def test_unknown_names_list_the_known_ones(key: str, known: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} = 'tpu': .*{known}"):
        load_config("rps", [f"{key}=tpu"])


def test_parts_have_the_model_in_the_numbers_that_were_asked_for() -> None:
    assert tiny_parts().loaded.model.dtype is torch.float32
    assert tiny_parts("dtype=bfloat16").loaded.model.dtype is torch.bfloat16
