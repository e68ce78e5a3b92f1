"""Checkpoints: whole or not there, readable by others, enough to go on exactly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from mage.credit.running_stats import RunningMean, StatKey, Stats
from mage.errors import RecordError
from mage.training.alarms import NO_ALARMS, AlarmState
from mage.training.checkpoint import (
    TrainState,
    checkpoint_path,
    checkpoints,
    load_checkpoint,
    prune,
    read_state,
    save_checkpoint,
)
from mage.training.model_card import model_card
from mage.training.parts import Parts
from mage.types import Phase
from tests.tiny import model_of, samples_of, tiny_parts

STATS = Stats(((StatKey("main", "always", 0, 1, Phase.PLAY), RunningMean(0.1 + 0.2, 1 / 3, 7)),))


def state(parts: Parts, step: int) -> TrainState:
    return TrainState(
        step=step,
        stats=STATS,
        learner=parts.learner.state().numbers,
        lines={"metrics.jsonl": step},
        best=(0.1, 2),
        healthy=2,
        watch=AlarmState({"entropy/play": 1}, {"seen": 2 / 3}),
        rollbacks=1,
    )


def save(parts: Parts, folder: Path, step: int) -> Path:
    card = model_card(parts.config, step, parts.loaded.name)
    return save_checkpoint(folder, parts.loaded, parts.learner, state(parts, step), card, lambda _: None)


@pytest.fixture(scope="module")
def parts() -> Parts:
    """A model that has learned one step."""
    made = tiny_parts("credit.estimator=ppo", "credit.options={}", "learner.lr=0.01")
    made.learner.update(samples_of(made))
    return made


def test_a_checkpoint_goes_on_exactly(parts: Parts, tmp_path: Path) -> None:
    path = save(parts, tmp_path, 1)
    batch = samples_of(parts, 1)
    expected = parts.learner.state().numbers, state(parts, 1)
    fresh = tiny_parts("credit.estimator=ppo", "credit.options={}", "learner.lr=0.01", "seed=99")
    assert load_checkpoint(path, fresh.learner) == expected[1]
    assert fresh.learner.state().numbers == expected[0]
    _same(fresh, parts)
    # A second step proves that the optimizer's moments and the value head came along.
    assert fresh.learner.update(batch)["learner/loss"] == parts.learner.update(batch)["learner/loss"]
    _same(fresh, parts)
    load_checkpoint(path, parts.learner)


def _same(one: Parts, other: Parts) -> None:
    for mine, theirs in (
        (one.learner.weights().merged(), other.learner.weights().merged()),
        (_moments(one), _moments(other)),
    ):
        assert sorted(mine) == sorted(theirs)
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


def _moments(parts: Parts) -> Mapping[str, torch.Tensor]:
    return parts.learner.state().tensors


def test_going_back_to_before_the_first_update_forgets_the_optimizer(tmp_path: Path) -> None:
    parts = tiny_parts()
    path = save(parts, tmp_path, 0)
    batch = samples_of(parts)
    parts.learner.update(batch)
    after = {name: tensor.clone() for name, tensor in parts.learner.weights().merged().items()}
    load_checkpoint(path, parts.learner)
    assert parts.learner.state().tensors == {}
    assert parts.learner.state().numbers == {"num_updates": 0, "num_tokens": 0, "entropy_factor": 1.0, "skips": 0}
    parts.learner.update(batch)
    assert all(torch.equal(tensor, after[name]) for name, tensor in parts.learner.weights().merged().items())


def test_transformers_loads_it_to_the_same_logits(parts: Parts, tmp_path: Path) -> None:
    path = save(parts, tmp_path, 1)
    model = AutoModelForCausalLM.from_pretrained(path).eval()  # type: ignore[no-untyped-call]
    tokenizer = AutoTokenizer.from_pretrained(path)
    assert tokenizer.get_vocab() == parts.loaded.tokenizer.get_vocab()
    assert tokenizer.chat_template == parts.loaded.tokenizer.chat_template
    messages = [{"role": "user", "content": "rock paper scissors"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    own = parts.loaded.tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids
    assert torch.equal(ids, own)
    with torch.no_grad():
        assert torch.equal(model(ids).logits, model_of(parts).eval()(ids).logits)


def test_it_has_a_card_and_no_pickle(parts: Parts, tmp_path: Path) -> None:
    path = save(parts, tmp_path, 7)
    assert {file.suffix for file in path.iterdir()} == {".json", ".safetensors", ".jinja", ".md"}
    for file in path.glob("*.safetensors"):
        load_file(file)
    card = (path / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "Weights after step 7 of" in card
    assert 'model = "nano(hidden=16' in card
    assert [file.name for file in tmp_path.iterdir()] == ["step-000007"]


def test_what_a_kill_left_behind_is_neither_seen_nor_kept(parts: Parts, tmp_path: Path) -> None:
    (tmp_path / ".writing-step-000002").mkdir()
    (tmp_path / ".writing-step-000002" / "model.safetensors").write_bytes(b"half")
    (tmp_path / ".deleting-step-000001").mkdir()
    (tmp_path / ".deleting-step-000001" / "state.json").write_bytes(b"{}")
    assert checkpoints(tmp_path) == []
    path = save(parts, tmp_path, 2)
    assert checkpoints(tmp_path) == [path]
    assert read_state(path).step == 2
    prune(tmp_path, 1, ())
    assert list(tmp_path.iterdir()) == [path]


def empty_checkpoints(folder: Path, *steps: int) -> None:
    for step in steps:
        checkpoint_path(folder, step).mkdir(parents=True)
        (checkpoint_path(folder, step) / "state.json").touch()


def test_the_newest_are_kept_and_those_asked_for(tmp_path: Path) -> None:
    empty_checkpoints(tmp_path, 1, 2, 3, 4, 5, 6)
    prune(tmp_path, 2, (2, None, 3, 9))
    assert [path.name for path in checkpoints(tmp_path)] == [f"step-{n:06d}" for n in (2, 3, 5, 6)]
    prune(tmp_path, 2, ())
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000005", "step-000006"]


def test_checkpoints_are_in_the_order_of_their_steps(tmp_path: Path) -> None:
    empty_checkpoints(tmp_path, 1_000_001, 999_999, 1)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000001", "step-999999", "step-1000001"]
    assert checkpoints(tmp_path / "none") == []


def test_state_reads_back_equal_and_damage_is_named(parts: Parts, tmp_path: Path) -> None:
    path = save(parts, tmp_path, 3)
    assert read_state(path) == state(parts, 3)
    assert state(parts, 3).watch != NO_ALARMS
    values = msgspec.json.decode((path / "state.json").read_bytes())
    del values["healthy"]
    (path / "state.json").write_bytes(msgspec.json.encode(values))
    with pytest.raises(RecordError, match=r"step-000003 is not a checkpoint: .*healthy"):
        read_state(path)
    with pytest.raises(RecordError, match="is not a checkpoint"):
        read_state(tmp_path / "step-000004")
