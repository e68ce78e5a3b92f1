"""Methods, models and worlds that a script registers, or that a package adds by entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mage
from mage.agents.language import LanguageAgent
from mage.agents.methods.registry import agent_class
from mage.errors import ConfigError
from mage.models.load import LoadedModel, ModelRequest, is_ours, is_random, load_model
from mage.types import WorldInfo
from mage.worlds.registry import load_world
from tests.test_plugins import NUMBER, ROOT

pytestmark = pytest.mark.usefixtures("own_names")


class Halfway:
    """A world that is not finished."""

    info = WorldInfo(1, 0.0, 1.0)

    def rules(self) -> str:
        return ""


def test_what_a_world_lacks_is_named() -> None:
    mage.register_world("halfway", Halfway)  # type: ignore[arg-type]
    lacking = "the world 'halfway' lacks new_env, opponent, check_opponent, check_level; mage.protocols.World has"
    with pytest.raises(ConfigError, match=lacking):
        load_world("halfway")


class Shouting(LanguageAgent):
    """Speaks loudly."""

    method = "shouting"


def test_registered_methods_are_found_by_name() -> None:
    mage.register_method("shouting", Shouting)
    assert agent_class("shouting") is Shouting
    with pytest.raises(ConfigError, match="its class Shouting has method = 'shouting'; both must agree"):
        mage.register_method("loud", Shouting)
    with pytest.raises(ConfigError, match=r"a method is a subclass of mage.agents.language.LanguageAgent"):
        mage.register_method("number", int)


def small_nano(request: ModelRequest, hidden: int = 16) -> object:
    """A nano of mine."""
    made = load_model(f"nano(hidden={hidden},layers=1,heads=2)", seed=request.seed, worlds=request.worlds)
    return made if hidden == 8 else (made.model, made.tokenizer) if hidden == 16 else None


def test_registered_models_are_loaded_by_spec() -> None:
    mage.register_model("small", small_nano)
    assert is_ours("small(hidden=8)")
    assert is_random("small")
    for name in ("small", "small(hidden=8)"):
        loaded = load_model(name, seed=3, dtype="bfloat16")
        assert isinstance(loaded, LoadedModel)
        assert (loaded.name, str(loaded.model.dtype)) == (name, "torch.bfloat16")
    with pytest.raises(ConfigError, match="the loader of the model 'small' must return"):
        load_model("small(hidden=32)")
    with pytest.raises(ConfigError, match=r"unknown parameter 'layers' in .*; model 'small' takes hidden=16"):
        load_model("small(layers=1)")


def test_a_package_adds_worlds_methods_and_models(tmp_path: Path) -> None:
    info = tmp_path / "foreign-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[mage.worlds]\nelsewhere = foreign:World\n"
        "[mage.methods]\nloud = foreign:Loud\n[mage.models]\nbig = foreign:big\n"
    )
    (tmp_path / "foreign.py").write_text(
        NUMBER.partition("mage.register")[0].replace("class HiddenNumber", "class World")
        + "from mage.agents.language import LanguageAgent\n"
        'class Loud(LanguageAgent):\n    "Loud."\n    method = "loud"\n'
        'def big(request, size=1):\n    "A big one."\n'
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    for kind, line in {
        "worlds": "elsewhere  largest=2",
        "methods": "loud  memory both",
        "models": "big  size=1",
    }.items():
        command = [sys.executable, "-c", "from mage.cli import main; main()", "list", kind]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert (done.returncode, line in done.stdout) == (0, True), done.stdout + done.stderr
