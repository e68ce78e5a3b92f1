"""Where a league stands: its members and their results, who is well, and what exploit and explore did and why."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path

import msgspec

from mage.config.load import value_of
from mage.config.schema import Config
from mage.credit.stats import Stats
from mage.errors import RecordError
from mage.files import write_atomically
from mage.league.eviction import choose_evictions
from mage.league.explore import choose_copies, perturb
from mage.league.matches import PlayedMatch
from mage.league.members import anchor
from mage.league.payoffs import SETTLED, MatchScore
from mage.league.report import LEAGUE
from mage.league.samplers import MemberProbs
from mage.league.state import League, new_league
from mage.learners.shared import load_state, save_state
from mage.seeds import derive
from mage.training.alarms import NOTHING_SEEN, AlarmState, watch_score, watch_step
from mage.training.build import members_of
from mage.training.league_policies import LeaguePolicies
from mage.training.parts import Parts
from mage.training.recorder import MAX_ROLLBACKS, Display, RunRecorder
from mage.types import AlarmAction

LEARNERS, SNAPSHOTS = "learners", "snapshots"
NASH_CONV = "nash_conv"


class LeagueState(msgspec.Struct, frozen=True):
    """Everything about a league but its weights; goes into checkpoints."""

    step: int
    league: League
    watches: Mapping[str, AlarmState]
    """How long figures of each learner have been bad."""
    healthy: Mapping[str, str]
    """The newest snapshot of each learner that was taken while all was well."""
    rollbacks: Mapping[str, int]
    """How often each learner went back since it last took a snapshot."""


def founded(config: Config) -> League:
    """A new league: the population as anchors, and learners that have learned nothing yet."""
    specs = members_of(config)
    weights = config.population.weights or (1.0,) * len(specs)
    own = {key: float(value_of(config, key)) for key in config.league.explore}
    others = (
        perturb(own, derive(config.seed, "found", number), config.league.factor)
        for number in range(1, config.league.learners)
    )
    return new_league([anchor(spec, weight) for spec, weight in zip(specs, weights, strict=True)], [own, *others])


class LeagueRecorder(RunRecorder):
    """The state of a league's run, kept in its directory."""

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
        self._state = LeagueState(0, founded(config), {}, {}, {})
        super().__init__(config, folder, parts, display, max_minutes)
        policies.adjust(self.league)

    @property
    def league(self) -> League:
        return self._state.league

    @property
    def transcribed(self) -> str:
        """The learner whose trials are written down at this step, if any are: they take turns."""
        learners, every = self.league.learners, max(1, self._config.checkpoint.transcripts)
        return learners[self.step // every % len(learners)].id

    async def activate(self) -> None:
        """Let the snapshots of a run that is resumed play again."""
        for member in self.league.snapshots:
            await self._policies.thaw(member.id, self._folder_of(member.id), member.born)

    def record(self, played: Sequence[PlayedMatch], odds: Mapping[str, MemberProbs]) -> None:
        """Add results to the pay-off table; a game of two learners counts for both."""
        results = [
            MatchScore(one.learner, opponent, one.score)
            for one in played
            for opponent in one.opponents
            if one.score is not None
        ]
        half_life = self._config.league.half_life
        self._change(self.league.with_results(results, self.step, half_life).with_drawn(odds))

    def complete_all(
        self, stats: Stats, metrics: Mapping[str, Mapping[str, float]], played: Sequence[PlayedMatch]
    ) -> None:
        """Write down a step that is done, by learner; whoever is unwell goes back, or stops the run."""
        self.complete(stats, {**_together(metrics), **self._by_learner(metrics, played)}, [p.group for p in played])
        for name, own in metrics.items():
            watch, alarms = watch_step(self._config.alarms, self._state.watches.get(name, NOTHING_SEEN), own)
            watch, forgotten = self._watch_anchors(name, watch)
            self._stand(watches={**self._state.watches, name: watch})
            self._sound_for(name, [*alarms, *forgotten])

    def _watch_anchors(self, name: str, watch: AlarmState) -> tuple[AlarmState, list[str]]:
        """Look now and then at what a learner scores against the anchors: they do not change, so a fall is its own."""
        cells = [self.league.payoffs.cell(name, member.id) for member in self.league.anchors]
        known = [cell for cell in cells if cell is not None and cell.count >= SETTLED]
        if not known or len(known) < len(cells) or self.step % self._config.alarms.patience:
            return watch, []
        return watch_score(self._config.alarms, watch, "the anchors", fsum(cell.mean for cell in known) / len(known))

    async def evolve(self) -> None:
        """Take snapshots, let go of those that are least needed, and let learners exploit and explore, when due."""
        config, changed = self._config.league, False
        for member in self.league.learners:
            if self._is_snapshot_due(member.id):
                await self._freeze(member.id, "on schedule")
                changed = True
        for name, reason in choose_evictions(self.league, config.snapshots):
            self._retire(name, reason)
        if config.exploit_every and self.step % config.exploit_every == 0 and not self.is_finished:
            self._exploit()
            changed = True
        if changed:
            self._write(self._folder / LEAGUE)

    def _is_snapshot_due(self, name: str) -> bool:
        config = self._config.league
        is_time = config.snapshots > 0 and config.snapshot_every > 0 and self.step % config.snapshot_every == 0
        return is_time and self._state.watches.get(name, NOTHING_SEEN).is_calm

    async def _freeze(self, name: str, reason: str) -> None:
        self._change(self.league.with_snapshot(name, self.step))
        member = self.league.members[-1]
        await self._policies.freeze(member.id, name, self._folder_of(member.id), self.step)
        self._stand(healthy={**self._state.healthy, name: member.id}, rollbacks={**self._state.rollbacks, name: 0})
        self._tell("snapshot", member.id, name, reason)

    def _retire(self, name: str, reason: str) -> None:
        self._policies.release(name)
        self._change(self.league.retire([name], self.step))
        self._tell("evict", name, None, reason)

    def _exploit(self) -> None:
        config = self._config.league
        events = choose_copies(
            self.league, self.step, derive(self._config.seed, "explore"), config.explore, config.factor
        )
        for event in events:
            self._policies.shared.replace(event.learner, self._policies.shared[event.parent])
            changes = {key: new for key, (_, new) in event.changes.items()}
            self._change(self.league.with_copy(event.learner, event.parent, changes))
            self._tell("exploit", event.learner, event.parent, event.reason, event.changes)
        self._policies.adjust(self.league)

    def _look(self, metrics: Mapping[str, float]) -> None:
        """Figures of all learners together tell nobody's health."""

    def _sound(self, alarms: Sequence[str], action: AlarmAction, healthy: int | None) -> None:
        """Of the leader's scores: there is no checkpoint to go back to, because the others are well."""
        super()._sound(alarms, AlarmAction.PRINT if action is AlarmAction.ROLLBACK else action, None)

    def _sound_for(self, name: str, alarms: Sequence[str]) -> None:
        """Say and record the alarms of one learner, and act on them."""
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
            self._policies.go_back(name, self._folder_of(healthy))
            self._stand(
                watches={**self._state.watches, name: NOTHING_SEEN},
                rollbacks={**self._state.rollbacks, name: times + 1},
            )
            self._tell("rollback", name, healthy, alarms[0])

    def _by_learner(
        self, metrics: Mapping[str, Mapping[str, float]], played: Sequence[PlayedMatch]
    ) -> dict[str, float]:
        """The figures that are told of each learner, and of the league."""
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
            met = [p.score for p in played if p.learner == name and anchors.issuperset(p.opponents)]
            scores = [score for score in met if score is not None]
            if scores:
                found[f"{name}/anchors"] = sum(scores) / len(scores)
            for key, value in own.items():
                if key.startswith("score/episode_"):
                    found[f"{name}/score_{key.removeprefix('score/episode_')}"] = value
                elif key in _TOLD:
                    found[f"{name}/{_TOLD[key]}"] = value
        return found

    @property
    def _num_tokens(self) -> int:
        return self._policies.shared.num_tokens

    def _save_more(self, folder: Path) -> None:
        for member in self.league.learners:
            save_state(
                folder / LEARNERS / member.id, self._policies.shared.activate(member.id), self._parts.loaded.name
            )
        self._write(folder / LEAGUE)
        self._write(self._folder / LEAGUE)

    def _load_more(self, folder: Path) -> None:
        try:
            self._state = msgspec.json.decode((folder / LEAGUE).read_bytes(), type=LeagueState)
        except (OSError, msgspec.DecodeError) as error:
            raise RecordError(f"{folder} holds no league that can be read: {error}") from None
        for member in self.league.learners:
            self._policies.shared.replace(
                member.id, load_state(folder / LEARNERS / member.id, self._policies.shared.body)
            )

    def _save(self, *, is_scheduled: bool) -> None:
        """Save with the leader in the body. Snapshots that left before are needed by no checkpoint from now on."""
        self._policies.shared.activate(self.league.leader().id)
        super()._save(is_scheduled=is_scheduled)
        needed = {*(member.id for member in self.league.snapshots), *self._state.healthy.values()}
        for folder in (self._folder / SNAPSHOTS).glob("*"):
            if folder.name not in needed:
                shutil.rmtree(folder)

    def _write(self, path: Path) -> None:
        self._stand(step=self.step)
        write_atomically(path, msgspec.json.format(msgspec.json.encode(self._state), indent=1))

    def _tell(
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

    def _change(self, league: League) -> None:
        self._stand(league=league)

    def _stand(self, **changes: object) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)


_TOLD = {
    "entropy/play": "entropy",
    "groups/dead_share": "dead_share",
    "learner/lr": "lr",
    "learner/entropy_bonus": "entropy_bonus",
    NASH_CONV: NASH_CONV,
}
"""Figures that are told of each learner, by the names that they have there."""
_SUMS = ("learner/tokens", "learner/trained_tokens", "play/tokens_sampled", "play/tokens_in_streams")


def _together(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The figures of all learners in one: sums of what was done, else means over those that have them."""
    keys = dict.fromkeys(key for own in metrics.values() for key in own if key != NASH_CONV)
    found: dict[str, float] = {}
    for key in keys:
        values = [own[key] for own in metrics.values() if key in own]
        found[key] = sum(values) if key in _SUMS else sum(values) / len(values)
    return found
