"""Tasks met again: which come back, how often, with which draws, and what a run remembers of them."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from mage.aio import run_sync
from mage.errors import ConfigError
from mage.rollout.group import play_groups
from mage.training.checkpoint import read_state
from mage.training.start import check_start
from mage.training.task_replay import (
    MAX_PLAYED,
    MIN_PLAYED_PER_DRAW,
    PlayedTask,
    draw_replayed,
    priorities,
    update_played,
)
from mage.types import DeadGroups, Group, Task
from tests.processes import Mage
from tests.seated import WORLD, make_task
from tests.tiny import collect, sharpen, tiny_config, tiny_parts


def met(seed: int, score: float, opponent: str = "copy", seat: int = 0) -> PlayedTask:
    return PlayedTask(make_task("rps(rounds=2)", seed=seed, opponents=(opponent,), seat=seat), score, 4)


def played(task: Task, *, first: int = 0, size: int = 4) -> Group:
    parts = sharpen(tiny_parts())
    asyncio.run(parts.publish(0))
    (group,) = run_sync(play_groups(WORLD, [task], size, parts.make_agent, first_siblings=[first]))
    return group


def test_priority_is_the_square_of_what_lacks_to_the_best_of_the_kind() -> None:
    entries = [
        met(1, -1.0),
        met(2, 0.0),
        met(3, -0.5),
        met(4, 1.0, "uniform"),
        met(5, 0.0, "uniform"),
        met(6, -1.0, seat=1),
    ]
    assert priorities(entries) == [1.0, 0.0, 0.25, 0.0, 1.0, 0.0], "other opponents and seats are other kinds"


def test_tasks_come_back_as_often_as_their_priority_has_it_and_never_twice_at_once() -> None:
    entries = [met(0, 0.0), *(met(seed, -1.0) for seed in range(1, 9)), *(met(seed, -0.5) for seed in range(9, 17))]
    counts = Counter(entry.task.seed for number in range(1000) for entry in draw_replayed(entries, 1, number))
    assert counts.total() == 1000
    assert 0 not in counts, "the best of its kind lacks nothing"
    hard = sum(counts[seed] for seed in range(1, 9))
    assert 760 < hard < 840, "four times as likely as what lacks half as much"
    for number in range(50):
        pair = draw_replayed(entries, 2, number)
        assert len({entry.task.seed for entry in pair}) == 2
        assert pair == draw_replayed(entries, 2, number)


def test_nothing_comes_back_while_little_is_known_or_nothing_lacks() -> None:
    entries = [met(seed, -float(seed % 2)) for seed in range(2 * MIN_PLAYED_PER_DRAW)]
    assert len(draw_replayed(entries, 2, 0)) == 2
    assert draw_replayed(entries[:-1], 2, 0) == []
    assert draw_replayed(entries, 0, 0) == []
    assert draw_replayed([met(seed, 0.5) for seed in range(100)], 2, 0) == []


def test_what_was_played_last_is_remembered_with_its_score_and_siblings() -> None:
    task = make_task("rps(rounds=2)", seed=3, opponents=("cycle(step=1)",))
    group = played(task)
    (entry,) = update_played((), [group], 4)
    scores = [score for trial in group.trials for score in trial.scores]
    assert (entry.task, entry.siblings) == (task, 4)
    assert entry.score == pytest.approx(sum(scores) / len(scores))
    before = tuple(met(seed, 0.0) for seed in range(100, 100 + MAX_PLAYED - 1))
    known = update_played((entry, *before), [group], 4)
    assert known == (*before, PlayedTask(task, entry.score, 8)), "played again: newest, and with further siblings"
    assert update_played(known, [played(make_task("rps(rounds=2)", seed=4))], 4)[:-1] == known[1:], (
        "the oldest is forgotten"
    )
    assert update_played(known, [Group(task, (), group.failures)], 4) == known, "a group that failed tells nothing"


def test_siblings_of_a_later_visit_meet_the_same_and_draw_other_moves() -> None:
    task = make_task("rps(rounds=2)", seed=3, opponents=("uniform",), episodes=3)
    one, same, other = played(task), played(task), played(task, first=4)
    assert [trial.sibling for trial in other.trials] == [4, 5, 6, 7]
    assert one.trials == same.trials

    def moves(group: Group, seat: int) -> list[list[str | None]]:
        turns = [[turn for episode in trial.episodes for turn in episode.turns] for trial in group.trials]
        return [[turn.action for turn in some if turn.observation.seat == seat] for some in turns]

    assert moves(one, 0) != moves(other, 0)
    assert len({str(game) for game in moves(one, 1) + moves(other, 1)}) == 1, "the opponent is the same"


def test_a_step_plays_new_tasks_and_some_again_and_shows_the_scores_of_the_new() -> None:
    parts = tiny_parts("batch.groups=4", "batch.replay=0.5")
    known = [PlayedTask(task, -float(n % 2), 4) for n, task in enumerate(parts.tasks(40, "tasks", 0))]
    groups, metrics = collect(parts, 5, known=known)
    fresh = parts.tasks(2, "tasks", 5)
    assert [group.task for group in groups[:2]] == fresh
    again = [group.task for group in groups[2:]]
    assert len(set(again)) == 2
    assert all(entry.score < 0 for entry in known if entry.task in again)
    assert [[trial.sibling for trial in group.trials] for group in groups] == [[0, 1, 2, 3]] * 2 + [[4, 5, 6, 7]] * 2
    assert (metrics["groups/replayed"], metrics["groups/replacements"]) == (2.0, 0.0)
    scores = [trial.scores[0] for group in groups[:2] for trial in group.trials]
    assert metrics["score/episode_1"] == pytest.approx(sum(scores) / len(scores))


@pytest.mark.parametrize("rule", DeadGroups)
def test_dead_groups_are_resampled_once_and_only_where_asked_for(
    rule: DeadGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = tiny_parts("batch.groups=3", f"batch.dead={rule}")
    monkeypatch.setattr("mage.training.loop.split_dead", lambda _: ((1,), (0, 2)))
    groups, metrics = collect(parts, 5)
    again = parts.tasks(2, "replacements", 5, 0) if rule is DeadGroups.RESAMPLE else []
    assert [group.task for group in groups] == [*parts.tasks(3, "tasks", 5), *again]
    assert metrics["groups/replacements"] == len(again)


def test_without_revisits_a_step_is_what_it_was() -> None:
    parts = tiny_parts()
    known = [PlayedTask(task, -float(n % 2), 4) for n, task in enumerate(parts.tasks(40, "tasks", 0))]
    groups, metrics = collect(parts, 5, known=known)
    assert [group.task for group in groups] == parts.tasks(2, "tasks", 5)
    assert "groups/replayed" not in metrics


RUN = (
    *(
        "agent.model=nano(hidden=16,layers=1,heads=2,context=512)",
        "agent.context=512",
        "batch.groups=4",
        "batch.size=2",
    ),
    *("batch.dead=resample", "batch.replay=0.5", "steps=8", "evaluation.splits=[]", "checkpoint.every=3"),
)


def test_a_resumed_run_meets_the_same_tasks_again(mage: Mage, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert mage("train", "rps", *RUN, "--run", whole).code == 0
    shutil.copytree(whole, broken)
    shutil.rmtree(broken / "checkpoints" / "step-000008")  # as if it had been killed after step 7
    (broken / "evaluations" / "final.json").unlink()
    assert mage("train", "--resume", broken).code == 0
    lines = [(run / "metrics.jsonl").read_bytes().splitlines() for run in (whole, broken)]
    assert len(lines[0]) == 8
    assert lines[0] == lines[1]
    assert (broken / "metrics.jsonl.superseded").exists(), "steps 7 and 8 were made again"
    revisited = [msgspec.json.decode(line).get("groups/replayed") for line in lines[0]]
    assert revisited[0] is None, "nothing is known yet"
    assert revisited[-1] == 2.0
    state = read_state(whole / "checkpoints" / "step-000008")
    assert len(state.played_tasks) >= 4 * 8 - 2 * 8
    assert max(entry.siblings for entry in state.played_tasks) > 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("batch.replay=1.0",), "batch.replay"),
        (("batch.replay=-0.1",), "batch.replay"),
        (
            ("batch.replay=0.5", "credit.estimator=cloning"),
            "a teacher's scores do not show which tasks the agent fails",
        ),
    ],
)
def test_shares_that_make_no_sense_are_refused(given: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        check_start(tiny_config(*given))
    assert "\n" not in str(caught.value)
