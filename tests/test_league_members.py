"""Who is in a league: ids, families, who is present, who joins and who leaves."""

from __future__ import annotations

import msgspec
import pytest

from mage.errors import ConfigError
from mage.league.members import Member, MemberKind, anchor, learner, snapshot
from mage.league.payoffs import EMPTY, MatchScore
from mage.league.state import League, new_league
from tests.leagued import league, snap, table


def test_members_are_named_after_what_they_are() -> None:
    assert anchor("always: rock", 2.0) == Member(
        "always: rock", MemberKind.ANCHOR, "always: rock", "always(rock)", weight=2.0
    )
    assert learner(1) == Member("learner-1", MemberKind.LEARNER, "member:learner-1", "learner-1")
    assert snapshot(learner(1), 40) == Member(
        "learner-1@40", MemberKind.SNAPSHOT, "member:learner-1@40", "learner-1", 40, ("learner-1",)
    )


def test_a_league_is_founded_with_a_learner_for_each_set_of_values() -> None:
    made = new_league([anchor("copy")], [{"learner.lr": 0.1}, {"learner.lr": 0.2}])
    assert [(m.id, m.kind) for m in made.members] == [
        ("copy", MemberKind.ANCHOR),
        ("learner-0", MemberKind.LEARNER),
        ("learner-1", MemberKind.LEARNER),
    ]
    assert made.hyper == {"learner-0": {"learner.lr": 0.1}, "learner-1": {"learner.lr": 0.2}}
    assert (made.payoffs, made.drawn) == (EMPTY, {})


def test_two_members_cannot_share_an_id() -> None:
    with pytest.raises(ConfigError, match="two members called 'copy'; ids must be unique"):
        new_league([anchor("copy"), anchor("copy")], [{}])
    with pytest.raises(ConfigError, match="two members called 'learner-0@4'"):
        new_league([], [{}]).with_snapshot("learner-0", 4).with_snapshot("learner-0", 4)


def test_an_unknown_member_is_named() -> None:
    made = league([anchor("copy"), learner(0)])
    for look_up in (made.member, made.opponents_of, lambda name: made.with_snapshot(name, 1)):
        with pytest.raises(ConfigError, match=r"unknown member 'learner-9'; did you mean learner-0\?"):
            look_up("learner-9")
    with pytest.raises(ConfigError, match="unknown member"):
        made.retire(["learner-9"], 1)
    with pytest.raises(ConfigError, match="unknown member"):
        made.with_copy("learner-0", "learner-9", {})


def test_kinds_and_opponents_leave_out_the_retired() -> None:
    made = league([anchor("copy"), learner(0), learner(1), snap(0, 1), snap(0, 2)]).retire(["learner-0@1"], 3)
    assert [m.id for m in made.anchors] == ["copy"]
    assert [m.id for m in made.learners] == ["learner-0", "learner-1"]
    assert [m.id for m in made.snapshots] == ["learner-0@2"]
    assert [m.id for m in made.opponents_of("learner-0")] == ["copy", "learner-1", "learner-0@2"]
    assert [m.id for m in made.opponents_of("learner-0", with_itself=True)] == [m.id for m in made.present]
    assert made.member("learner-0@1").retired == 3


def test_who_retires_leaves_the_table_but_not_the_list() -> None:
    made = league([learner(0), snap(0, 1), snap(0, 2)], {"learner-0": {"learner-0@1": [1.0], "learner-0@2": [0.0]}})
    left = made.retire(["learner-0@1"], 7)
    assert left.payoffs == table({"learner-0": {"learner-0@2": [0.0]}})
    assert [m.retired for m in left.members] == [None, 7, None]
    assert made.member("learner-0@1").retired is None


def test_a_snapshot_joins_with_the_results_against_its_parent() -> None:
    made = league([learner(0), learner(1)], {"learner-0": {"learner-1": [1.0]}, "learner-1": {"learner-0": [-0.5]}})
    grown = made.with_snapshot("learner-0", 40)
    assert grown.members[-1] == snap(0, 40)
    assert {name: cell.mean for name, cell in grown.payoffs.column("learner-0@40").items()} == {"learner-1": -0.5}


def test_a_copy_changes_parents_values_and_results_and_keeps_its_place() -> None:
    scores = {"learner-0": {"x": [1.0]}, "learner-1": {"x": [0.0]}}
    hyper = {"learner-0": {"lr": 1.0, "kl": 0.0}, "learner-1": {"lr": 2.0, "kl": 0.0}}
    made = league([learner(0), learner(1)], scores, hyper).with_copy("learner-1", "learner-0", {"lr": 1.25})
    assert [m.parents for m in made.members] == [(), ("learner-0",)]
    assert made.hyper == {"learner-0": {"lr": 1.0, "kl": 0.0}, "learner-1": {"lr": 1.25, "kl": 0.0}}
    assert made.payoffs.row("learner-1")["x"] == made.payoffs.row("learner-0")["x"].scaled(0.5)
    again = made.with_copy("learner-1", "learner-0", {})
    assert again.member("learner-1").parents == ("learner-0", "learner-0")


def test_cells_of_learners_decay_and_those_between_others_need_not_exist() -> None:
    made = league([anchor("copy"), learner(0)])
    results = [MatchScore("learner-0", "copy", score) for score in (1.0, 0.0)]
    assert made.with_results(results, 3, 1.0).payoffs.row("learner-0")["copy"].mean == pytest.approx(1 / 3)


def test_a_league_survives_a_checkpoint() -> None:
    made = new_league([anchor("copy", 3.0)], [{"learner.lr": 0.1}, {"learner.lr": 1 / 3}])
    made = made.with_results(
        [MatchScore("learner-0", "copy", 1 / 3), MatchScore("learner-1", "learner-0", 0.1)], 1, 7.0
    )
    made = made.with_snapshot("learner-0", 2).with_copy("learner-1", "learner-0", {"learner.lr": 0.12})
    made = made.retire(["learner-0@2"], 5).with_drawn({"learner-0": {"copy": 1.0}})
    restored = msgspec.json.decode(msgspec.json.encode(made), type=League)
    assert restored == made
    assert msgspec.json.encode(restored) == msgspec.json.encode(made)
    assert restored.ratings() == made.ratings()
