"""Leagues that train: whole runs of real processes, killed and resumed to the very bits of one that was not."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL
from typing import Any

import msgspec
import pytest

import mage
from mage.config.load import load_config
from mage.engines.local import server
from mage.engines.local.engine import LocalEngine
from mage.errors import ConfigError
from mage.files import count_lines, read_lines
from mage.league.members import MemberKind
from mage.training.league_members import LeagueState
from mage.training.start import check_start
from tests.documented import documented, fits
from tests.processes import Mage, alone, when

LOGS = ("metrics.jsonl", "trials.jsonl", "events.jsonl", "credit.jsonl", "league.json")
STEPS = 10
# All that carries state is in use: the pay-off table, snapshots and their eviction, copies, rollbacks, statistics.
RECIPE = f"""
seed = 4
steps = {STEPS}
world = "kuhn_poker"

[trial]
episodes = 2
seats = [0, 1]

[population]
members = ["conservative", "aggressive", "intermediate"]
options = {{ share = 0.4, inner = "prioritised", kind = "even" }}
half_life = 10.0

[league]
learners = 3
snapshot_every = 2
snapshots = 4
exploit_every = 3
explore = ["learner.lr", "learner.entropy_start", "agent.temperature", "credit.episode"]
factor = 1.5
nashconv_every = 5

[agent]
model = "nano(hidden=16,layers=1,heads=2,context=512)"
memory = "history"
context = 512

[batch]
groups = 12
size = 2
dead = "drop"

[credit]
episode = 0.9
estimator = "agent-specific"
options = {{ scale = "opponent", unit = "turn" }}

[learner]
lr = 0.02
entropy_start = 0.05
entropy_end = 0.01

[checkpoint]
every = 3
transcripts = 2

[evaluation]
splits = ["kuhn-scripts"]
final_trials = 2

[alarms]
entropy = 0.0
dead = 0.7
patience = 2
action = "rollback"
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipes") / "league.toml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def unbroken(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    ended = alone("train", recipe, "--run", folder, PYTHONHASHSEED="12345")
    assert ended.code == 0, ended.said
    return folder


def standing(folder: Path) -> LeagueState:
    return msgspec.json.decode((folder / "league.json").read_bytes(), type=LeagueState)


def everything(folder: Path) -> dict[str, bytes]:
    """What must be bit-identical at the end of equal runs."""
    kept = [folder / "checkpoints" / f"step-{STEPS:06d}", folder / "snapshots"]
    files = [path for place in kept for path in place.rglob("*") if path.is_file()]
    names = [*LOGS, *(str(path.relative_to(folder)) for path in files)]
    final = msgspec.json.decode((folder / "evaluations" / "final.json").read_bytes())
    return {**{name: (folder / name).read_bytes() for name in names}, "final": msgspec.json.encode(final["reports"])}


def test_every_engine_of_a_league_has_as_many_slots_as_asked_for(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int | None] = []

    class Counted(LocalEngine):
        def __init__(self, *args: Any, slots: int | None = None, **options: Any) -> None:
            made.append(slots)
            super().__init__(*args, slots=slots, **options)

    monkeypatch.setattr(server, "LocalEngine", Counted)
    mage.train(
        str(recipe), {"agent.slots": 5, "steps": 1, "evaluation.splits": []}, folder=tmp_path / "run", quiet=True
    )
    assert len(made) >= 4, "one for whoever is judged, and one for each learner"
    assert set(made) == {5}


def test_one_learner_against_the_population_alone_needs_one_engine_and_never_meets_itself(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[LocalEngine] = []

    class Counted(LocalEngine):
        def __init__(self, *args: Any, **options: Any) -> None:
            made.append(self)
            super().__init__(*args, **options)

    monkeypatch.setattr(server, "LocalEngine", Counted)
    alone = {"league.learners": 1, "league.itself": False, "league.snapshot_every": 0, "league.exploit_every": 0}
    hard = {"population.sampler": "prioritised", "population.options": {"kind": "hard"}}
    short = {"steps": 3, "evaluation.splits": [], "league.nashconv_every": 0}
    folder = tmp_path / "run"
    mage.train(str(recipe), alone | hard | short, folder=folder, quiet=True)
    assert len(made) == 1
    met = standing(folder).league.payoffs.row("learner-0")
    assert set(met) == {"conservative", "aggressive", "intermediate"}
    assert sum(cell.count for cell in met.values()) == 3 * 12, "every group was against one of them"
    entropies = [line["entropy/play"] for line in read_lines(folder / "metrics.jsonl")]
    assert len(set(entropies)) == 3, "it plays with what it has learned"


def test_the_run_of_these_tests_uses_what_they_are_about(unbroken: Path) -> None:
    found = standing(unbroken)
    events = [event for event in read_lines(unbroken / "events.jsonl") if "league" in event]
    kinds = {event["league"] for event in events}
    assert {"snapshot", "evict"} <= kinds, kinds
    league = found.league
    assert [member.id for member in league.learners] == ["learner-0", "learner-1", "learner-2"]
    assert 0 < len(league.snapshots) <= 4
    assert any(member.retired for member in league.members)
    assert {member.id for member in league.snapshots} <= {path.name for path in (unbroken / "snapshots").iterdir()}
    assert league.payoffs.row("learner-0").keys() & {"conservative", "learner-1", "learner-2"}
    assert len({tuple(values.items()) for values in league.hyper.values()}) == 3
    metrics = list(read_lines(unbroken / "metrics.jsonl"))
    assert [line["step"] for line in metrics if "learner-1/nash_conv" in line] == [5, 10]
    assert all(line["league/members"] >= 6 for line in metrics if "league/members" in line)
    for event in events:
        assert event["reason"]
        if event["league"] == "snapshot":
            assert event["member"].startswith(event["parent"])


@pytest.mark.parametrize("name", ["metrics.jsonl", "events.jsonl"])
def test_what_a_league_logs_is_documented_and_what_is_documented_is_logged(name: str, unbroken: Path) -> None:
    logged = {key for line in read_lines(unbroken / name) for key in line}
    own = documented(f"{name} of a league")
    assert sorted(key for key in logged if not any(fits(p, key) for p in (*own, *documented(name)))) == []
    assert [pattern for pattern in own if not any(fits(pattern, key) for key in logged)] == []


def test_the_leader_is_a_model_like_any_other(mage: Mage, unbroken: Path, tmp_path: Path) -> None:
    ended = mage("evaluate", unbroken, "--opponents", "kuhn-scripts", "--trials", "2", "-o", tmp_path / "judged")
    assert ended.code == 0, ended.said
    found = standing(unbroken)
    newest = unbroken / "checkpoints" / f"step-{STEPS:06d}"
    leader = newest / "learners" / found.league.leader().id
    assert (newest / "model.safetensors").read_bytes() == (leader / "model.safetensors").read_bytes()


def test_killed_in_the_middle_it_goes_on_to_the_same_bits(
    mage: Mage, recipe: Path, unbroken: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    metrics, checkpoints = folder / "metrics.jsonl", folder / "checkpoints"
    moments = [
        lambda: count_lines(metrics) >= 2,  # before the first checkpoint
        lambda: any(checkpoints.glob(".writing-*/learners/*")),
        lambda: (checkpoints / "step-000006").exists() and count_lines(metrics) >= 8,
    ]
    command: tuple[str | Path, ...] = ("train", recipe, "--run", folder)
    for moment in moments:
        assert mage(*command, meanwhile=when(moment, SIGKILL)).code == -SIGKILL
        command = ("train", "--resume", folder)
    ended = mage(*command)
    assert ended.code == 0, ended.said
    found, wanted = everything(folder), everything(unbroken)
    assert sorted(found) == sorted(wanted)
    assert [name for name in wanted if found[name] != wanted[name]] == []


def test_schedules_follow_each_learner_s_part_of_the_tokens(mage: Mage, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    bonus = (
        "alarms.action=print",
        "learner.entropy_start=0.4",
        "learner.entropy_end=0.0",
        'league.explore=["learner.lr"]',
    )
    ended = mage("train", recipe, *bonus, "steps=99", "tokens=20000", "evaluation.splits=[]", "--run", folder)
    assert ended.code == 0, ended.said
    metrics = [line for line in read_lines(folder / "metrics.jsonl") if "learner/tokens" in line]
    assert (
        sum(line["learner/tokens"] for line in metrics) >= 20000 > sum(line["learner/tokens"] for line in metrics[:-1])
    )
    for name in ("learner-0", "learner-1", "learner-2"):
        bonuses = [line[f"{name}/entropy_bonus"] for line in metrics if f"{name}/entropy_bonus" in line]
        assert bonuses[0] == pytest.approx(0.4)
        assert bonuses[-1] < 0.2, "a learner that counts all tokens of the run as its own would be at 0.27"


def test_a_setting_that_learners_explore_cannot_be_changed_for_all_of_them(mage: Mage, unbroken: Path) -> None:
    ended = mage("train", "--resume", unbroken, "steps=11", "learner.lr=0.5")
    assert ended.code == 2
    assert "learner.lr cannot change in this run: every learner has its own" in ended.said


def test_a_learner_that_forgets_the_anchors_goes_back(mage: Mage, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    watched = ("alarms.dead=1.0", "alarms.drop=0.001", "alarms.patience=1", "population.half_life=1.0", "steps=8")
    ended = mage("train", recipe, *watched, "batch.groups=24", "evaluation.splits=[]", "--run", folder)
    assert ended.code == 0, ended.said
    events = list(read_lines(folder / "events.jsonl"))
    fell = [event for event in events if "score on the anchors fell" in event.get("alarm", "")]
    back = [event for event in events if event.get("league") == "rollback"]
    assert fell
    assert back
    assert back[0]["parent"].startswith(back[0]["member"])
    assert "score on the anchors fell" in back[0]["reason"]


def test_adapters_of_one_base_are_a_league_too(mage: Mage, recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ended = mage("train", recipe, "learner.lora_rank=2", "steps=4", "evaluation.splits=[]", "--run", folder)
    assert ended.code == 0, ended.said
    league = standing(folder).league
    assert {member.kind for member in league.members} == set(MemberKind)
    for member in (*league.learners, *league.snapshots):
        place = "snapshots" if member.kind is MemberKind.SNAPSHOT else "checkpoints/step-000004/learners"
        assert (folder / place / member.id / "adapter_model.safetensors").is_file()


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("batch.groups=13", "must be a multiple of league.learners = 3"),
        ("population.sampler=fair", "unknown sampler 'fair'"),
        ('league.explore=["learner.epochs"]', "'learner.epochs' cannot be explored"),
        ("credit.estimator=cloning", "pay-offs would be the teacher's"),
        ("population.options={share=2}", "share"),
    ],
)
def test_what_does_not_go_with_a_league_is_refused(recipe: Path, override: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_start(load_config(str(recipe), [override]))
