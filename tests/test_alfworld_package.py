"""Our engine beside the package `alfworld` on games in its format: the same texts, commands and ends, turn by turn."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from mage.checks.worlds import check_world
from mage.protocols import Env
from mage.seeds import stream
from mage.types import Task
from mage.worlds.alfworld.world import AlfWorld
from mage.worlds.registry import load_world
from tests.alfworld_made import write_games

LEVELS = [
    "bedroom-3:pick:1",
    "livingroom-2:look:4",
    "bathroom-5:clean:2",
    "kitchen-7:heat:9",
    "kitchen-26:cool:3",
    "kitchen-12:two:5",
]
_MISSING = [name for name in ("alfworld", "textworld", "fast_downward") if find_spec(name) is None]

pytestmark = pytest.mark.skipif(
    bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}; docs/environments.md says how"
)


def shown(env: Env) -> tuple[str, tuple[str, ...], int | None]:
    """What both engines must agree on; ALFWorld tells no score at the end, and has other spaces in its help."""
    seen = env.observe(0)
    told = seen.text.partition("\nThe task is done")[0].partition("\nNo turns are left")[0]
    return " ".join(told.split()), seen.actions, env.to_move()


@pytest.mark.parametrize("at_one_place", [1, 2])
@pytest.mark.parametrize("level", LEVELS)
def test_both_engines_agree_turn_by_turn(level: str, at_one_place: int, tmp_path: Path) -> None:
    """Some random commands first, of which some are impossible, then the way of a player that knows everything."""
    write_games(tmp_path, [level], at_one_place=at_one_place)
    own_spec, package_spec = (f'alfworld(games="{tmp_path}",engine={engine})' for engine in ("own", "package"))
    own_world = load_world(own_spec)
    assert isinstance(own_world, AlfWorld)
    task = Task(own_spec, (), 0, 0, 1, False, False, 1000)
    own, package = own_world.new_env(task, 0), load_world(package_spec).new_env(task, 0)
    player, rng = own_world._oracle(task), stream(0, level)
    assert shown(own) == shown(package)
    for turn in range(50):
        seen = own.observe(0)
        action = rng.choice(seen.actions) if turn < 12 else player.choose(seen.facts, 0, turn)  # type: ignore[attr-defined]
        assert own.step(action) == package.step(action)
        assert shown(own) == shown(package), action
        if own.to_move() is None:
            break
    assert own.result().returns == package.result().returns == (1.0,)
    assert own.result().successes == package.result().successes


def test_what_is_impossible_does_nothing_in_both(tmp_path: Path) -> None:
    write_games(tmp_path, LEVELS[3:4])
    spec = f'alfworld(games="{tmp_path}",admissible=false'
    task = Task("", (), 0, 0, 1, False, False, 1000)
    for command in ("fly", "go to moon 1", "open  fridge 1", "take mug 1 from fridge 1"):
        told = [load_world(f"{spec},engine={engine})").new_env(task, 0) for engine in ("own", "package")]
        for env in told:
            env.step(command)
        assert [env.observe(0).text for env in told] == ["Nothing happens.", "Nothing happens."]


def test_the_package_keeps_the_contract_of_worlds(tmp_path: Path) -> None:
    write_games(tmp_path, LEVELS[:2])
    report = check_world(f'alfworld(games="{tmp_path}",engine=package,turns=4)', range(1))
    assert report.num_turns
