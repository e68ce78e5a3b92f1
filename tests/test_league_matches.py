"""Matches of a league: one game is a trial for each learner in it, each credited for its own seat."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mage.config.load import load_config
from mage.config.schema import Config
from mage.credit.returns import ReturnSpec
from mage.credit.steps import agent_turns, credit_group
from mage.league.matches import Match, PlayedMatch, draw_matches, play_matches
from mage.league.members import anchor, learner, snapshot
from mage.protocols import AgentFactory
from mage.rollout.trial import play_seats, seen_from
from mage.types import Memory, Objective, Phase, ReplyMode, Task
from tests.seated import RandomEngine, make_settings, make_task, seat_engine
from tests.worlds import AnyWorld

FIRST, SECOND = learner(0), learner(1)
PAST = snapshot(SECOND, 40)


def agent_factories() -> dict[str, AgentFactory]:
    """Everybody with an engine of its own that draws evenly."""
    return {member.id: seat_engine(RandomEngine(), make_settings()) for member in (FIRST, SECOND, PAST)}


def played(task: Task, seats: tuple[int, ...], size: int = 3) -> list[PlayedMatch]:
    return asyncio.run(play_matches([Match(FIRST.id, task, seats)], size, agent_factories(), 100))


def config(*overrides: str) -> Config:
    return load_config("kuhn", ["batch.dead=drop", *overrides])


@pytest.mark.parametrize(("game", "seat"), [("kuhn_poker", 0), ("kuhn_poker", 1), ("rps(rounds=2)", 0)])
def test_a_game_of_two_learners_is_a_trial_for_each(game: str, seat: int) -> None:
    task = make_task(game, opponents=(SECOND.spec,), seat=seat)
    own, other = played(task, (seat, 1 - seat))
    assert (own.learner, own.opponents, own.is_drawn) == (FIRST.id, (SECOND.id,), True)
    assert (other.learner, other.opponents, other.is_drawn) == (SECOND.id, (FIRST.id,), False)
    assert (own.group.task.seat, other.group.task.seat) == (seat, 1 - seat)
    for mine, theirs in zip(own.group.trials, other.group.trials, strict=True):
        assert mine.episodes == theirs.episodes
        assert [a + b for a, b in zip(mine.scores, theirs.scores, strict=True)] == pytest.approx([0.0] * 3)
        assert mine.streams != theirs.streams
        for trial in (mine, theirs):
            turns = agent_turns(trial)
            assert {turn.observation.seat for turn in turns} == {trial.task.seat}
            assert [t.observation.episode for t in turns if t.phase is Phase.REFLECT] == [0, 1]
            for turn in turns:  # what was sampled stands in the trial's own stream
                for call in turn.calls:
                    tokens = trial.streams[call.stream][call.start : call.start + len(call.completion.tokens)]
                    assert tokens == call.completion.tokens


def test_each_learner_is_credited_for_what_its_own_seat_gained() -> None:
    task = make_task("kuhn_poker", opponents=(SECOND.spec,), episodes=2)
    return_spec = ReturnSpec(objective=Objective.CUMULATIVE, turn=1.0, episode=1.0)
    own, other = played(task, (0, 1))
    groups = [credit_group(one.group, return_spec, one.opponents[0], one.learner) for one in (own, other)]
    assert [(g.learner, g.opponent, g.seat) for g in groups] == [(FIRST.id, SECOND.id, 0), (SECOND.id, FIRST.id, 1)]
    for one, credited in zip((own, other), groups, strict=True):
        for trial, steps in zip(one.group.trials, credited.trials, strict=True):
            first, second = trial.scores
            by_episode = {(step.episode, step.phase): step.return_ for step in reversed(steps)}
            assert by_episode[0, Phase.PLAY] == pytest.approx(first + second)  # all that is still to come
            assert by_episode[0, Phase.REFLECT] == pytest.approx(second)
            assert by_episode[1, Phase.PLAY] == pytest.approx(second)


def first_moves(groups: Sequence[PlayedMatch], seat: int) -> set[str | None]:
    trials = groups[0].group.trials
    return {next(t.action for t in trial.episodes[0].turns if t.observation.seat == seat) for trial in trials}


def test_siblings_meet_a_snapshot_that_does_the_same_to_all_of_them() -> None:
    task = make_task(opponents=(PAST.spec,))
    (alone,) = played(task, (0,), size=16)
    assert len(first_moves([alone], seat=1)) == 1
    assert len(first_moves([alone], seat=0)) > 1


def test_learners_that_learn_from_the_same_games_differ_between_siblings() -> None:
    both = played(make_task(opponents=(SECOND.spec,)), (0, 1), size=16)
    assert len(first_moves(both, seat=0)) > 1
    assert len(first_moves(both, seat=1)) > 1


def test_scripts_and_learners_sit_at_one_table_of_three() -> None:
    task = make_task("kuhn_poker(players=3)", opponents=("uniform", SECOND.spec), seat=1, episodes=1)
    own, other = played(task, (1, 2))
    assert own.opponents == ("uniform", SECOND.id)
    assert other.opponents == ("uniform", FIRST.id)
    assert other.group.task.seat == 2
    for mine, theirs in zip(own.group.trials, other.group.trials, strict=True):
        assert {t.observation.seat for t in agent_turns(theirs)} == {2}
        assert mine.scores[0] + theirs.scores[0] + mine.episodes[0].result.returns[0] == pytest.approx(0.0)


def test_forfeits_are_no_skill_and_failures_belong_to_who_drew_the_match() -> None:
    silent = seat_engine(RandomEngine(["nothing"]), make_settings(reply=ReplyMode.TEXT, memory=Memory.NONE, retries=0))
    task = make_task(opponents=("always:rock",), episodes=1)
    (one,) = asyncio.run(play_matches([Match(FIRST.id, task, (0,))], 2, {FIRST.id: silent}, 100))
    assert one.group.trials[0].scores[0] < 0
    assert one.score is None
    broken = make_task(opponents=(SECOND.spec,), world="kuhn_poker")
    own, other = asyncio.run(play_matches([Match(FIRST.id, broken, (0, 1))], 2, {FIRST.id: silent}, 100))
    assert [failure.error for failure in own.group.failures] == ["KeyError", "KeyError"]
    assert (own.group.trials, other.group.trials, other.group.failures) == ((), (), ())


def test_matches_are_drawn_by_the_odds_and_seats_in_turn() -> None:
    members = [anchor("conservative"), SECOND, PAST]
    odds = {"conservative": 0.5, SECOND.id: 0.25, PAST.id: 0.25}
    drawn = list(draw_matches(config(), FIRST.id, members, odds, 400, "league", 3, FIRST.id))
    assert [match.task.seat for match in drawn[:4]] == [0, 1, 0, 1]
    shares = {member.id: sum(m.task.opponents == (member.spec,) for m in drawn) / 400 for member in members}
    assert shares == pytest.approx(odds, abs=0.08)
    for match in drawn:
        is_live = match.task.opponents == (SECOND.spec,)
        assert match.seats == ((match.task.seat, 1 - match.task.seat) if is_live else (match.task.seat,))
    alone = draw_matches(config("league.both=false"), FIRST.id, [SECOND], {SECOND.id: 1.0}, 9, "league", 3)
    assert {len(match.seats) for match in alone} == {1}
    again = list(draw_matches(config(), FIRST.id, members, odds, 400, "league", 3, FIRST.id))
    other = list(draw_matches(config(), SECOND.id, members, odds, 400, "league", 3, SECOND.id))
    assert again == drawn
    assert {match.task.seed for match in other}.isdisjoint(match.task.seed for match in drawn)


def test_a_trial_of_the_task_s_own_seat_is_what_play_trial_makes() -> None:
    task, world = make_task(), AnyWorld()
    make_agent = seat_engine(RandomEngine(), make_settings())
    (trial,) = asyncio.run(play_seats(world, task, 0, make_agent, (0,)))
    assert trial.task == task == seen_from(task, 0, "anybody")


@pytest.mark.parametrize(("seat", "names"), [(0, "bmc"), (1, "amc"), (2, "abc"), (3, "abm")])
def test_a_task_seen_from_every_seat(seat: int, names: str) -> None:
    task = make_task("kuhn_poker(players=4)", opponents=("a", "b", "c"), seat=2)
    seen = seen_from(task, seat, "m")
    assert (seen.seat, "".join(seen.opponents)) == (seat, names)
