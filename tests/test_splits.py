"""Splits: the shipped files, and what happens when one is changed, misspelt or trained on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from mage.build import check, check_splits, members_of
from mage.config import load_config, recipe_names
from mage.errors import ConfigError, RecordError
from mage.evaluate import splits
from mage.evaluate.splits import (
    Split,
    check_split,
    load_split,
    make_split,
    pool_of,
    refuse_held_out,
    shipped_split,
    split_names,
    write_split,
)
from mage.games.openspiel import load_game
from mage.learn.changes import config_of
from mage.learn.parts import build_parts
from mage.learn.run import go, judge_run, start
from mage.players.table import check_opponent
from mage.spec import parse_spec
from tests.tiny import tiny_config

SHIPPED = Path(splits.__file__).parents[1] / "splits"
HELD_OUT = [name for name in split_names() if load_split(name).held_out]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the shipped files that `load_split` reads instead."""
    shutil.copytree(SHIPPED, tmp_path / "splits", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr("mage.evaluate.splits.resources.files", lambda _: tmp_path)
    shipped_split.cache_clear()
    yield tmp_path / "splits"
    shipped_split.cache_clear()


@pytest.mark.parametrize("name", split_names())
def test_every_member_is_canonical_and_can_be_seated_anywhere(name: str) -> None:
    split = load_split(name)
    game = load_game(split.game)
    assert split.members
    assert len(set(split.members)) == len(split.members)
    assert split.game == str(parse_spec(split.game))
    for member in split.members:
        assert member == str(parse_spec(member))
        for seat in range(game.num_seats):
            check_opponent(member, game, seat)
    assert load_split(split.pool).game == split.game
    assert set(split.members) <= set(load_split(split.pool).members)


def test_105_players_are_80_to_train_with_and_25_to_judge_by() -> None:
    everyone, trained, held_out = (
        load_split(name).members for name in ("rps-memory-one", "rps-trained", "rps-held-out")
    )
    assert (len(everyone), len(trained), len(held_out)) == (105, 80, 25)
    assert not set(trained) & set(held_out)
    assert set(trained) | set(held_out) == set(everyone)


@pytest.mark.parametrize("change", ["members", "game", "sha256"])
def test_a_split_that_was_changed_is_refused_by_its_name(folder: Path, change: str) -> None:
    path = folder / "rps-seven.json"
    split = msgspec.json.decode(path.read_bytes(), type=Split)
    values = {"members": split.members[1:], "game": "rps(rounds=4)", "sha256": "0" * 64}
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
    with pytest.raises(ConfigError, match="unknown split 'rps-eight'; known: kuhn-behaviour-held-out, ") as caught:
        load_split("rps-eight")
    assert all(name in str(caught.value) for name in split_names())


@pytest.mark.parametrize("name", HELD_OUT)
def test_training_on_a_member_that_is_held_out_is_refused(name: str) -> None:
    split = load_split(name)
    for member in split.members:
        with pytest.raises(ConfigError, match=f"is held out by the split '({name}|rps-held-out)'; train"):
            refuse_held_out(split.game, ("uniform", member))


def test_a_held_out_member_is_refused_however_it_is_written_or_wrapped() -> None:
    for member in ("always( bet )", "always:bet", "switch(conservative,always:bet,at=1)"):
        with pytest.raises(ConfigError, match=r"'always\(bet\)' is held out by the split 'kuhn-other-scripts'"):
            refuse_held_out("kuhn_poker(reworded=3)", (member,))
    with pytest.raises(ConfigError, match="is held out by the split 'rps-held-out'"):
        refuse_held_out("rps(rounds=9)", load_split("rps-held-out").members[:1])


def test_others_may_be_trained_with() -> None:
    refuse_held_out("kuhn_poker", ("conservative", "aggressive", "behaviour(concentration=0.3)", "uniform"))
    refuse_held_out("rps", load_split("rps-trained").members)
    refuse_held_out("leduc_poker", ("cfr",))  # held out in another game


def test_mage_train_refuses_held_out_members_in_one_line(tmp_path: Path) -> None:
    main = "import sys; from mage.cli import main; sys.argv[0] = 'mage'; main()"
    keys = ["population.members=['always:bet']", "population.weights=[]"]
    command = [sys.executable, "-c", main, "train", "kuhn", *keys, "--run", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("mage: population.members: 'always(bet)' is held out by the split")
    assert not (tmp_path / "run").exists(), "nothing is left behind"


def test_a_population_that_is_held_out_is_refused(tmp_path: Path) -> None:
    config = load_config("kuhn", ["population.split=kuhn-other-scripts", "population.weights=[]"])
    with pytest.raises(ConfigError, match="is held out by the split 'kuhn-other-scripts'"):
        start(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", [name for name, _ in recipe_names()])
def test_no_shipped_recipe_trains_on_what_is_held_out(name: str) -> None:
    config = load_config(name)
    check(config)
    refuse_held_out(config.game, members_of(config))
    for split in config.evaluation.splits:
        assert load_split(split).game == str(parse_spec(config.game))


def test_a_split_is_made_with_canonical_specs_and_its_own_pool() -> None:
    split = make_split("mine", "", " rps( rounds = 3 )", ("mcts:100", "always( rock )"), held_out=True)
    assert (split.game, split.members, split.pool) == ("rps(rounds=3)", ("mcts(100)", "always(rock)"), "mine")
    assert split.sha256 == make_split("other", "words", split.game, split.members, held_out=False).sha256
    assert split.sha256 != make_split("mine", "", split.game, split.members[::-1], held_out=True).sha256


GAME = "rps(rounds=3)"


def test_a_split_of_ones_own_is_written_and_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "mine.json"
    write_split(path, " rps( rounds=3 )", ["always:rock", "copy"], description="two", held_out=True)
    split = load_split(str(path))
    assert split == make_split("mine", "two", GAME, ("always(rock)", "copy"), held_out=True)
    assert pool_of(split) == split
    write_split(
        path, GAME, ["always:rock", "copy"], description="two", held_out=True
    )  # a cell that runs twice does no harm
    with pytest.raises(RecordError, match=r"mine\.json holds something else already"):
        write_split(path, GAME, ["copy"])
    assert load_split(str(path)) == split


def test_a_pool_is_shipped_or_lies_beside_the_file(tmp_path: Path) -> None:
    write_split(tmp_path / "all.json", GAME, ["copy", "uniform", "always:rock"])
    write_split(tmp_path / "some.json", GAME, ["uniform"], pool="all")
    write_split(tmp_path / "known.json", GAME, ["copy"], pool="rps-seven")
    assert pool_of(load_split(str(tmp_path / "some.json"))).members == ("copy", "uniform", "always(rock)")
    assert pool_of(load_split(str(tmp_path / "known.json"))) == load_split("rps-seven")
    moved = shutil.copytree(tmp_path, tmp_path / "moved")
    assert pool_of(load_split(str(moved / "some.json"))).name == "all", "relative to the file, not to who reads it"


@pytest.mark.parametrize(
    ("name", "game", "members", "pool", "says"),
    [
        ("mine.toml", GAME, ["copy"], "", "cannot be the file of a split; it ends in .json"),
        ("my own.json", GAME, ["copy"], "", "letters, digits, '-' and '_'"),
        ("rps-seven.json", GAME, ["copy"], "", "is not that of a shipped split"),
        ("mine.json", "nope", ["copy"], "", "unknown game 'nope'"),
        ("mine.json", GAME, ["nope"], "", "unknown opponent 'nope'"),
        ("mine.json", GAME, ["conservative"], "", "cannot play rps"),
        ("mine.json", GAME, [], "", "'mine' needs at least one member"),
        ("mine.json", GAME, ["always:rock", "always(rock)"], "", "and each of them once"),
        ("mine.json", GAME, ["copy"], "nope", "unknown split 'nope'; known: .*; or a path.json"),
        ("mine.json", GAME, ["uniform"], "rps-seven", "its pool 'rps-seven' has another game or lacks some members"),
        ("mine.json", "rps(rounds=4)", ["copy"], "rps-seven", "its pool 'rps-seven' has another game"),
    ],
)
def test_a_split_that_could_not_be_judged_by_is_not_written(
    tmp_path: Path, name: str, game: str, members: list[str], pool: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        write_split(tmp_path / name, game, members, pool=pool)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_changed_renamed_broken_or_lost_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    write_split(path, GAME, ["copy", "uniform"])
    content = path.read_bytes()
    shutil.copy(path, tmp_path / "other.json")
    with pytest.raises(ConfigError, match="is called 'mine'; a file is called as its split is"):
        load_split(str(tmp_path / "other.json"))
    path.write_bytes(content.replace(b"uniform", b"win-stay"))
    with pytest.raises(RecordError, match=r"mine\.json' was changed: its members do not have the hash"):
        load_split(str(path))
    path.write_bytes(content[:-9])
    with pytest.raises(RecordError, match=r"mine\.json' cannot be read"):
        load_split(str(path))
    path.unlink()
    with pytest.raises(ConfigError, match=r"mine\.json' cannot be read: No such file"):
        load_split(str(path))


def test_seats_that_a_split_does_not_have_are_refused(tmp_path: Path) -> None:
    write_split(tmp_path / "mine.json", GAME, ["copy"])
    check_split(load_split(str(tmp_path / "mine.json")), (0, 1))
    with pytest.raises(ConfigError, match=r"the split 'mine': rps\(rounds=3\) has seats 0 to 1, not 2"):
        check_split(load_split(str(tmp_path / "mine.json")), (2,))


def splits_in(folder: Path) -> tuple[str, str]:
    """Two files: members to train with, and others that are held out."""
    write_split(folder / "to-train.json", GAME, ["always:rock", "copy"])
    write_split(folder / "to-judge.json", GAME, ["always:paper", "uniform"], held_out=True)
    return str(folder / "to-train.json"), str(folder / "to-judge.json")


def test_what_a_named_file_holds_out_is_refused(tmp_path: Path) -> None:
    train, judge = splits_in(tmp_path)
    good = tiny_config(f"population.split={train}", f'evaluation.splits=["{judge}"]', f"game={GAME}")
    check_splits(good)
    caught = r"'always\(paper\)' is held out by the split 'to-judge'; train without it"
    for wrong in ('population.members=["switch(copy,always:paper,at=1)"]', f"population.split={judge}"):
        config = tiny_config(f"population.split={train}", f'evaluation.splits=["{judge}"]', f"game={GAME}", wrong)
        with pytest.raises(ConfigError, match=caught):
            start(config, tmp_path / "run")
        with pytest.raises(ConfigError, match=caught):
            build_parts(config)
    assert not (tmp_path / "run").exists()


def test_splits_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    train, judge = splits_in(tmp_path)
    write_split(tmp_path / "b" / "to-judge.json", GAME, ["uniform"])
    both = f'evaluation.splits=["{judge}", "{tmp_path / "b" / "to-judge.json"}"]'
    with pytest.raises(ConfigError, match="name each split once"):
        check_splits(tiny_config(both))
    write_split(tmp_path / "b" / "to-train.json", GAME, ["uniform"])
    other = (f"population.split={train}", f'evaluation.splits=["{tmp_path / "b" / "to-train.json"}"]', f"game={GAME}")
    with pytest.raises(ConfigError, match="there are two splits called 'to-train'"):
        check_splits(tiny_config(*other))


def test_a_run_keeps_the_splits_it_was_started_with(tmp_path: Path) -> None:
    write_split(tmp_path / "all.json", GAME, ["always:paper", "uniform", "copy"])
    train, judge = splits_in(tmp_path)
    write_split(tmp_path / "part.json", GAME, ["uniform"], pool="all")
    splits_named = f'evaluation.splits=["{judge}", "{tmp_path / "part.json"}", "rps-seven"]'
    start(
        tiny_config(f"population.split={train}", "population.members=[]", splits_named, f"game={GAME}"),
        tmp_path / "run",
    )
    for path in tmp_path.glob("*.json"):
        path.unlink()
    write_split(tmp_path / "to-train.json", GAME, ["cycle"])
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    parts = build_parts(config_of(moved))
    assert {task.opponents[0] for task in parts.tasks(50, "tasks", 0)} == {"always(rock)", "copy"}
    assert [split.name for split in parts.splits] == ["to-judge", "part", "rps-seven"]
    assert pool_of(parts.splits[1]).members == ("always(paper)", "uniform", "copy")


def test_a_run_is_trained_and_judged_by_files(tmp_path: Path) -> None:
    train, judge = splits_in(tmp_path)
    config = tiny_config(
        *(f"population.split={train}", f'evaluation.splits=["{judge}"]', f"game={GAME}"),
        *("steps=1", "evaluation.final_trials=2"),
    )
    start(config, tmp_path / "run")
    go(tmp_path / "run", Console(quiet=True))
    _, (report,) = judge_run(tmp_path / "run", trials=2)
    assert (report.split, report.sha256, report.num_trials) == ("to-judge", load_split(judge).sha256, 4)
    assert report.references[0][1].memoryless is not None
