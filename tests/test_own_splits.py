"""Splits of one's own: files that are written, read, refused, and kept with a run."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

import mage
from mage.cli import app
from mage.errors import ConfigError, PlayError, RecordError
from mage.evaluation.splits import (
    SplitKind,
    check_split,
    load_split,
    make_split,
    write_split,
)
from mage.opponents.check_moves import check_moves
from mage.opponents.policy import certainly, evenly
from mage.training.build import check_splits
from mage.training.parts import build_parts
from mage.training.resume_changes import config_of
from mage.training.run import create_run_directory, train_run
from mage.types import Observation
from mage.worlds.openspiel.game import load_game
from mage.worlds.registry import load_world
from tests.tiny import tiny_config

GAME = "rps(rounds=3)"


def test_a_split_of_ones_own_is_written_and_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "mine.json"
    write_split(path, " rps( rounds=3 )", ["always:rock", "copy"], description="two", held_out=True)
    split = load_split(str(path))
    assert split == make_split("mine", "two", GAME, ("always(rock)", "copy"), held_out=True)
    write_split(
        path, GAME, ["always:rock", "copy"], description="two", held_out=True
    )  # a cell that runs twice does no harm
    with pytest.raises(RecordError, match=r"mine\.json exists with other content"):
        write_split(path, GAME, ["copy"])
    assert load_split(str(path)) == split


def test_a_split_of_ones_own_has_a_kind_and_a_length(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    write_split(path, GAME, ["switch(copy,cycle,at=2)"], held_out=True, kind="switching", episodes=5)
    split = load_split(str(path))
    assert (split.kind, split.episodes) == (SplitKind.SWITCHING, 5)
    assert load_split(str(_written(tmp_path / "a.json"))).kind is SplitKind.SEEN
    assert load_split(str(_written(tmp_path / "b.json", held_out=True))).kind is SplitKind.FAMILIES
    with pytest.raises(
        ConfigError, match="unknown kind of split 'odd'; known: harder, reworded, seen, switching, unseen"
    ):
        write_split(tmp_path / "c.json", GAME, ["copy"], kind="odd")
    with pytest.raises(ConfigError, match="episodes must be a whole number from 1, not 0"):
        write_split(tmp_path / "c.json", GAME, ["copy"], episodes=0)
    done = CliRunner().invoke(app, ["split", str(tmp_path / "d.json"), "copy", "--world", GAME, "--kind", "harder"])
    assert done.exit_code == 0, done.output
    assert load_split(str(tmp_path / "d.json")).kind is SplitKind.HARDER


def _written(path: Path, *, held_out: bool = False) -> Path:
    write_split(path, GAME, ["copy"], held_out=held_out)
    return path


def test_a_file_from_before_there_were_kinds_is_read(tmp_path: Path) -> None:
    path = _written(tmp_path / "mine.json")
    values = msgspec.json.decode(path.read_bytes())
    del values["kind"], values["episodes"]
    path.write_bytes(msgspec.json.encode(values))
    assert (load_split(str(path)).kind, load_split(str(path)).episodes) == (SplitKind.SEEN, None)


@pytest.mark.parametrize(
    ("name", "game", "members", "says"),
    [
        ("mine.toml", GAME, ["copy"], "cannot be the file of a split; it ends in .json"),
        ("my own.json", GAME, ["copy"], "letters, digits, '-' and '_'"),
        ("rps-seven.json", GAME, ["copy"], "is not that of a shipped split"),
        ("mine.json", "nope", ["copy"], "unknown world 'nope'"),
        ("mine.json", GAME, ["nope"], "unknown opponent 'nope'"),
        ("mine.json", GAME, ["conservative"], "cannot play rps"),
        ("mine.json", GAME, [], "'mine' needs at least one member"),
        ("mine.json", GAME, ["always:rock", "always(rock)"], "and each of them once"),
    ],
)
def test_a_split_that_could_not_be_judged_by_is_not_written(
    tmp_path: Path, name: str, game: str, members: list[str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        write_split(tmp_path / name, game, members)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def grudge(game: Any, seat: int, rng: random.Random, patience: Any = 1) -> Any:
    """Compares with its value in its first decision."""
    return lambda seen: certainly(seen, int(sum(theirs for _, theirs in seen.facts["rounds"]) >= patience))


def late(game: Any, seat: int, rng: random.Random, reply: Any = 0) -> Any:
    """Uses its value once it has lost a round against the other's last action."""
    return lambda seen: certainly(seen, reply + 0 if [2, 0] in map(list, seen.facts["rounds"][-1:]) else 2)


@pytest.mark.usefixtures("own_names")
@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("grudge:9x", r"opponent 'grudge\(9x\)' raises TypeError: '>=' not supported between .*'int' and 'Spec'"),
        ("grudge(patience=9x)", r"opponent 'grudge\(patience=9x\)' raises TypeError: '>=' not supported"),
        ("switch(copy,grudge:9x,at=2)", r"opponent 'grudge\(9x\)' raises TypeError"),
        ("mixture(uniform,grudge:9x,each=trial)", r"opponent 'grudge\(9x\)' raises TypeError"),
        ("best-response:grudge(9x)", r"opponent 'grudge\(9x\)' raises TypeError"),
        ("best-response(opponent=grudge(9x))", r"opponent 'grudge\(9x\)' raises TypeError"),
        ("late:9x", r"opponent 'late\(9x\)' raises TypeError: unsupported operand"),
    ],
)
def test_a_wrong_value_of_ones_own_opponent_is_found_when_the_split_is_written(
    member: str, said: str, tmp_path: Path
) -> None:
    mage.register_opponent("grudge", grudge)
    mage.register_opponent("late", late)
    with pytest.raises(PlayError, match=rf"^{said}.* \(at test_own_splits.py:\d+\)$") as refused:
        write_split(tmp_path / "mine.json", GAME, ["copy", member])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PlayError) as played:
        mage.value(GAME, opponents=[member])
    assert str(played.value) == str(refused.value)
    done = CliRunner().invoke(app, ["split", str(tmp_path / "mine.json"), member, "--world", GAME])
    assert done.exit_code != 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("own_names")
def test_opponents_of_ones_own_that_play_are_written_and_those_of_mage_are_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mage.register_opponent("grudge", grudge)
    mage.register_opponent("late", late)
    members = ["grudge", "grudge:2", "late:1", "switch(copy,grudge:2,at=2)", "best-response:grudge"]
    assert len(write_split(tmp_path / "mine.json", GAME, members).members) == 5
    monkeypatch.setattr("mage.opponents.check_moves._ask", lambda *_: pytest.fail("it was asked"))
    write_split(tmp_path / "ours.json", "tic_tac_toe", ["mcts:9", "mixture(uniform,minimax,each=trial)"])


@pytest.mark.usefixtures("own_names")
@pytest.mark.parametrize(
    "game",
    ["kuhn_poker", "tic_tac_toe(opening=1)", "leduc_poker(players=3)", "blackjack", "2048", "crazy_eights", "maedn"],
)
def test_every_seat_of_every_game_is_asked(game: str, tmp_path: Path) -> None:
    asked = set()

    def even(game: Any, seat: int, rng: random.Random) -> Any:
        def policy(seen: Observation) -> list[float]:
            asked.add(seen.seat)
            return evenly(seen)

        return policy

    mage.register_opponent("even", even)
    num_seats = load_world(game).info.num_seats
    if num_seats == 1:
        check_moves("even", load_game(game), 0)
    else:
        write_split(tmp_path / "mine.json", game, ["even"])
    assert asked == set(range(num_seats))


def test_a_file_that_was_changed_renamed_broken_or_lost_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    write_split(path, GAME, ["copy", "uniform"])
    content = path.read_bytes()
    shutil.copy(path, tmp_path / "other.json")
    with pytest.raises(ConfigError, match="is called 'mine'; file and split must have one name"):
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
    write_split(folder / "to-evaluate.json", GAME, ["always:paper", "uniform"], held_out=True)
    return str(folder / "to-train.json"), str(folder / "to-evaluate.json")


def test_what_a_named_file_holds_out_is_refused(tmp_path: Path) -> None:
    train, evaluate_split = splits_in(tmp_path)
    good = tiny_config(f"population.split={train}", f'evaluation.splits=["{evaluate_split}"]', f"world={GAME}")
    check_splits(good)
    caught = r"'always\(paper\)'(, which)? is held out by the split 'to-evaluate'; train without it"
    for wrong in ('population.members=["switch(copy,always:paper,at=1)"]', f"population.split={evaluate_split}"):
        config = tiny_config(
            f"population.split={train}", f'evaluation.splits=["{evaluate_split}"]', f"world={GAME}", wrong
        )
        with pytest.raises(ConfigError, match=caught):
            create_run_directory(config, tmp_path / "run")
        with pytest.raises(ConfigError, match=caught):
            build_parts(config)
    assert not (tmp_path / "run").exists()


def test_splits_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    train, evaluate_split = splits_in(tmp_path)
    write_split(tmp_path / "b" / "to-evaluate.json", GAME, ["uniform"])
    both = f'evaluation.splits=["{evaluate_split}", "{tmp_path / "b" / "to-evaluate.json"}"]'
    with pytest.raises(ConfigError, match="name each split once"):
        check_splits(tiny_config(both))
    write_split(tmp_path / "b" / "to-train.json", GAME, ["uniform"])
    other = (f"population.split={train}", f'evaluation.splits=["{tmp_path / "b" / "to-train.json"}"]', f"world={GAME}")
    with pytest.raises(ConfigError, match="there are two splits called 'to-train'"):
        check_splits(tiny_config(*other))


def test_a_run_keeps_the_splits_it_was_started_with(tmp_path: Path) -> None:
    train, evaluate_split = splits_in(tmp_path)
    write_split(tmp_path / "part.json", GAME, ["uniform"])
    splits_named = f'evaluation.splits=["{evaluate_split}", "{tmp_path / "part.json"}", "rps-seven"]'
    create_run_directory(
        tiny_config(f"population.split={train}", "population.members=[]", splits_named, f"world={GAME}"),
        tmp_path / "run",
    )
    for path in tmp_path.glob("*.json"):
        path.unlink()
    write_split(tmp_path / "to-train.json", GAME, ["cycle"])
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    parts = build_parts(config_of(moved))
    assert {task.opponents[0] for task in parts.tasks(50, "tasks", 0)} == {"always(rock)", "copy"}
    assert [split.name for split in parts.splits] == ["to-evaluate", "part", "rps-seven"]


def test_a_run_is_trained_and_judged_by_files(tmp_path: Path) -> None:
    train, evaluate_split = splits_in(tmp_path)
    config = tiny_config(
        *(f"population.split={train}", f'evaluation.splits=["{evaluate_split}"]', f"world={GAME}"),
        *("steps=1", "evaluation.final_trials=2"),
    )
    create_run_directory(config, tmp_path / "run")
    train_run(tmp_path / "run", Console(quiet=True))
    (report,) = mage.evaluate(tmp_path / "run", trials=2).splits.values()
    assert (report.split, report.sha256, report.num_trials) == ("to-evaluate", load_split(evaluate_split).sha256, 4)
    assert report.references[0][1].memoryless is not None
