"""The words of nano come from the worlds of its run, are kept with the run, and are said to be missing elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mage
from mage.agents.chat_format import TemplateFormat
from mage.errors import ConfigError
from mage.models.load import check_words, load_model
from mage.models.nano import build_tokenizer
from mage.models.vocabulary import vocabulary
from mage.results import Run
from mage.runs.console import plain_console
from mage.training.build import worlds_of
from mage.training.model_cache import ModelCache
from mage.training.run import create_run, train_run
from mage.training.run_tokenizer import stored_tokenizer
from mage.worlds.registry import WORLDS, load_world
from mage.worlds.solo import SoloWorld
from tests.tiny import MODEL, tiny_config


class Robot(SoloWorld[str, tuple[str, ...]]):
    """A robot must turn to the hidden side."""

    def hidden(self) -> dict[str, float]:
        return {"turn_left": 1.0, "turn_right": 1.0}

    def start(self, hidden: str) -> tuple[str, ...]:
        return ()

    def actions(self, hidden: str, position: tuple[str, ...]) -> tuple[str, ...]:
        return () if position else ("turn_left", "turn_right", "go(2,3)")

    def after(self, hidden: str, position: tuple[str, ...], action: str) -> tuple[str, ...]:
        return (action,)

    def tell(self, hidden: str, position: tuple[str, ...]) -> str:
        return "You may turn." if not position else "Sonne, Straße." if position == (hidden,) else "Wrong."

    def score(self, hidden: str, position: tuple[str, ...]) -> float:
        return float(position == (hidden,))


WORLDS.add("test-robot", Robot)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was stopped after its first step."""
    evaluated = ('evaluation.splits=["rps-reworded"]', "evaluation.final_trials=1")
    config = tiny_config("steps=2", "checkpoint.every=1", *evaluated)
    folder, parts = create_run(config, tmp_path_factory.mktemp("run") / "run", "tiny")
    train_run(folder, plain_console(quiet=True), 0.0, parts=parts)
    return mage.open_run(folder)


def words_in(tokenizer: Path) -> set[str]:
    return set(json.loads((tokenizer / "tokenizer.json").read_text())["model"]["vocab"])


def test_a_run_knows_the_words_of_its_world_and_of_its_splits(run: Run) -> None:
    (reworded,) = set(worlds_of(run.config)) - {run.config.world}
    assert "reworded" in reworded
    known = words_in(run.path / "tokenizer")
    assert set(vocabulary((run.config.world, reworded))) < known
    assert set(vocabulary((run.config.world,))) < known
    assert "bet" not in known


def test_a_run_that_goes_on_or_is_evaluated_keeps_its_tokenizer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def made_again(*_: object) -> tuple[str, ...]:
        raise AssertionError("the vocabulary was made again")

    monkeypatch.setattr("mage.models.nano.vocabulary", made_again)
    before = words_in(run.path / "tokenizer")
    assert mage.evaluate(run, trials=1).step == 1
    assert run.resume(quiet=True).step == 2
    assert words_in(run.path / "checkpoints" / "step-000002") == before


def test_a_run_without_a_tokenizer_takes_that_of_a_checkpoint(run: Run, tmp_path: Path) -> None:
    assert stored_tokenizer(run.path) == run.path / "tokenizer"
    (tmp_path / "checkpoints").mkdir()
    newest = sorted((run.path / "checkpoints").iterdir())[-1]
    (tmp_path / "checkpoints" / newest.name).symlink_to(newest)
    assert stored_tokenizer(tmp_path) == tmp_path / "checkpoints" / newest.name
    assert stored_tokenizer(tmp_path / "nothing") is None


def test_a_model_that_lacks_the_words_for_actions_says_so_before_it_plays(run: Run, tmp_path: Path) -> None:
    why = (
        r"has no words for 'bet', 'pass', which are actions of kuhn_poker: it was made for rps\(.*\)\. Words are given"
    )
    with pytest.raises(ConfigError, match=why) as caught:
        mage.evaluate(run, world="kuhn_poker", opponents=["uniform"], trials=1)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=why):
        mage.nashconv(run, "kuhn_poker")
    load_model(MODEL, worlds=["rps"]).save(tmp_path / "saved")
    saved = load_model(str(tmp_path / "saved"))
    check_words(saved, "rps")
    check_words(saved, "rps(rounds=7)")
    with pytest.raises(ConfigError, match=r"no words for 'a1', 'a2', 'a3', 'b1', …, which are actions of tic_tac_toe"):
        check_words(saved, "tic_tac_toe")
    check_words(load_model("nano(hidden=16,heads=2,words=[bet,pass])"), "kuhn_poker")


def test_untrained_models_are_made_for_what_they_are_evaluated_on(tmp_path: Path) -> None:
    report = mage.evaluate(MODEL, opponents=["kuhn-scripts"], trials=1, folder=tmp_path / "evaluated")
    assert not next(iter(report.splits.values())).failures
    assert {"bet", "king"} <= words_in(tmp_path / "evaluated" / "tokenizer")


def test_actions_that_their_words_do_not_spell_are_words_themselves() -> None:
    chat_format = TemplateFormat(build_tokenizer(("test-robot",)))
    for action in ("turn_left", "turn_right", "go(2,3)"):
        assert chat_format.decode(chat_format.choice(action)) == action
        assert len(chat_format.choice(action)) == 2
        tagged = chat_format.decode(chat_format.user(f"You <action>{action}</action>."))
        assert tagged == f"You <action> {action} </action>"
    assert {"ß", "Sonne"} <= set(vocabulary(("test-robot",)))
    assert load_world("test-robot").info.num_seats == 1


def test_runs_of_other_worlds_get_another_model_from_the_cache() -> None:
    cache = ModelCache()
    one, _ = cache.get(tiny_config())
    again, _ = cache.get(tiny_config())
    other, _ = cache.get(tiny_config('evaluation.splits=["rps-reworded"]'))
    assert one.tokenizer is again.tokenizer
    assert len(other.tokenizer) > len(one.tokenizer)
