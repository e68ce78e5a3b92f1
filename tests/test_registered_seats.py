"""A registered world of two seats with opponents of its own goes through configs, evaluations, duels and the viewer."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path

import pytest

from mage.errors import ConfigError
from mage.evaluation.duel import Duel, DuelCounter, play
from mage.evaluation.duel import check as check_duel
from mage.evaluation.plan import EvaluationRequest
from mage.evaluation.resource_limits import ResourceLimits
from mage.evaluation.run import begin_evaluation
from mage.evaluation.splits import write_split
from mage.protocols import Env, Player
from mage.rollout.trial import play_trial
from mage.training.build import check, draw_tasks
from mage.training.combinations import check_combinations
from mage.training.teacher import teacher_of
from mage.types import Task, WorldInfo
from mage.worlds.registry import WORLDS, load_world
from tests.test_view_play import played, saved
from tests.tiny import tiny_config
from tests.viewed import Viewer

NAME = "stones"
GAME = "rps(rounds=2)"
WORLD = f"world={NAME}"
MEMBERS = 'population.members=["stone", "sheet"]'


OPPONENTS = {"stone": "always(rock)", "sheet": "always(paper)"}


class Stones:
    """Rock-paper-scissors with two opponents that only this world has."""

    @property
    def info(self) -> WorldInfo:
        return load_world(GAME).info

    def rules(self, task: Task) -> str:
        return load_world(GAME).rules(task)

    def new_env(self, task: Task, episode: int) -> Env:
        return load_world(GAME).new_env(task, episode)

    def opponent(self, spec: str, task: Task, seat: int) -> Player:
        self.check_opponent(spec, seat)
        return load_world(GAME).opponent(OPPONENTS[spec], task, seat)

    def check_opponent(self, spec: str, seat: int) -> None:
        if spec not in OPPONENTS:
            raise ConfigError(f"{NAME} has no opponent {spec!r}; it has {', '.join(OPPONENTS)}")

    def check_level(self, level: str) -> None:
        raise ConfigError(f"{NAME} has no level {level!r}")


WORLDS.add(NAME, Stones)


def test_its_opponents_are_members_of_a_population() -> None:
    config = tiny_config(WORLD, MEMBERS)
    check(config)
    assert {task.opponents for task in islice(draw_tasks(config, "tasks", 0), 20)} == {("stone",), ("sheet",)}
    with pytest.raises(ConfigError, match="stones has no opponent 'copy'"):
        check(tiny_config(WORLD, 'population.members=["copy"]'))
    with pytest.raises(ConfigError, match="name at least one opponent"):
        check(tiny_config(WORLD, "population.members=[]"))


def test_a_league_there_has_no_nashconv() -> None:
    league = (WORLD, MEMBERS, "league.learners=2")
    check_combinations(tiny_config(*league))
    with pytest.raises(ConfigError, match=r"league\.nashconv_every = 5: stones is not an OpenSpiel game"):
        check_combinations(tiny_config(*league, "league.nashconv_every=5"))


def test_it_is_evaluated_against_its_own_opponents(tmp_path: Path) -> None:
    request = EvaluationRequest("uniform", NAME, ["stone", "sheet"], 3)
    (report,) = begin_evaluation(request, tmp_path / "evaluated", ResourceLimits()).scores().reports
    assert [member for member, _ in report.by_member] == ["stone", "sheet"]
    assert report.regret is None
    assert report.has_levels is False
    split = write_split(tmp_path / "mine.json", NAME, ["stone"], held_out=True)
    assert split.members == ("stone",)
    with pytest.raises(ConfigError, match="stones has no opponent 'copy'"):
        begin_evaluation(EvaluationRequest("uniform", NAME, ["copy"], 3), tmp_path / "no", ResourceLimits())


def test_its_opponents_meet_in_a_duel_and_teach() -> None:
    duel = Duel("sheet", ("stone",), NAME, 2, 1, 0, 100)
    check_duel(duel)
    counter = DuelCounter(2)

    async def count() -> None:
        async for outcome in play(duel):
            counter.add(outcome)

    asyncio.run(count())
    total = counter.rows()[-1]
    assert total.score is not None
    assert total.score.value == 1.0
    teacher = teacher_of(tiny_config(WORLD, MEMBERS), "sheet")
    task = Task(NAME, ("stone",), 0, 3, 2, False, False, 100)
    assert asyncio.run(play_trial(load_world(NAME), task, 0, teacher)).scores == (1.0, 1.0)


def test_a_person_plays_it_in_the_browser(tmp_path: Path) -> None:
    viewer = Viewer(tmp_path / "runs")
    with viewer.client:
        state = played(viewer, lambda actions: actions[1], world=NAME, opponent="stone", episodes=1)
        assert (state["names"], state["results"][0]["returns"]) == (["person", "stone"], [1.0, -1.0])
        assert saved(viewer, state, 0).task.opponents == ("stone",)
        assert "stones has no opponent 'copy'" in viewer.refusal("/api/play", world=NAME, opponent="copy")
        assert "only numbers and short words" in viewer.refusal("/api/play", world=NAME, opponent='stone("/etc/x")')
        shown = viewer.get(f"/api/runs/{state['saved']['run']}/trials/0")
        assert "level" not in shown["task"]
        assert shown["rules"] == load_world(GAME).rules(saved(viewer, state, 0).task)
