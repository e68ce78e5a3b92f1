"""The recorder of a league run: members, results, alarms per learner, snapshots, exploit and explore."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path

import msgspec

from mage.config.load import value_of
from mage.config.schema import Config
from mage.credit.running_stats import Stats
from mage.errors import RecordError
from mage.files import write_atomically
from mage.league.eviction import choose_evictions
from mage.league.matches import PlayedMatch
from mage.league.members import anchor
from mage.league.payoffs import SETTLED, MatchScore
from mage.league.pbt import choose_copies, perturb
from mage.league.report import LEAGUE
from mage.league.samplers import MemberProbs
from mage.league.state import League, new_league
from mage.learners.shared import load_state, save_state
from mage.seeds import derive
from mage.training.alarms import NO_ALARMS, AlarmState, watch_score, watch_step
from mage.training.build import members_of
from mage.training.league_policies import LeaguePolicies
from mage.training.parts import Parts
from mage.training.recorder import MAX_ROLLBACKS, Display, RunRecorder
from mage.types import AlarmAction

LEARNERS, SNAPSHOTS = "learners", "snapshots"
NASH_CONV = "nash_conv"


class LeagueState(msgspec.Struct, frozen=True):
    """The state of a league without weights; stored in checkpoints."""

    step: int
    league: League
    watches: Mapping[str, AlarmState]
    """The alarm state of each learner."""
    healthy: Mapping[str, str]
    """The newest snapshot of each learner, all of which are taken without an alarm condition."""
    rollbacks: Mapping[str, int]
    """Rollbacks of each learner since its last snapshot."""


def founding_league(config: Config) -> League:
    """A new league: the population as anchors, and untrained learners."""
    specs = members_of(config)
    weights = config.population.weights or (1.0,) * len(specs)
    own = {key: float(value_of(config, key)) for key in config.league.explore}
    others = (
        perturb(own, derive(config.seed, "found", number), config.league.factor)
        for number in range(1, config.league.learners)
    )
    return new_league([anchor(spec, weight) for spec, weight in zip(specs, weights, strict=True)], [own, *others])


class LeagueRecorder(RunRecorder):
    """Keeps the state of a league run in its directory."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        parts: Parts,
        policies: LeaguePolicies,
        display: Display,
        max_minutes: float | None,
    ) -> None:
        self._policies = policies
        self._state = LeagueState(0, founding_league(config), {}, {}, {})
        super().__init__(config, folder, parts, display, max_minutes)
        policies.apply_settings(self.league)

    @property
    def league(self) -> League:
        return self._state.league

    @property
    def transcribed_learner(self) -> str:
        """The learner whose trials are written at this step, if any are; learners take turns."""
        learners, every = self.league.learners, max(1, self._config.checkpoint.transcripts)
        return learners[self.step // every % len(learners)].id

    async def load_snapshots(self) -> None:
        """Publish the snapshots of a resumed run."""
        for member in self.league.snapshots:
            await self._policies.load_snapshot(member.id, self._folder_of(member.id), member.born)

    def record_matches(self, played: Sequence[PlayedMatch], odds: Mapping[str, MemberProbs]) -> None:
        """Add results to the pay-off table; a match of two learners counts for both."""
        results = [
            MatchScore(one.learner, opponent, one.score)
            for one in played
            for opponent in one.opponents
            if one.score is not None
        ]
        half_life = self._config.league.half_life
        self._set_league(self.league.with_results(results, self.step, half_life).with_drawn(odds))

    def complete_league_step(
        self, stats: Stats, metrics: Mapping[str, Mapping[str, float]], played: Sequence[PlayedMatch]
    ) -> None:
        """Record a completed step with metrics by learner; alarms may roll a learner back or stop the run."""
        self.complete_step(
            stats, {**_aggregated(metrics), **self._by_learner(metrics, played)}, [p.group for p in played]
        )
        for name, own in metrics.items():
            watch, alarms = watch_step(self._config.alarms, self._state.watches.get(name, NO_ALARMS), own)
            watch, forgotten = self._watch_anchors(name, watch)
            self._update_state(watches={**self._state.watches, name: watch})
            self._raise_learner_alarms(name, [*alarms, *forgotten])

    def _watch_anchors(self, name: str, watch: AlarmState) -> tuple[AlarmState, list[str]]:
        """Check a learner's score against the anchors now and then; they never change, so a fall is the learner's."""
        cells = [self.league.payoffs.cell(name, member.id) for member in self.league.anchors]
        known = [cell for cell in cells if cell is not None and cell.count >= SETTLED]
        if not known or len(known) < len(cells) or self.step % self._config.alarms.patience:
            return watch, []
        return watch_score(self._config.alarms, watch, "the anchors", fsum(cell.mean for cell in known) / len(known))

    async def update_members(self) -> None:
        """Take snapshots, evict the least useful ones, and exploit and explore, when due."""
        config, changed = self._config.league, False
        for member in self.league.learners:
            if self._is_snapshot_due(member.id):
                await self._take_snapshot(member.id, "on schedule")
                changed = True
        for name, reason in choose_evictions(self.league, config.snapshots):
            self._evict(name, reason)
        if config.exploit_every and self.step % config.exploit_every == 0 and not self.is_finished:
            self._exploit()
            changed = True
        if changed:
            self._write(self._folder / LEAGUE)

    def _is_snapshot_due(self, name: str) -> bool:
        config = self._config.league
        is_time = config.snapshots > 0 and config.snapshot_every > 0 and self.step % config.snapshot_every == 0
        return is_time and self._state.watches.get(name, NO_ALARMS).is_healthy

    async def _take_snapshot(self, name: str, reason: str) -> None:
        self._set_league(self.league.with_snapshot(name, self.step))
        member = self.league.members[-1]
        await self._policies.add_snapshot(member.id, name, self._folder_of(member.id), self.step)
        self._update_state(
            healthy={**self._state.healthy, name: member.id}, rollbacks={**self._state.rollbacks, name: 0}
        )
        self._record_event("snapshot", member.id, name, reason)

    def _evict(self, name: str, reason: str) -> None:
        self._policies.remove_snapshot(name)
        self._set_league(self.league.retire([name], self.step))
        self._record_event("evict", name, None, reason)

    def _exploit(self) -> None:
        config = self._config.league
        events = choose_copies(
            self.league, self.step, derive(self._config.seed, "explore"), config.explore, config.factor
        )
        for event in events:
            self._policies.shared_learner.replace(event.learner, self._policies.shared_learner[event.parent])
            changes = {key: new for key, (_, new) in event.changes.items()}
            self._set_league(self.league.with_copy(event.learner, event.parent, changes))
            self._record_event("exploit", event.learner, event.parent, event.reason, event.changes)
        self._policies.apply_settings(self.league)

    def _check_alarms(self, metrics: Mapping[str, float]) -> None:
        """Do nothing: metrics aggregated over learners raise no alarms."""

    def _raise_alarms(self, alarms: Sequence[str], action: AlarmAction, healthy: int | None) -> None:
        """Alarms of the leader's scores; no rollback, because the other learners may be healthy."""
        super()._raise_alarms(alarms, AlarmAction.PRINT if action is AlarmAction.ROLLBACK else action, None)

    def _raise_learner_alarms(self, name: str, alarms: Sequence[str]) -> None:
        """Print and record the alarms of one learner, and act on them."""
        action, healthy = self._config.alarms.action, self._state.healthy.get(name)
        for alarm in alarms:
            self._display.say(f"alarm at step {self.step}, {name}: {alarm}")
            self._events.append({"step": self.step, "member": name, "alarm": alarm, "action": action})
        if not alarms or action is AlarmAction.PRINT:
            return
        times = self._state.rollbacks.get(name, 0)
        if action is AlarmAction.STOP:
            self.stop(f"stopped by an alarm of {name}; resumed, the run goes on until the next one")
        elif healthy is None:
            self.stop(f"stopped by an alarm: there is no healthy snapshot of {name} to go back to yet")
        elif times == MAX_ROLLBACKS:
            self.stop(f"stopped by an alarm: {name} has gone back {times} times since its last snapshot")
        else:
            self._policies.restore_learner(name, self._folder_of(healthy))
            self._update_state(
                watches={**self._state.watches, name: NO_ALARMS},
                rollbacks={**self._state.rollbacks, name: times + 1},
            )
            self._record_event("rollback", name, healthy, alarms[0])

    def _by_learner(
        self, metrics: Mapping[str, Mapping[str, float]], played: Sequence[PlayedMatch]
    ) -> dict[str, float]:
        """Metrics of the league and of each learner."""
        league = self.league
        found = {
            "league/members": float(len(league.present)),
            "league/snapshots": float(len(league.snapshots)),
            "league/diversity": league.diversity(),
        }
        ratings = league.ratings()
        anchors = {member.id for member in league.anchors}
        for name, own in metrics.items():
            found[f"{name}/rating"] = ratings[name]
            against_anchors = [p.score for p in played if p.learner == name and anchors.issuperset(p.opponents)]
            scores = [score for score in against_anchors if score is not None]
            if scores:
                found[f"{name}/anchors"] = sum(scores) / len(scores)
            for key, value in own.items():
                if key.startswith("score/episode_"):
                    found[f"{name}/score_{key.removeprefix('score/episode_')}"] = value
                elif key in _LEARNER_METRICS:
                    found[f"{name}/{_LEARNER_METRICS[key]}"] = value
        return found

    @property
    def _num_tokens(self) -> int:
        return self._policies.shared_learner.num_tokens

    def _save_extra(self, folder: Path) -> None:
        for member in self.league.learners:
            save_state(
                folder / LEARNERS / member.id,
                self._policies.shared_learner.activate(member.id),
                self._parts.loaded.name,
            )
        self._write(folder / LEAGUE)
        self._write(self._folder / LEAGUE)

    def _load_extra(self, folder: Path) -> None:
        try:
            self._state = msgspec.json.decode((folder / LEAGUE).read_bytes(), type=LeagueState)
        except (OSError, msgspec.DecodeError) as error:
            raise RecordError(f"{folder} holds no league that can be read: {error}") from None
        for member in self.league.learners:
            self._policies.shared_learner.replace(
                member.id, load_state(folder / LEARNERS / member.id, self._policies.shared_learner.learner)
            )

    def _save(self, *, is_scheduled: bool) -> None:
        """Save with the leader active, then delete snapshots that no checkpoint needs any more."""
        self._policies.shared_learner.activate(self.league.leader().id)
        super()._save(is_scheduled=is_scheduled)
        needed = {*(member.id for member in self.league.snapshots), *self._state.healthy.values()}
        for folder in (self._folder / SNAPSHOTS).glob("*"):
            if folder.name not in needed:
                shutil.rmtree(folder)

    def _write(self, path: Path) -> None:
        self._update_state(step=self.step)
        write_atomically(path, msgspec.json.format(msgspec.json.encode(self._state), indent=1))

    def _record_event(
        self,
        what: str,
        member: str,
        parent: str | None,
        reason: str,
        changes: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self._display.say(f"{what} at step {self.step}: {member}, {reason}")
        row = {"step": self.step, "league": what, "member": member, "parent": parent, "reason": reason}
        self._events.append({**row, "changes": {key: list(pair) for key, pair in (changes or {}).items()}})

    def _folder_of(self, name: str) -> Path:
        return self._folder / SNAPSHOTS / name

    def _set_league(self, league: League) -> None:
        self._update_state(league=league)

    def _update_state(self, **changes: object) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)


_LEARNER_METRICS = {
    "entropy/play": "entropy",
    "groups/dead_share": "dead_share",
    "learner/lr": "lr",
    "learner/entropy_bonus": "entropy_bonus",
    NASH_CONV: NASH_CONV,
}
"""Metrics that are logged for each learner, and their names there."""
_SUMS = ("learner/tokens", "learner/trained_tokens", "play/tokens_sampled", "play/tokens_in_streams")


def _aggregated(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Metrics aggregated over learners: sums of counts, else means over the learners that have them."""
    keys = dict.fromkeys(key for own in metrics.values() for key in own if key != NASH_CONV)
    found: dict[str, float] = {}
    for key in keys:
        values = [own[key] for own in metrics.values() if key in own]
        found[key] = sum(values) if key in _SUMS else sum(values) / len(values)
    return found
