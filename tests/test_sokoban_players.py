"""Sokoban: its players, its splits, and how it is drawn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mage.config.load import load_config
from mage.errors import ConfigError
from mage.evaluation.eval_agent import load_eval_agent
from mage.evaluation.held_out import avoid_held_out, refuse_held_out
from mage.evaluation.splits import load_split
from mage.opponents.agent_seat import check_seat_agent
from mage.rollout.trial import play_trial
from mage.runs.drawings import drawing_of
from mage.types import Memory, Observation, Task
from mage.worlds.registry import load_world
from mage.worlds.sokoban.room import parse_level
from mage.worlds.sokoban.solve import solve
from mage.worlds.sokoban.world import Sokoban
from tests.test_sokoban import CORRIDOR, SPECS, played, task


@pytest.mark.parametrize("spec", [*SPECS, "sokoban(moves=1,turns=21)", "sokoban(rows=7,columns=9,boxes=1)"])
def test_the_expert_solves_every_room(spec: str) -> None:
    for seed in range(10):
        assert played("expert", spec, seed).scores == (1.0, 1.0, 1.0)


def test_who_learns_from_failure_does_better_later_and_not_without_memory() -> None:
    loaded = load_eval_agent("learns-from-failure", worlds=["sokoban"])
    world = load_world("sokoban")
    firsts, lasts, forgetful = list[float](), list[float](), list[float]()
    for seed in range(120):
        for memory, found in ((None, lasts), (Memory.NONE, forgetful)):
            trial = asyncio.run(play_trial(world, task(seed=seed), 0, loaded.make_agent(world, memory)))
            found.append(trial.scores[-1])
        firsts.append(trial.scores[0])
        scores = played("learns-from-failure", seed=seed).scores
        assert scores == tuple(sorted(scores)), "a solution that was found is kept"
    assert sum(lasts) > sum(firsts) + 8
    assert abs(sum(forgetful) - sum(firsts)) < 12


def test_players_of_a_world_are_known_where_it_is_played() -> None:
    world = load_world("sokoban")
    check_seat_agent(world, "expert", 0)
    with pytest.raises(ConfigError, match="one seat uniform, expert, learns-from-failure and models play"):
        check_seat_agent(world, "copy", 0)
    with pytest.raises(ConfigError, match="'expert' cannot be evaluated"):
        load_eval_agent("expert")
    with pytest.raises(ConfigError, match="in a world of one seat uniform and models play"):
        check_seat_agent(load_world("hidden(doors)"), "expert", 0)


def test_training_draws_rooms_by_seed_but_none_that_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_held_out("sokoban", ())
    refuse_held_out("sokoban", load_split("sokoban-seen").members)
    unseen = load_split("sokoban-unseen").members
    with pytest.raises(ConfigError, match="is held out by the split 'sokoban-unseen'"):
        refuse_held_out("sokoban", unseen[:1])
    config = load_config("rps", ["world=sokoban", "population.members=[]", "population.split=", "evaluation.splits=[]"])
    given = task(seed=8)
    assert avoid_held_out(config, given) == given

    def drawn(self: Sokoban, task: Task) -> str:
        return unseen[0] if task.seed == 8 else str(self.draw(task))

    monkeypatch.setattr(Sokoban, "drawn_level", drawn)
    assert avoid_held_out(config, given).seed != 8


def test_splits_have_rooms_of_their_own() -> None:
    seen, unseen, harder = (load_split(f"sokoban-{name}") for name in ("seen", "unseen", "harder"))
    assert not set(seen.members) & set(unseen.members)
    for split, boxes in ((seen, 2), (unseen, 2), (harder, 3)):
        for room in map(parse_level, split.members):
            plan = solve(room, room.player, room.boxes)
            assert plan is not None
            assert 5 <= len(plan) <= 21
            assert room.boxes.bit_count() == boxes


def test_a_room_is_drawn_in_the_terminal_but_not_in_other_words() -> None:
    seen: Observation = load_world("sokoban").new_env(task(level=CORRIDOR), 0).observe(0)
    drawn: Any = drawing_of("sokoban").position(seen)
    assert drawn.renderables[0].plain == "████████████\n██@@[]  ()██\n████████████"
    assert "Turns left: 7" in drawn.renderables[-1].plain
    assert drawing_of("sokoban(reworded=7)").position(seen) is None
