"""Task sources: what each learner plays next, what is remembered of it, and that a restored one goes on alike."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import islice

import msgspec
import pytest

from mage.config.schema import Config
from mage.league.matches import Match, PlayedMatch, TaskOrigin
from mage.league.members import anchor
from mage.league.state import new_league
from mage.training.build import draw_tasks
from mage.training.task_replay import PlayedTask
from mage.training.task_sources import (
    LeagueTasks,
    PopulationTasks,
    PrioritisedTasks,
    ReplayedTasks,
    SourceState,
    TaskSource,
)
from mage.types import Ending, Group, Trial
from tests.recorded import guest_trial
from tests.seated import make_task
from tests.tiny import tiny_config

MAIN = {"main": 4}
HARD = ("population.sampler=prioritised", 'population.options={kind="hard"}')


class Holder:
    """Has a league, as the members of a run have."""

    def __init__(self, learners: int) -> None:
        self.league = new_league([anchor("always:rock"), anchor("cycle(step=1)")], [{}] * learners)


@cache
def template() -> Trial:
    return guest_trial(make_task("rps(rounds=2)"))


def result(match: Match, score: float) -> PlayedMatch:
    """A match whose only trial scored so in its last episode."""
    trial = msgspec.structs.replace(template(), task=match.task)
    seat = match.task.seat
    returns = tuple(score if other == seat else -score for other in range(2))
    last = trial.episodes[-1]
    ended = msgspec.structs.replace(last.result, returns=returns, ending=Ending.FINISHED)
    episodes = (*trial.episodes[:-1], msgspec.structs.replace(last, result=ended))
    group = Group(match.task, (msgspec.structs.replace(trial, episodes=episodes),), ())
    opponents = tuple(spec.removeprefix("member:") for spec in match.task.opponents)
    return PlayedMatch(match.learner, opponents, group, True, match.origin)


def opponents(matches: list[Match]) -> Counter[str]:
    return Counter(match.task.opponents[0] for match in matches)


def test_a_population_s_tasks_are_those_of_its_random_streams() -> None:
    config = tiny_config()
    source = PopulationTasks(config)
    drawn, more = source.draw(3, MAIN), source.draw_replacements(3, {"main": 2})
    assert [match.task for match in drawn] == list(islice(draw_tasks(config, "tasks", 3), 4))
    assert [match.task for match in more] == list(islice(draw_tasks(config, "replacements", 3, 0), 2))
    assert {match.origin for match in drawn} == {TaskOrigin.DRAWN}
    assert {match.origin for match in more} == {TaskOrigin.REPLACEMENT}
    assert {(match.learner, match.seats, match.first_sibling) for match in (*drawn, *more)} == {("main", (0,), 0)}


def test_opponents_that_win_are_drawn_more_often_without_a_league() -> None:
    source = PrioritisedTasks(tiny_config(*HARD), "main")
    many = {"main": 300}
    assert min(opponents(source.draw(0, many)).values()) > 110, "nothing is known yet"
    for step in range(9):
        scores = {"always:rock": 1.0, "cycle(step=1)": -1.0}
        source.update(step, [result(match, scores[match.task.opponents[0]]) for match in source.draw(step, MAIN)])
    drawn = opponents(source.draw(9, many))
    assert drawn["cycle(step=1)"] > 260
    assert drawn["always:rock"] > 0, "a share is spread evenly"
    assert opponents(source.draw_replacements(9, many))["cycle(step=1)"] > 260


def test_one_learner_draws_what_a_league_of_one_draws_against_the_population() -> None:
    config = tiny_config(*HARD)
    alone = PrioritisedTasks(config, "main")
    league = LeagueTasks(tiny_config(*HARD, "league.learners=1", "league.itself=false"), Holder(1))
    for step in range(4):
        ours, theirs = alone.draw(step, MAIN), league.draw(step, {"learner-0": 4})
        assert [match.task for match in ours] == [match.task for match in theirs]
        alone.update(step, [result(match, 0.5) for match in ours])
        league.update(step, [result(match, 0.5) for match in theirs])


def league_source(*overrides: str, learners: int = 2) -> tuple[TaskSource, Holder]:
    config = tiny_config(f"league.learners={learners}", "batch.replay=0.25", "batch.groups=8", *overrides)
    holder = Holder(learners)
    return ReplayedTasks(config, LeagueTasks(config, holder)), holder


def test_learners_replay_their_own_tasks_with_continued_siblings() -> None:
    source, _ = league_source("league.both=false")
    num = {"learner-0": 4, "learner-1": 4}
    own: dict[str, set[int]] = {name: set() for name in num}
    replayed: list[Match] = []
    for step in range(6):
        matches = source.draw(step, num)
        assert Counter(match.learner for match in matches) == num
        for match in matches:
            if match.origin is TaskOrigin.REPLAYED:
                assert match.task.seed in own[match.learner]
                assert match.first_sibling in (4, 8, 12)
                replayed.append(match)
            else:
                assert match.first_sibling == 0
                own[match.learner].add(match.task.seed)
        source.update(step, [result(match, 0.1 * (match.task.seed % 7)) for match in matches])
    assert {match.learner for match in replayed} == set(num)
    assert own["learner-0"].isdisjoint(own["learner-1"])


def test_replayed_tasks_are_no_results_because_they_were_chosen_for_going_badly() -> None:
    source, holder = league_source()
    match = Match("learner-0", source.draw(0, {"learner-0": 1, "learner-1": 0})[0].task, (0,))
    source.update(0, [result(match._replace(origin=TaskOrigin.REPLAYED), -1.0)])
    assert holder.league.payoffs.cells == {}
    source.update(0, [result(match._replace(origin=TaskOrigin.REPLACEMENT), -1.0)])
    assert holder.league.payoffs.row("learner-0").keys() == {match.task.opponents[0].removeprefix("member:")}


def known(holder: Holder, opponent: str, num: int) -> dict[str, tuple[PlayedTask, ...]]:
    """Tasks of the first learner against one opponent, half of which went badly."""
    task = next(iter(draw_tasks(tiny_config(), "known")))
    tasks = [msgspec.structs.replace(task, opponents=(opponent,), seed=seed) for seed in range(num)]
    return {"learner-0": tuple(PlayedTask(one, -float(one.seed % 2), 4) for one in tasks)}


def test_tasks_against_a_member_that_has_left_are_not_replayed() -> None:
    source, holder = league_source()
    holder.league = holder.league.with_snapshot("learner-1", 3)
    source.restore(SourceState(known(holder, "member:learner-1@3", 20)))
    num = {"learner-0": 4, "learner-1": 4}
    again = [match for match in source.draw(5, num) if match.origin is TaskOrigin.REPLAYED]
    assert [match.task.opponents for match in again] == [("member:learner-1@3",)]
    holder.league = holder.league.retire(["learner-1@3"], 4)
    assert all(match.origin is TaskOrigin.DRAWN for match in source.draw(5, num))
    assert source.state().played.keys() == {"learner-0"}, "it is still remembered"


@pytest.mark.parametrize(("both", "seats"), [("true", (0, 1)), ("false", (0,))])
def test_a_replayed_match_of_two_learners_teaches_both_where_the_first_did(both: str, seats: tuple[int, ...]) -> None:
    source, holder = league_source(f"league.both={both}")
    source.restore(SourceState(known(holder, "member:learner-1", 20)))
    (again,) = [m for m in source.draw(5, {"learner-0": 4}) if m.origin is TaskOrigin.REPLAYED]
    assert (again.seats, again.first_sibling) == (seats, 4)


def test_a_learner_that_copies_another_takes_its_tasks_over() -> None:
    source, holder = league_source()
    source.restore(SourceState(known(holder, "always:rock", 20)))
    source.copy("learner-1", "learner-0")
    played = source.state().played
    assert played["learner-1"] == played["learner-0"] != ()


def restored(config: Config, state: SourceState) -> TaskSource:
    stored = msgspec.json.decode(msgspec.json.encode(state), type=SourceState)
    source = ReplayedTasks(config, PrioritisedTasks(config, "main"))
    source.restore(stored)
    return source


def test_a_restored_source_goes_on_alike() -> None:
    config = tiny_config(*HARD, "batch.replay=0.25", "batch.groups=4")
    source: TaskSource = ReplayedTasks(config, PrioritisedTasks(config, "main"))
    origins: set[TaskOrigin] = set()
    for step in range(8):
        again = restored(config, source.state())
        matches = source.draw(step, MAIN)
        assert matches == again.draw(step, MAIN)
        assert source.draw_replacements(step, MAIN) == again.draw_replacements(step, MAIN)
        origins |= {match.origin for match in matches}
        source.update(step, [result(match, 0.1 * (match.task.seed % 11) - 0.5) for match in matches])
    assert origins == {TaskOrigin.DRAWN, TaskOrigin.REPLAYED}
    assert source.state().payoffs.row("main").keys() == {"always:rock", "cycle(step=1)"}
