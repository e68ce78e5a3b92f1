"""A league that nobody trained: its learners' skill and style follow formulas; all decisions are those of a real one.

`python -m tests.league_played DIR` makes a run of 100 steps to look at.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import exp, sin, tanh
from pathlib import Path

import msgspec

from mage.league.eviction import choose_evictions
from mage.league.members import anchor
from mage.league.payoffs import MatchScore
from mage.league.pbt import Event, choose_copies
from mage.league.state import new_league
from mage.seeds import stream
from mage.types import Trial
from tests.recorded import guest_trial, make_task
from tests.viewed import write_checkpoint, write_lines, write_run

LEARNERS = ("learner-0", "learner-1", "learner-2", "learner-3")
ANCHORS = {"copy": -0.6, "beat-last": 0.1, "cycle(step=1)": -0.2, "always:rock": -0.9, "mcts:50": 0.7}
"""By spec, how strong each is."""
RATES = {"learner-0": 0.03, "learner-1": 0.008, "learner-2": 0.02, "learner-3": 0.024}
_SNAPSHOT_EVERY, _COMPARE_EVERY, _MOST_SNAPSHOTS, _GROUPS = 20, 50, 10, 6
_COLLAPSE_STEP, _HEALTHY = 66, "learner-3@60"
_EXPLORED = ("learner.lr", "learner.entropy_start")

Row = Mapping[str, object]


class Playing:
    """The league while it is played; `strength` and `style` are what a real one would have as weights."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = stream(seed, "league")
        hyper = [{"learner.lr": 3e-4 * (k + 1), "learner.entropy_start": 0.01} for k in range(len(LEARNERS))]
        self.league = new_league([anchor(spec) for spec in ANCHORS], hyper)
        self.strength = {**ANCHORS, **dict.fromkeys(LEARNERS, -0.3)}
        self.style = {id: 1.1 * k for k, id in enumerate((*ANCHORS, *LEARNERS))}
        self.rates = dict(RATES)
        self.metrics: list[Row] = []
        self.events: list[Row] = []

    def step(self, step: int) -> None:
        """Everybody plays, learns, and may be copied, kept, thrown out or rolled back."""
        self._draw()
        results = [self._result(id) for id in LEARNERS for _ in range(_GROUPS)]
        self.league = self.league.with_results(results, step, 30.0)
        for id in LEARNERS:
            self.strength[id] += self.rates[id] * exp(-max(0.0, self.strength[id]))
            self.style[id] += 0.02
        if step % _COMPARE_EVERY == 0:
            for event in choose_copies(self.league, step, 0, _EXPLORED, 1.2):
                self._copy(step, event)
        if _COLLAPSE_STEP - 4 <= step < _COLLAPSE_STEP:
            self.strength["learner-3"] -= 0.35
        if step == _COLLAPSE_STEP:
            self.strength["learner-3"] = self.strength[_HEALTHY]
            alarm = "learner-3: entropy/play is under 0.05 for 4 steps (0.012)"
            self._tell(step, "rollback", "learner-3", _HEALTHY, f"alarm: {alarm}")
        if step % _SNAPSHOT_EVERY == 0:
            self._keep(step)
        self._measure(step)

    def _draw(self) -> None:
        """The harder an opponent, the more often it is drawn."""
        drawn: dict[str, dict[str, float]] = {}
        for id in LEARNERS:
            others = [m.id for m in self.league.opponents_of(id)]
            weights = {other: (1 - 0.45 * (1 + self._score(id, other))) ** 2 for other in others}
            drawn[id] = {other: weight / sum(weights.values()) for other, weight in weights.items()}
        self.league = self.league.with_drawn(drawn)

    def _score(self, one: str, other: str) -> float:
        return tanh(self.strength[one] - self.strength[other] + 0.5 * sin(self.style[one] - self.style[other]))

    def _result(self, id: str) -> MatchScore:
        odds = self.league.drawn[id]
        (other,) = self.rng.choices(list(odds), list(odds.values()))
        noisy = self._score(id, other) + self.rng.gauss(0.0, 0.25)
        return MatchScore(id, other, max(-1.0, min(1.0, noisy)))

    def _copy(self, step: int, event: Event) -> None:
        learner, parent = event.learner, event.parent
        self.strength[learner], self.rates[learner] = self.strength[parent], self.rates[parent]
        self.style[learner] = self.style[parent] + 0.2
        new = {key: value for key, (_, value) in event.changes.items()}
        self.league = self.league.with_copy(learner, parent, new)
        self._tell(step, "exploit", learner, parent, event.reason, event.changes)

    def _keep(self, step: int) -> None:
        """Snapshots of all learners; of too many those go that pay like others."""
        for id in LEARNERS:
            kept = f"{id}@{step}"
            self.strength[kept], self.style[kept] = self.strength[id], self.style[id]
            self.league = self.league.with_snapshot(id, step)
            self._tell(step, "snapshot", kept, id, "every 20 steps")
        for name, reason in choose_evictions(self.league, _MOST_SNAPSHOTS):
            self.league = self.league.retire([name], step)
            self._tell(step, "evict", name, None, reason)

    def _tell(self, step: int, what: str, member: str, parent: str | None, reason: str, changes: object = None) -> None:
        row = {"step": step, "league": what, "member": member, "parent": parent, "reason": reason}
        self.events.append({**row, "changes": changes or {}})

    def _measure(self, step: int) -> None:
        ratings = self.league.ratings()
        row: dict[str, object] = {
            "step": step,
            **{f"score/episode_{k}": tanh(step / 90) * k / 3 for k in (1, 2, 3)},
            "league/members": float(len(self.league.present)),
            "league/snapshots": float(len(self.league.snapshots)),
            "league/diversity": self.league.diversity(),
        }
        for id in LEARNERS:
            anchors = [self._score(id, anchor) for anchor in ANCHORS]
            row |= {f"{id}/score_{k}": self._score(id, "copy") * k / 3 for k in (1, 2, 3)}
            row |= {f"{id}/rating": ratings[id], f"{id}/anchors": sum(anchors) / len(anchors)}
            row |= {f"{id}/entropy": 0.9 * exp(-step / 80), f"{id}/dead_share": 0.1}
            if step % 10 == 0:
                row[f"{id}/nash_conv"] = 0.9 * exp(-max(0.0, self.strength[id] + 0.5)) + self.rng.uniform(0.0, 0.05)
        self.metrics.append(row)


def write_league(path: Path, steps: int = 100, seed: int = 0) -> Path:
    """A train run with a league that came so far."""
    played = Playing(seed)
    for step in range(1, steps + 1):
        played.step(step)
    trial: Trial = guest_trial(make_task())
    write_run(path, [trial], "train", steps=steps, trial={"episodes": 3}, league={"learners": len(LEARNERS)})
    write_lines(path / "metrics.jsonl", played.metrics)
    write_lines(path / "events.jsonl", [{"step": 1, "warning": "slow"}, *played.events])
    (path / "league.json").write_bytes(msgspec.json.encode({"step": steps, "league": played.league}))
    write_checkpoint(path, steps)
    return path


if __name__ == "__main__":
    print(write_league(Path(sys.argv[1])))
