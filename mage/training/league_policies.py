"""The policies of a league, learners and snapshots, and the engines that serve them.

Adapters on one base share an engine, which batches their calls together. Policies that are whole (small) models have
one engine each; a single learner without snapshots uses the evaluation engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mage.agents.language import Rewrite, as_written
from mage.config.load import replaced
from mage.config.schema import Config
from mage.credit.steps import CreditGroup
from mage.engines.local.engine import LocalEngine
from mage.league.matches import PlayedMatch
from mage.league.members import MemberKind
from mage.league.state import League
from mage.learners.settings import LearnerSettings
from mage.learners.shared import LearnerState, SharedLearner, load_state, save_state
from mage.protocols import AgentFactory, Engine
from mage.training.build import agent_settings, language_agent_factory
from mage.training.parts import Parts, learner_settings

_SLOTS = 256
"""Slots of each engine of a whole model: there are many engines, and each serves a part of the trials."""


class LeaguePolicies:
    """Holds the weights of a league's policies and publishes them to engines."""

    def __init__(self, parts: Parts, names: Sequence[str]) -> None:
        self._config = config = parts.config
        self._parts = parts
        self._shared_engine = parts.engine if parts.engine.capacity is not None else None
        self._engines: dict[str, LocalEngine] = {}
        self._unused_engines = [parts.engine] if len(names) == 1 and not config.league.snapshot_every else []
        self.shared_learner = SharedLearner(parts.learner, dict.fromkeys(names, self._settings({})))

    def config_with(self, hyper: Mapping[str, float]) -> Config:
        """The config with a learner's own settings."""
        return replaced(self._config, hyper, "the league") if hyper else self._config

    def apply_settings(self, league: League) -> None:
        """Give every learner its own settings."""
        for learner in league.learners:
            self.shared_learner.set_settings(learner.id, self._settings(league.hyper.get(learner.id, {})))

    async def publish(self, league: League, step: int) -> None:
        """Publish the current weights of all learners and reset prefix caches."""
        for learner in league.learners:
            await self._publish_state(learner.id, self.shared_learner[learner.id], step)
        for engine in (*self._engines.values(), self._parts.engine):
            engine.reset_cache()

    async def add_snapshot(self, snapshot: str, learner: str, folder: Path, step: int) -> None:
        """Write a learner's current state to a folder and publish it as a snapshot."""
        save_state(folder, self.shared_learner.activate(learner), self._parts.loaded.name)
        await self._publish_state(snapshot, self.shared_learner[learner], step)

    async def load_snapshot(self, snapshot: str, folder: Path, step: int) -> None:
        """Publish a snapshot from its folder."""
        await self._publish_state(snapshot, load_state(folder, self.shared_learner.learner), step)

    def restore_learner(self, learner: str, folder: Path) -> None:
        """Set a learner back to the state in a snapshot's folder."""
        self.shared_learner.replace(learner, load_state(folder, self.shared_learner.learner))

    def remove_snapshot(self, snapshot: str) -> None:
        """Stop serving a snapshot."""
        if self._shared_engine is not None:
            self._shared_engine.drop_adapter(snapshot)
        else:
            self._unused_engines.append(self._engines.pop(snapshot))

    def agent_factories(
        self, league: League, *, live_only: bool = False, rewrite: Rewrite = as_written
    ) -> dict[str, AgentFactory]:
        """Agent factories by member: learners with their own settings, snapshots with the run's, unless `live_only`.

        `rewrite` maps the learners' reflections to what they remember; snapshots remember their own.
        """
        found: dict[str, AgentFactory] = {}
        for member in league.learners if live_only else (*league.learners, *league.snapshots):
            how = agent_settings(self.config_with(league.hyper.get(member.id, {})).agent)
            engine = self._engine(member.id)
            own = rewrite if member.kind is MemberKind.LEARNER else as_written
            found[member.id] = language_agent_factory(
                self._parts.world, engine, self._parts.loaded.chat_format, how, own
            )
        return found

    def credit(self, league: League, played: Sequence[PlayedMatch]) -> list[CreditGroup]:
        """All groups as numbers for the estimator, with the returns of each learner's own settings."""
        found: dict[int, CreditGroup] = {}
        for learner in league.learners:
            mine = [number for number, one in enumerate(played) if one.learner == learner.id]
            if self._parts.learner.has_values:
                self.shared_learner.activate(learner.id)
            names = [" + ".join(league.member(id).family for id in played[number].opponents) for number in mine]
            return_spec = self.config_with(league.hyper.get(learner.id, {})).credit
            groups = [played[number].group for number in mine]
            found |= zip(mine, self._parts.credit(groups, learner.id, names, return_spec), strict=True)
        return [found[number] for number in range(len(played))]

    def _settings(self, hyper: Mapping[str, float]) -> LearnerSettings:
        """A learner's settings; its schedules follow its share of the run's tokens."""
        own = learner_settings(self.config_with(hyper))
        return replace(own, tokens=own.tokens // self._config.league.learners)

    def _engine(self, name: str) -> Engine:
        return self._engines[name] if self._shared_engine is None else self._shared_engine.adapter(name)

    async def _publish_state(self, name: str, state: LearnerState, step: int) -> None:
        """Publish the weights of a state; the learner need not be active."""
        if self._shared_engine is not None:
            await self._shared_engine.publish_adapter(name, self.shared_learner.learner.adapter(state.weights), step)
            return
        if name not in self._engines:
            self._engines[name] = self._unused_engines.pop() if self._unused_engines else self._new_engine()
        await self._engines[name].publish(state.weights, step)

    def _new_engine(self) -> LocalEngine:
        return LocalEngine(
            self._parts.loaded, slots=self._config.agent.slots or _SLOTS, length=self._config.agent.context
        )
