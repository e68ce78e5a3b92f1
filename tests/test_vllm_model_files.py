from __future__ import annotations

import copy
import json
import os
import tempfile
from pathlib import Path

import pytest

from mage.engines.vllm.model_files import kept_config
from mage.models.load import LoadedModel, load_model


@pytest.fixture
def model() -> LoadedModel:
    return load_model("nano(heads=2)", worlds=("rps",))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAGE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_config_is_kept_in_one_place_with_a_head_of_its_own(model: LoadedModel, cache: Path) -> None:
    folder = kept_config(model)
    assert kept_config(model) == folder
    assert list((cache / "vllm").rglob("*")) == [folder, folder / "config.json"]
    written = json.loads((folder / "config.json").read_text())
    assert written["tie_word_embeddings"] is False
    assert written["hidden_size"] == model.model.config.hidden_size


def test_another_config_has_another_place(model: LoadedModel) -> None:
    other = copy.deepcopy(model)
    other.model.config.rms_norm_eps = 0.5
    assert kept_config(model) != kept_config(other)


def test_a_cache_that_cannot_be_written_is_done_without(
    model: LoadedModel, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = kept_config(model)
    assert folder.parent == tmp_path / f"mage-vllm-{os.getuid()}"
    assert kept_config(model) == folder
    assert json.loads((folder / "config.json").read_text())["model_type"] == "llama"


def test_a_config_that_is_there_is_not_written_again(model: LoadedModel, cache: Path) -> None:
    folder = kept_config(model)
    path, others = folder / "config.json", cache / "vllm"
    before = path.stat().st_mtime_ns
    assert kept_config(model) == folder
    assert path.stat().st_mtime_ns == before
    path.write_text("{}")
    kept_config(model)
    assert json.loads(path.read_text())["model_type"] == "llama", "what is damaged is written again"
    assert [*others.iterdir()] == [folder]
