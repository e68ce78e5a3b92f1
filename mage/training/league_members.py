"""The members of a league in training: learners and snapshots, alarms per learner, exploit and explore."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path

import msgspec

from mage.config.load import value_of
from mage.config.schema import Config
from mage.credit.steps import CreditGroup
from mage.errors import RecordError
from mage.evaluation.config_splits import population_of
from mage.evaluation.exploitability.nashconv import first_episode_gains
from mage.files import BAD_JSON, write_atomically
from mage.league.eviction import choose_evictions
from mage.league.matches import PlayedMatch
from mage.league.members import anchor
from mage.league.payoffs import SETTLED
from mage.league.pbt import choose_copies, perturb
from mage.league.report import LEAGUE
from mage.league.state import League, new_league
from mage.learners.shared import load_state, save_state
from mage.protocols import AgentFactory, Learner
from mage.seeds import derive
from mage.training.alarms import MAX_ROLLBACKS, NO_ALARMS, AlarmState, watch_score, watch_step
from mage.training.event_log import EventLog
from mage.training.league_metrics import NASH_CONV
from mage.training.league_policies import LeaguePolicies
from mage.training.parts import Parts
from mage.types import AlarmAction

LEARNERS, SNAPSHOTS = "learners", "snapshots"


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
    own = {key: float(value_of(config, key)) for key in config.league.explore}
    others = (
        perturb(own, derive(config.seed, "found", number), config.league.factor)
        for number in range(1, config.league.learners)
    )
    return new_league([anchor(spec, weight) for spec, weight in population_of(config)], [own, *others])


class LeagueMembers:
    """The learners of a league and their snapshots, with their weights and the state of the league.

    Snapshots lie in a folder of the run, beside `league.json`; everything else is in checkpoints. Events go to the
    `EventLog` that a method is given.
    """

    def __init__(self, parts: Parts, folder: Path) -> None:
        self._config = parts.config
        self._parts = parts
        self._folder = folder
        self._state = LeagueState(0, founding_league(parts.config), {}, {}, {})
        self._policies = LeaguePolicies(parts, self.names)
        self._policies.apply_settings(self.league)

    @property
    def league(self) -> League:
        return self._state.league

    @league.setter
    def league(self, league: League) -> None:
        self._update_state(league=league)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.id for member in self.league.learners)

    @property
    def leader(self) -> str:
        return self.league.leader().id

    @property
    def num_tokens(self) -> int:
        return self._policies.shared_learner.num_tokens

    def activate(self, name: str) -> Learner:
        return self._policies.shared_learner.activate(name)

    async def prepare(self, step: int) -> None:
        """Publish the snapshots of a resumed run."""
        await self._parts.publish(step)
        for member in self.league.snapshots:
            await self._policies.load_snapshot(member.id, self._folder_of(member.id), member.born)

    async def publish(self, step: int) -> None:
        await self._policies.publish(self.league, step)

    def agent_factories(self, step: int) -> Mapping[str, AgentFactory]:
        return self._policies.agent_factories(self.league, rewrite=self._parts.tutor.rewrite(step))

    def credit(self, played: Sequence[PlayedMatch]) -> list[CreditGroup]:
        return self._policies.credit(self.league, played)

    async def measure(self, step: int) -> Mapping[str, Mapping[str, float]]:
        """The NashConv of each learner's play, with the weights that played, when due."""
        every = self._config.league.nashconv_every
        if not every or (step + 1) % every:
            return {}
        found: dict[str, dict[str, float]] = {}
        for name, make_agent in self._policies.agent_factories(self.league, live_only=True).items():
            episodes = self._config.trial.episodes
            gains = await first_episode_gains((name, make_agent), self._config.world, episodes=episodes)
            found[name] = {NASH_CONV: gains.nash_conv}
        return found

    async def update(self, step: int, log: EventLog, *, is_finished: bool) -> list[tuple[str, str]]:
        """Take snapshots, evict the least useful ones, and exploit and explore, when due.

        Returns the learners that copied another, each with the other. After the last step of a run nothing is copied.
        """
        config, changed = self._config.league, False
        for name in self.names:
            if self._is_snapshot_due(name, step):
                await self._take_snapshot(name, step, log)
                changed = True
        for name, reason in choose_evictions(self.league, config.snapshots):
            self._policies.remove_snapshot(name)
            self.league = self.league.retire([name], step)
            _record(log, step, "evict", name, None, reason)
        copies: list[tuple[str, str]] = []
        if config.exploit_every and step % config.exploit_every == 0 and not is_finished:
            copies = self._exploit(step, log)
            changed = True
        if changed:
            self._write(self._folder / LEAGUE, step)
        return copies

    def _is_snapshot_due(self, name: str, step: int) -> bool:
        config = self._config.league
        is_time = config.snapshots > 0 and config.snapshot_every > 0 and step % config.snapshot_every == 0
        return is_time and self._state.watches.get(name, NO_ALARMS).is_healthy

    async def _take_snapshot(self, name: str, step: int, log: EventLog) -> None:
        self.league = self.league.with_snapshot(name, step)
        member = self.league.members[-1]
        await self._policies.add_snapshot(member.id, name, self._folder_of(member.id), step)
        self._update_state(
            healthy={**self._state.healthy, name: member.id}, rollbacks={**self._state.rollbacks, name: 0}
        )
        _record(log, step, "snapshot", member.id, name, "on schedule")

    def _exploit(self, step: int, log: EventLog) -> list[tuple[str, str]]:
        config, learner = self._config.league, self._policies.shared_learner
        seed = derive(self._config.seed, "explore")
        events = choose_copies(self.league, step, seed, config.explore, config.factor)
        for event in events:
            learner.replace(event.learner, learner[event.parent])
            changes = {key: new for key, (_, new) in event.changes.items()}
            self.league = self.league.with_copy(event.learner, event.parent, changes)
            _record(log, step, "exploit", event.learner, event.parent, event.reason, event.changes)
        self._policies.apply_settings(self.league)
        return [(event.learner, event.parent) for event in events]

    def check_alarms(self, name: str, metrics: Mapping[str, float], step: int, log: EventLog) -> str | None:
        """Raise the alarms of one learner, which may roll it back; returns why the run must stop, if it must."""
        watch, alarms = watch_step(self._config.alarms, self._state.watches.get(name, NO_ALARMS), metrics)
        watch, forgotten = self._watch_anchors(name, watch, step)
        self._update_state(watches={**self._state.watches, name: watch})
        return self._raise_alarms(name, [*alarms, *forgotten], step, log)

    def _watch_anchors(self, name: str, watch: AlarmState, step: int) -> tuple[AlarmState, list[str]]:
        """Check a learner's score against the anchors now and then; they never change, so a fall is the learner's."""
        cells = [self.league.payoffs.cell(name, member.id) for member in self.league.anchors]
        known = [cell for cell in cells if cell is not None and cell.count >= SETTLED]
        if not known or len(known) < len(cells) or step % self._config.alarms.patience:
            return watch, []
        return watch_score(self._config.alarms, watch, "the anchors", fsum(cell.mean for cell in known) / len(known))

    def _raise_alarms(self, name: str, alarms: Sequence[str], step: int, log: EventLog) -> str | None:
        action, healthy = self._config.alarms.action, self._state.healthy.get(name)
        for alarm in alarms:
            event = {"step": step, "member": name, "alarm": alarm, "action": action}
            log.record(f"alarm at step {step}, {name}: {alarm}", event)
        if not alarms or action is AlarmAction.PRINT:
            return None
        times = self._state.rollbacks.get(name, 0)
        if action is AlarmAction.STOP:
            return f"stopped by an alarm of {name}; resumed, the run goes on until the next one"
        if healthy is None:
            return f"stopped by an alarm: there is no healthy snapshot of {name} to go back to yet"
        if times == MAX_ROLLBACKS:
            return f"stopped by an alarm: {name} has gone back {times} times since its last snapshot"
        self._policies.restore_learner(name, self._folder_of(healthy))
        self._update_state(
            watches={**self._state.watches, name: NO_ALARMS}, rollbacks={**self._state.rollbacks, name: times + 1}
        )
        _record(log, step, "rollback", name, healthy, alarms[0])
        return None

    def save(self, checkpoint: Path, step: int) -> None:
        """Add the state of the league and of all learners to a checkpoint."""
        for name in self.names:
            save_state(checkpoint / LEARNERS / name, self.activate(name), self._parts.loaded.name)
        self._write(checkpoint / LEAGUE, step)
        self._write(self._folder / LEAGUE, step)

    def load(self, checkpoint: Path) -> None:
        """Restore what `save` added; snapshots that it does not need, which a kill may have left, are deleted."""
        try:
            self._state = msgspec.json.decode((checkpoint / LEAGUE).read_bytes(), type=LeagueState)
        except (OSError, *BAD_JSON) as error:
            raise RecordError(f"{checkpoint} holds no league that can be read: {error}") from None
        learner = self._policies.shared_learner
        for name in self.names:
            learner.replace(name, load_state(checkpoint / LEARNERS / name, learner.learner))
        self._policies.apply_settings(self.league)
        self.delete_unneeded()

    def delete_unneeded(self) -> None:
        """Delete snapshots that the newest checkpoint does not need."""
        needed = {*(member.id for member in self.league.snapshots), *self._state.healthy.values()}
        for folder in (self._folder / SNAPSHOTS).glob("*"):
            if folder.name not in needed:
                shutil.rmtree(folder)

    def _write(self, path: Path, step: int) -> None:
        self._update_state(step=step)
        write_atomically(path, msgspec.json.format(msgspec.json.encode(self._state), indent=1))

    def _folder_of(self, name: str) -> Path:
        return self._folder / SNAPSHOTS / name

    def _update_state(self, **changes: object) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)


def _record(
    log: EventLog,
    step: int,
    what: str,
    member: str,
    parent: str | None,
    reason: str,
    changes: Mapping[str, tuple[float, float]] | None = None,
) -> None:
    row = {"step": step, "league": what, "member": member, "parent": parent, "reason": reason}
    changed = {key: list(pair) for key, pair in (changes or {}).items()}
    log.record(f"{what} at step {step}: {member}, {reason}", {**row, "changes": changed})
