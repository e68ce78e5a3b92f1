"""Damaged files in every command that reads them: success or one line that names the file, never a traceback."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from mage.errors import ConfigError, MageError
from mage.models.load import load_model
from tests.damaged import damage, make_runs
from tests.mutations import TEMPLATES

NUM_SOME, NUM_MANY = 108, 3000
"""Damaged files in `make test` and in `make test-long`: each file of the runs once, and about thirty times."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_runs(tmp_path_factory.mktemp("damaged"))


@pytest.mark.parametrize(
    ("num", "seed"), [(NUM_SOME, 1), pytest.param(NUM_MANY, 0, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_damaged_files_are_one_line_or_do_no_harm(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num: int, seed: int
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    counts: Counter[str] = Counter()
    bad: list[str] = []
    for name, number, outcome in damage(runs, tmp_path / "out", num, seed):
        counts[outcome.kind] += 1
        if outcome.kind not in ("success", "one line"):
            bad.append(f"{name}, damage {number}, {outcome.call}: {outcome.kind}, {outcome.said}")
    print(dict(counts))
    assert not bad, "\n".join(bad)
    assert counts["success"] > num
    assert counts["one line"] > num


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_chat_template_that_loops_or_fails_is_refused_in_one_line(runs: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(runs / "model", folder)
    (folder / "chat_template.jinja").write_text(TEMPLATES[name], encoding="utf-8")
    with pytest.raises(ConfigError, match="this model's chat template cannot be used") as caught:
        load_model(str(folder))
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ("it loops" in str(caught.value)) is (name in LOOPS)


LOOPS = ("nested loops", "a loop that writes", "a macro that calls itself twice")
"""Those that end by themselves only after ages; others run into Python's own limits."""


def test_code_that_comes_with_a_model_is_not_run(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(runs / "model", folder)
    config = (folder / "config.json").read_text(encoding="utf-8")
    own = '{"auto_map": {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.Own"}, "model_type": "own", '
    (folder / "config.json").write_text(
        own + config.replace('"model_type": "llama",', "").lstrip("{ \n"), encoding="utf-8"
    )
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="contains custom code"):
        load_model(str(folder))
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_are_not_read(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(runs / "model", folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="cannot load the model"):
        load_model(str(folder))


def test_more_layers_than_weights_are_refused_before_they_are_made(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(runs / "model", folder)
    config = (folder / "config.json").read_text(encoding="utf-8")
    assert '"num_hidden_layers": 1,' in config
    many = config.replace('"num_hidden_layers": 1,', '"num_hidden_layers": 1000000000,')
    (folder / "config.json").write_text(many, encoding="utf-8")
    with pytest.raises(MageError, match="1000000000 layers and 11 weights"):
        load_model(str(folder))
