"""Arguments of the wrong type, given to the functions of `mage`: each is one line that names it and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import mage
from mage.config.load import load_config
from mage.config.vary import one_setting
from mage.errors import ConfigError
from mage.results import Run

RECIPE = "give a text: a shipped name"
KEYS = "give a mapping of dotted keys"
WORLD = "give a text, the spec of a world"
PATH = "give a path, as a text or a Path"
TEXTS = "give a text or a list of texts"
AGENT = "give a run, or a text or a path that `mage evaluate` takes"
NAME = "cannot be the name of a"

m: Any = mage  # any argument may be given
WRONG: Mapping[str, tuple[Callable[[], object], str]] = {
    "train 5": (lambda: m.train(5), f"recipe = 5: {RECIPE}"),
    "train None": (lambda: m.train(None), f"recipe = None: {RECIPE}"),
    "train list": (lambda: m.train(["rps"]), f"recipe = ['rps']: {RECIPE}"),
    "train path": (lambda: m.train(Path("own.toml")), f"PosixPath('own.toml'): {RECIPE}"),
    "train settings": (lambda: m.train("rps", 5), f"overrides = 5: {KEYS}"),
    "train false": (lambda: m.train("rps", False), f"overrides = False: {KEYS}"),
    "train text": (lambda: m.train("rps", "steps=3"), f"overrides = 'steps=3': {KEYS}"),
    "train key": (lambda: m.train("rps", {5: 1}), "a key of overrides = 5: give a text"),
    "train entry": (lambda: m.train("rps", [5]), "an entry of overrides = 5: give a text"),
    "train folder": (lambda: m.train("rps", folder=5), f"folder = 5: {PATH}"),
    "plan None": (lambda: m.plan(None), f"recipe = None: {RECIPE}"),
    "plan settings": (lambda: m.plan("rps", 5), f"overrides = 5: {KEYS}"),
    "plan model": (lambda: m.plan("rps", model=7), "model = 7: give a text"),
    "plan gpus": (lambda: m.plan("rps", gpus="2"), "gpus = '2': give a whole number from 0 to 100000"),
    "plan share": (lambda: m.plan("rps", gpus=1.5), "gpus = 1.5: give a whole number from 0 to 100000"),
    "plan node": (lambda: m.plan("rps", per_node=None), "per_node = None: give a whole number from 1 up"),
    "plan gib": (lambda: m.plan("rps", gib="80"), "gib = '80': give a number from 1 up"),
    "value list": (lambda: m.value([]), f"world = []: {WORLD}"),
    "value opponents": (lambda: m.value("rps", opponents=5), f"opponents = 5: {TEXTS}"),
    "value opponent": (lambda: m.value("rps", opponents=[5]), "an entry of opponents = 5: give a text"),
    "value vary": (lambda: m.value("rps", vary={"rounds": [1]}), "vary = {'rounds': [1]}: give a text"),
    "evaluate 3": (lambda: m.evaluate(3), f"agent = 3: {AGENT}"),
    "evaluate None": (lambda: m.evaluate(None), f"agent = None: {AGENT}"),
    "evaluate world": (lambda: m.evaluate("copy", world=5), f"world = 5: {WORLD}"),
    "evaluate settings": (lambda: m.evaluate("copy", ["trial.episodes=3"]), f"['trial.episodes=3']: {KEYS}"),
    "evaluate opponents": (lambda: m.evaluate("copy", world="rps", opponents=5), f"opponents = 5: {TEXTS}"),
    "cross_play text": (lambda: m.cross_play("copy", "rps"), "agents = 'copy': give a list of agents"),
    "cross_play agent": (lambda: m.cross_play(["copy", 2], "rps"), f"an entry of agents = 2: {AGENT}"),
    "cross_play world": (lambda: m.cross_play(["copy", "paper"], None), f"world = None: {WORLD}"),
    "cross_play trials": (
        lambda: m.cross_play(["copy", "paper"], "rps", trials="2"),
        "trials = '2': give a whole number",
    ),
    "nashconv learn": (lambda: m.nashconv("uniform", "rps", learn="x"), "learn = 'x': give a whole number"),
    "value words": (lambda: m.value("rps", words="2"), "words = '2': give a whole number"),
    "value discount": (lambda: m.value("rps", discount=None), "discount = None: give a number above 0 and up to 1"),
    "nashconv world": (lambda: m.nashconv("uniform", 5), f"world = 5: {WORLD}"),
    "nashconv after": (lambda: m.nashconv("uniform", "rps", after=5), f"after = 5: {AGENT}"),
    "nashconv text": (lambda: m.nashconv("uniform", "rps", responders="copy"), "responders = 'copy': give a list"),
    "nashconv settings": (lambda: m.nashconv("uniform", "rps", 5), f"overrides = 5: {KEYS}"),
    "sweep 5": (lambda: m.sweep(5), f"recipes = 5: {TEXTS}"),
    "sweep entry": (lambda: m.sweep(["rps", 5]), "an entry of recipes = 5: give a text"),
    "sweep settings": (lambda: m.sweep("rps", 5), f"overrides = 5: {KEYS}"),
    "compare 5": (lambda: m.compare(5), "input = 5: give a run, a sweep, a text or a path"),
    "compare list": (lambda: m.compare(["a", "b"]), "input = ['a', 'b']: give a run, a sweep, a text or a path"),
    "export run": (lambda: m.export_model(5, "model"), "run = 5: give a run, or the path of one"),
    "export folder": (lambda: m.export_model("run", None), f"folder = None: {PATH}"),
    "open_run": (lambda: m.open_run(None), f"folder = None: {PATH}"),
    "open_sweep": (lambda: m.open_sweep([]), f"folder = []: {PATH}"),
    "write_split path": (lambda: m.write_split(5, "rps", ["copy"]), f"path = 5: {PATH}"),
    "write_split world": (lambda: m.write_split("a.json", 5, ["copy"]), f"world = 5: {WORLD}"),
    "write_split members": (lambda: m.write_split("a.json", "rps", 5), f"members = 5: {TEXTS}"),
    "check_world": (lambda: m.check_world(5), f"spec = 5: {WORLD}"),
    "register_world": (lambda: m.register_world(5, Run), f"5 {NAME} world"),
    "register_game": (lambda: m.register_game(["mine"], Run), f"['mine'] {NAME} game"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_type_is_one_line(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, said = WRONG[case]
    with pytest.raises(ConfigError) as caught:
        call()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir()), "nothing was begun"


def test_what_varies_is_a_mapping_to_a_list() -> None:
    with pytest.raises(ConfigError, match=r"^vary = 5: give a mapping from one key to its values"):
        one_setting(5)  # type: ignore[arg-type]
    for value in (5, "1e-3"):
        with pytest.raises(ConfigError, match=f"^learner.lr = {value!r}: give a list of values"):
            one_setting({"learner.lr": value})  # type: ignore[dict-item]


def test_settings_of_a_resumed_run_are_a_mapping(tmp_path: Path) -> None:
    run = Run(tmp_path, load_config("rps"), 0)
    with pytest.raises(ConfigError, match=r"^overrides = 'steps=9': give a mapping of dotted keys"):
        run.resume("steps=9")  # type: ignore[arg-type]


def test_an_entry_of_a_wrong_type_is_not_shown_where_it_may_hold_a_key() -> None:
    with pytest.raises(ConfigError, match="an allowed host is a text, not of type list; write HOST"):
        m.allow_hosts(["me:secret@host"]).__enter__()


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(ConfigError) as caught:
        m.train(list(range(1000)))
    assert len(str(caught.value)) < 250
