"""Files of a learner on several ranks: each writes and reads its part, and any number of ranks goes on from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import PreTrainedModel

import mage
from mage.config.load import to_toml
from mage.errors import RecordError
from mage.files import CHECKSUMS, write_checksums
from mage.learners.registry import make_learner
from mage.learners.sharded import files
from mage.learners.sharded import learner as rank_0
from mage.learners.sharded.commands import Find
from mage.learners.sharded.learner import ShardedLearner, close_pools
from mage.learners.sharded.rank_learner import RankLearner
from mage.learners.shared import load_state, save_state
from mage.learners.state_files import OPTIMIZER, SHARDS, numbers_of, restore_tensors, write_tensors
from mage.protocols import Learner
from mage.shortage import shortage_of
from mage.training.checkpoint import checkpoint_path
from tests.made import made_model, made_samples, made_settings
from tests.test_learner_ranks import distance
from tests.tiny import tiny_config

KINDS = ("full", "lora", "values", "bfloat16")
ROWS = 61
"""The size of the vocabulary: ranks have different numbers of rows."""
SAMPLES = made_samples(vocabulary=ROWS)


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    """The ranks are shared by all tests here, and ended after the last."""
    yield
    close_pools()


def learner(kind: str, ranks: int) -> Learner:
    """A new learner of a small model."""
    lora = ("learner.lora_rank=4",) if kind == "lora" else ()
    # Where a gradient is near Adam's epsilon, its rounding moves a weight by up to 0.02 of the learning rate.
    settings = made_settings("learner.lr=0.00002", f"learner.ranks={ranks}", *lora)
    model = made_model(torch.bfloat16 if kind == "bfloat16" else torch.float32, vocab_size=ROWS)
    return make_learner("local", model, settings, with_values=kind in ("values", "bfloat16"), imitates=False)


def sharded(kind: str = "full", ranks: int = 2) -> ShardedLearner:
    """A new learner on several ranks, after an update."""
    made = learner(kind, ranks)
    assert isinstance(made, ShardedLearner)
    made.update(SAMPLES)
    return made


class Chain:
    """Learners of one kind, each of which goes on from the files of the one before."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind, self._folder = kind, folder
        self._alone = learner(kind, 1)

    def go_on(self, ranks: int) -> None:
        """Restore what was saved last, update and save; compare with the learner that was never saved."""
        now = learner(self._kind, ranks)
        if self._folder.exists():
            before = load_state(self._folder, now)
            now.update(SAMPLES[:1])  # all of it must be replaced
            restore_tensors(self._folder, now, before.numbers)
            restored = now.state()
            assert distance(restored.tensors, before.tensors) == 0.0, "nothing of the optimizer is lost"
            assert all(torch.equal(restored.weights[name], tensor) for name, tensor in before.weights.items())
        now.update(SAMPLES)
        self._alone.update(SAMPLES)
        expected = self._alone.state()
        assert numbers_of(now) == expected.numbers
        if self._kind != "bfloat16":  # whose gradients are rounded where ranks are added up
            assert distance(now.state().weights, expected.weights) < 1e-6
            assert distance(now.state().tensors, expected.tensors) < 1e-6
        save_state(self._folder, now, "base")
        assert (self._folder / SHARDS).is_dir() == (ranks > 1)
        assert (self._folder / OPTIMIZER).is_file() == (ranks == 1)


@pytest.mark.parametrize(
    ("kinds", "all_ranks"),
    [(KINDS, (2, 1, 2)), (("full",), (1, 3, 1)), pytest.param(KINDS, (3, 1, 3, 2), marks=pytest.mark.slow)],
)
def test_any_number_of_ranks_goes_on_from_the_files_of_another(
    kinds: Sequence[str], all_ranks: Sequence[int], tmp_path: Path
) -> None:
    chains = [Chain(kind, tmp_path / kind) for kind in kinds]
    for ranks in all_ranks:
        for chain in chains:
            chain.go_on(ranks)


@pytest.mark.parametrize(("wrote", "reads"), [(2, 2), (2, 1), (1, 2)])
def test_going_back_to_before_the_first_update_forgets_the_optimizer(wrote: int, reads: int, tmp_path: Path) -> None:
    new, other = learner("full", wrote), learner("full", reads)
    write_tensors(tmp_path, new, "base")
    other.update(SAMPLES)
    restore_tensors(tmp_path, other, numbers_of(new))
    assert other.state().tensors == {}
    assert distance(other.state().weights, new.state().weights) == 0.0


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_model_beyond_what_transformers_puts_into_a_file_is_one_file(
    ranks: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = learner("full", ranks)
    save: Any = PreTrainedModel.save_pretrained
    assert "50GB" in save.__defaults__
    monkeypatch.setattr(save, "__defaults__", tuple("1KB" if each == "50GB" else each for each in save.__defaults__))
    save_state(tmp_path, made, "base")
    assert load_state(tmp_path, made).weights.keys() == load_file(tmp_path / made.weights_file).keys()


class Spy:
    """Notes what rank 0 gathers from other ranks, and what it gives to them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.gathered: list[str] = []
        self.given = 0
        fetch, receive = RankLearner.fetch, RankLearner.receive

        def spied_fetch(own: RankLearner, names: Sequence[str], *, to_host: bool = False) -> object:
            self.gathered.extend(names)
            return fetch(own, names, to_host=to_host)

        def spied_receive(*given: object) -> None:
            self.given += 1
            receive(*given)  # type: ignore[arg-type]

        patch.setattr(RankLearner, "fetch", spied_fetch)
        patch.setattr(RankLearner, "receive", spied_receive)


@pytest.mark.parametrize("kind", ["bfloat16", "lora"])
def test_no_rank_has_the_whole_optimizer(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    several = sharded(kind)
    spy = Spy(monkeypatch)
    write_tensors(tmp_path, several, "base")
    assert spy.gathered, "the weights are gathered"
    assert all(name.startswith("weights/") for name in spy.gathered)
    spy.gathered.clear()
    restore_tensors(tmp_path, several, numbers_of(several))
    assert (spy.gathered, spy.given) == ([], 0)
    shards = sorted((tmp_path / SHARDS).iterdir())
    assert len(shards) == 2
    whole = several.state().tensors
    for shard in shards:
        parts = load_file(shard)
        large = [name for name, tensor in whole.items() if tensor.dim() == 2 and tensor.shape[0] > 1]
        assert large
        assert all(abs(2 * parts[name].shape[0] - whole[name].shape[0]) <= 1 for name in large)
        with safe_open(shard, framework="pt") as file:
            assert set(file.metadata()) == {"DCP_SHARDING_INFO", "DCP_VERSION", "format"}


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # the file still loads
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("missing", [0, 1])
def test_a_part_in_no_file_is_refused(missing: int, tmp_path: Path) -> None:
    several = sharded(ranks=3)
    write_tensors(tmp_path, several, "base")
    sorted((tmp_path / SHARDS).iterdir())[missing].unlink()
    write_checksums(tmp_path)
    for reader in (several, learner("full", 1)):
        with pytest.raises(RecordError, match=f"^{tmp_path / SHARDS} cannot be read: a part of .+ is missing$"):
            restore_tensors(tmp_path, reader, numbers_of(several))


@pytest.mark.parametrize("ranks", [1, 2])
def test_shards_that_are_not_those_saved_are_refused(ranks: int, tmp_path: Path) -> None:
    several = sharded()
    write_tensors(tmp_path, several, "base")
    reader = several if ranks > 1 else learner("full", 1)
    first, second = sorted((tmp_path / SHARDS).iterdir())
    kept = second.read_bytes()
    assert msgspec.json.decode((tmp_path / CHECKSUMS).read_bytes()).keys() == {
        "model.safetensors",
        *(f"{SHARDS}/{path.name}" for path in (first, second)),
    }

    def refusal() -> str:
        with pytest.raises(RecordError) as caught:
            restore_tensors(tmp_path, reader, numbers_of(several))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    damage(second)
    assert refusal().startswith(f"{second} is not the file that was saved: its SHA-256 is ")
    second.unlink()
    assert refusal() == f"{second} is missing, which {CHECKSUMS} names"
    second.write_bytes(kept[:100])
    write_checksums(tmp_path)
    assert refusal().startswith(f"{tmp_path / SHARDS} cannot be read: ")
    (tmp_path / CHECKSUMS).unlink()
    assert refusal() == f"{tmp_path / CHECKSUMS} is missing, which names the files of {SHARDS}"
    assert reader.update(SAMPLES)["learner/grad_norm"] > 0, "the ranks are still in step"


def test_a_shard_that_goes_away_is_said_by_all_ranks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    several = sharded()
    write_tensors(tmp_path, several, "base")
    shards = tmp_path / SHARDS

    def planned(folder: Path) -> dict[str, files.Stored]:
        found = files.stored(folder)
        if folder == shards:
            for path in shards.iterdir():
                path.write_bytes(b"no tensors")
        return found

    monkeypatch.setattr(rank_0, "stored", planned)
    with pytest.raises(RecordError, match=f"^rank 0 of 2: {shards} cannot be read: "):
        restore_tensors(tmp_path, several, numbers_of(several))
    assert several.update(SAMPLES)["learner/grad_norm"] > 0, "the ranks are still in step"


def test_a_full_disk_of_one_rank_is_said_in_one_line(tmp_path: Path) -> None:
    several = sharded()
    name = "shard-00002-model-00001-of-00001.safetensors"
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(RecordError) as caught:
        several.save_shards(tmp_path)
    said = f"{tmp_path} cannot be written: rank 1 of 2: [Errno 28] No space left on device"
    assert str(caught.value) == said
    assert shortage_of(caught.value) == said, "the run says how to go on"
    assert several.update(SAMPLES)["learner/grad_norm"] > 0, "the ranks are still in step"


def test_a_run_never_gathers_the_optimizer_and_exports_without_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spy = Spy(monkeypatch)
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(to_toml(tiny_config("steps=2", "checkpoint.every=1", "learner.ranks=2")), encoding="utf-8")
    run = mage.train(str(recipe), folder=tmp_path / "run", quiet=True).path
    assert all(name.startswith("weights/") for name in spy.gathered)
    checkpoint = checkpoint_path(run / "checkpoints", 2)
    assert len(list((checkpoint / SHARDS).iterdir())) == 2
    mage.export_model(run, tmp_path / "model")
    assert not (tmp_path / "model" / SHARDS).exists()
    assert not (tmp_path / "model" / OPTIMIZER).exists()
    assert mage.evaluate(str(run), opponents=["always:rock"], trials=1).splits


def test_a_folder_that_another_rank_does_not_see_is_refused_before_a_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, folder = sharded(), tmp_path / "run"
    folder.mkdir()
    made.check_folder(folder)
    assert list(folder.iterdir()) == []
    elsewhere = tmp_path / "elsewhere" / "run"
    monkeypatch.setattr(rank_0, "Find", lambda path: Find(str(elsewhere / Path(path).name)))
    needed = "the run directory must be on a file system that all machines have, at the same path"
    with pytest.raises(RecordError, match=f"^rank 1 of 2: {elsewhere} is not that of rank 0; {needed}$"):
        made.check_folder(folder)
    made.update(SAMPLES)  # both ranks are still in step
