"""Splits: the shipped files, and what happens when one is changed, misspelt or trained on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mage.config.compose import shipped_recipes
from mage.config.load import load_config
from mage.errors import ConfigError, RecordError
from mage.evaluation import splits
from mage.evaluation.config_splits import evaluated_splits, members_of
from mage.evaluation.held_out import refuse_held_out
from mage.evaluation.splits import (
    Split,
    SplitKind,
    check_split,
    has_levels,
    load_split,
    make_split,
    shipped_split,
    split_names,
)
from mage.opponents.enumerate import active_spec, switch_episodes
from mage.opponents.registry import check_opponent
from mage.spec import Spec, make_spec, parse_spec
from mage.training.build import check
from mage.training.loop import tasks_of_split
from mage.training.run import create_run_directory
from mage.types import Task
from mage.worlds.openspiel.game import load_game
from mage.worlds.registry import load_world

SHIPPED = Path(splits.__file__).parents[1] / "splits"
HELD_OUT = [
    name for name in split_names() if load_split(name).held_out and load_split(name).kind is not SplitKind.REWORDED
]
REWORDED = [name for name in split_names() if load_split(name).kind is SplitKind.REWORDED]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the shipped files that `load_split` reads instead."""
    shutil.copytree(SHIPPED, tmp_path / "splits", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr("mage.evaluation.splits.resources.files", lambda _: tmp_path)
    shipped_split.cache_clear()
    yield tmp_path / "splits"
    shipped_split.cache_clear()


@pytest.mark.parametrize("name", [name for name in split_names() if has_levels(load_split(name).world)])
def test_every_level_is_one_of_its_world(name: str) -> None:
    split = load_split(name)
    check_split(split, (0,))
    assert split.world == str(parse_spec(split.world))


@pytest.mark.parametrize("name", [name for name in split_names() if not has_levels(load_split(name).world)])
def test_every_member_is_canonical_and_can_be_seated_anywhere(name: str) -> None:
    split = load_split(name)
    game = load_game(split.world)
    assert split.members
    assert len(set(split.members)) == len(split.members)
    assert split.world == str(parse_spec(split.world))
    for member in split.members:
        assert member == str(parse_spec(member))
        for seat in range(game.num_seats):
            check_opponent(member, game, seat)


@pytest.mark.parametrize("change", ["members", "world", "sha256", "weights"])
def test_a_split_that_was_changed_is_refused_by_its_name(folder: Path, change: str) -> None:
    path = folder / "rps-seven.json"
    split = msgspec.json.decode(path.read_bytes(), type=Split)
    values = {"members": split.members[1:], "world": "rps(rounds=4)", "sha256": "0" * 64, "weights": (2,) * 7}
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(split, **{change: values[change]})))
    with pytest.raises(RecordError, match="the split 'rps-seven' was changed"):
        load_split("rps-seven")
    assert load_split("rps-held-out").held_out


def test_words_about_a_split_may_change(folder: Path) -> None:
    path = folder / "rps-seven.json"
    split = msgspec.json.decode(path.read_bytes(), type=Split)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(split, description="other words")))
    assert load_split("rps-seven").description == "other words"


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": "rps-seven"}', b"[1]", b"\xff"])
def test_a_split_that_cannot_be_read_is_named(folder: Path, content: bytes) -> None:
    (folder / "rps-seven.json").write_bytes(content)
    with pytest.raises(RecordError, match="the split 'rps-seven' cannot be read") as caught:
        load_split("rps-seven")
    assert "\n" not in str(caught.value)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown split 'rps-sevn'; did you mean rps-seven\? known: .*dilemma-four, "
    ) as caught:
        load_split("rps-sevn")
    assert all(name in str(caught.value) for name in split_names())


@pytest.mark.parametrize("name", HELD_OUT)
def test_training_on_a_member_that_is_held_out_is_refused(name: str) -> None:
    split = load_split(name)
    holders = [other.name for other in map(load_split, HELD_OUT) if {*other.members} & {*split.members}]
    for member in split.members:
        with pytest.raises(ConfigError, match=f"is held out by the split '({'|'.join(holders)})'; train"):
            refuse_held_out(split.world, ("uniform", member))


def test_a_held_out_member_is_refused_however_it_is_written_or_wrapped() -> None:
    for member in ("always( pass )", "always:pass", "switch(conservative,always:pass,at=1)"):
        with pytest.raises(ConfigError, match="is held out by the split 'kuhn-other-scripts'"):
            refuse_held_out("kuhn_poker(reworded=3)", (member,))
    with pytest.raises(ConfigError, match="is held out by the split 'rps-held-out'"):
        refuse_held_out("rps(rounds=9)", load_split("rps-held-out").members[:1])


@pytest.mark.parametrize("name", REWORDED)
def test_training_in_words_that_are_held_out_is_refused(name: str) -> None:
    split = load_split(name)
    with pytest.raises(ConfigError, match=f"its wording is held out by the split '{name}'"):
        refuse_held_out(split.world, ("uniform",))
    spec = parse_spec(split.world)
    plain = Spec(spec.name, (), tuple((key, value) for key, value in spec.kwargs if key != "reworded"))
    refuse_held_out(str(plain), split.members)
    refuse_held_out(str(make_spec(spec.name, **{**spec.named, "reworded": 1})), split.members)


def test_words_are_held_out_whatever_else_the_game_has() -> None:
    for game in ("rps(reworded=2603)", "rps(9,2603)", "rps(rounds=5,reworded=2603)"):
        with pytest.raises(ConfigError, match=r"world = rps\(.*: its wording is held out by the split 'rps-reworded'"):
            refuse_held_out(game, ("uniform",))


def test_a_mixture_that_plays_a_held_out_member_for_whole_episodes_is_refused() -> None:
    for each in ("trial", "episode"):
        with pytest.raises(ConfigError, match=r"(plays|behaves like) 'always\(pass\)', which is held out"):
            refuse_held_out("kuhn_poker", (f"mixture(conservative,always:pass,each={each})",))
    refuse_held_out("kuhn_poker", ("mixture(conservative,always:pass)",))  # mixed at each move


@pytest.mark.parametrize("game", ["rps", "kuhn", "tictactoe"])
def test_every_kind_of_split_is_shipped_for_every_game(game: str) -> None:
    found = [load_split(name) for name in split_names() if name.startswith(f"{game}-")]
    assert {split.kind for split in found} == set(SplitKind)
    for split in found:
        assert split.held_out == (split.kind is not SplitKind.SEEN)


@pytest.mark.parametrize("name", [name for name in split_names() if load_split(name).kind is SplitKind.SWITCHING])
def test_switches_leave_time_to_recover_and_go_both_ways(name: str) -> None:
    split = load_split(name)
    assert split.episodes == 6
    turns = []
    for member in split.members:
        spec = parse_spec(member)
        before, after = (str(active_spec(spec, episode)) for episode in (0, 5))
        (at,) = switch_episodes(member, 6)
        turns.append((before, after, at))
    assert {at for _, _, at in turns} == {2, 3}, "nobody can know when"
    assert sorted(turns) == sorted((after, before, at) for before, after, at in turns)
    seen = [m for n in split_names() if (other := load_split(n)).kind is SplitKind.SEEN for m in other.members]
    assert {who for before, after, _ in turns for who in (before, after)} <= set(seen)


@pytest.mark.parametrize("name", REWORDED)
def test_reworded_splits_have_players_to_train_with_and_no_usual_word(name: str) -> None:
    split = load_split(name)
    plain = next(other for n in split_names() if (other := load_split(n)).kind is SplitKind.SEEN and n[:4] == name[:4])
    words = [
        set(load_world(world).rules(Task(world, (), 0, 0, 1, False, False, 9)).lower().replace(",", " ").split())
        for world in (split.world, plain.world)
    ]
    for term in ("rock", "paper", "scissors", "rock-paper-scissors", "kuhn", "poker", "king", "bet", "tic-tac-toe"):
        assert term not in words[0]
    assert not {"prisoner's", "dilemma", "cooperate", "defect"} & words[0]
    assert not {"sokoban", "box", "goal", "wall", "up", "down", "left", "right"} & words[0]
    assert not {"shop", "product", "search", "click", "buy", "price"} & words[0]
    assert not {"microwave", "fridge", "desklamp"} & words[0]
    assert {"rock-paper-scissors", "dilemma", "kuhn", "tic-tac-toe", "box", "shop", "fridge"} & words[1]
    refuse_held_out(plain.world, split.members)


def test_a_split_may_say_how_many_episodes_it_needs() -> None:
    config = load_config("rps")
    split = load_split("rps-switching")
    assert {task.episodes for task in tasks_of_split(config, split, 1)} == {6}
    assert {task.episodes for task in tasks_of_split(config, load_split("rps-seven"), 1)} == {3}
    longer = make_split(split.name, "", split.world, split.members, held_out=True, episodes=8)
    assert longer.sha256 != split.sha256, "trials of another length are other tasks"


def test_others_may_be_trained_with() -> None:
    refuse_held_out("kuhn_poker", ("conservative", "aggressive", "behaviour(concentration=0.3)", "uniform"))
    refuse_held_out("rps", load_split("rps-trained").members)
    refuse_held_out("leduc_poker", ("cfr",))  # held out in another game


def test_mage_train_refuses_held_out_members_in_one_line(tmp_path: Path) -> None:
    main = "import sys; from mage.cli import main; sys.argv[0] = 'mage'; main()"
    keys = ["population.members=['always:pass']", "population.weights=[]"]
    command = [sys.executable, "-c", main, "train", "kuhn", *keys, "--run", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("mage: population.members: 'always:pass' is held out by the split")
    assert not (tmp_path / "run").exists(), "nothing is left behind"


def test_a_population_that_is_held_out_is_refused(tmp_path: Path) -> None:
    config = load_config("kuhn", ["population.split=kuhn-behaviour-held-out", "population.weights=[]"])
    with pytest.raises(ConfigError, match="is held out by the split 'kuhn-behaviour-held-out'"):
        create_run_directory(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", [recipe.name for recipe in shipped_recipes() if recipe.kind.is_whole])
def test_no_shipped_recipe_trains_on_what_is_held_out(name: str) -> None:
    config = load_config(name)
    check(config)
    refuse_held_out(config.world, members_of(config))
    for split in evaluated_splits(config):
        assert parse_spec(split.world).name == parse_spec(config.world).name


def test_a_split_is_made_with_canonical_specs() -> None:
    split = make_split("mine", "", " rps( rounds = 3 )", ("mcts:100", "always( rock )"), held_out=True)
    assert (split.world, split.members) == ("rps(rounds=3)", ("mcts(100)", "always(rock)"))
    assert split.sha256 == make_split("other", "words", split.world, split.members, held_out=False).sha256
    assert split.sha256 != make_split("mine", "", split.world, split.members[::-1], held_out=True).sha256
