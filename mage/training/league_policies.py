"""The policies of a league, learners and snapshots: their states, and how they are published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mage.agents.language import Rewrite, as_written
from mage.config.load import replaced
from mage.config.schema import Config
from mage.credit.steps import CreditGroup
from mage.files import write_folder
from mage.league.matches import PlayedMatch
from mage.league.members import MemberKind
from mage.league.state import League
from mage.learners.settings import LearnerSettings, learner_settings
from mage.learners.shared import SharedLearner, load_state, save_state
from mage.protocols import AgentFactory
from mage.training.build import agent_settings, language_agent_factory
from mage.training.parts import Parts
from mage.weights import LearnerState


class LeaguePolicies:
    """Holds the states of a league's learners and publishes its policies to the server."""

    def __init__(self, parts: Parts, names: Sequence[str]) -> None:
        self._config = parts.config
        self._parts = parts
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
        self._parts.server.reset_cache()

    async def add_snapshot(self, snapshot: str, learner: str, folder: Path, step: int) -> None:
        """Write a learner's current state to a folder and publish it as a snapshot."""
        own = self.shared_learner.activate(learner)
        write_folder(folder, lambda scratch: save_state(scratch, own, self._parts.loaded.name))
        await self._publish_state(snapshot, self.shared_learner[learner], step)

    async def load_snapshot(self, snapshot: str, folder: Path, step: int) -> None:
        """Publish a snapshot from its folder."""
        await self._publish_state(snapshot, load_state(folder, self.shared_learner.learner), step)

    def restore_learner(self, learner: str, folder: Path) -> None:
        """Set a learner back to the state in a snapshot's folder."""
        self.shared_learner.replace(learner, load_state(folder, self.shared_learner.learner))

    def remove_snapshot(self, snapshot: str) -> None:
        """Stop serving a snapshot."""
        self._parts.server.drop(snapshot)

    def agent_factories(
        self, league: League, *, live_only: bool = False, rewrite: Rewrite = as_written
    ) -> dict[str, AgentFactory]:
        """Agent factories by member: learners with their own settings, snapshots with the run's, unless `live_only`.

        `rewrite` maps the learners' reflections to what they remember; snapshots remember their own.
        """
        found: dict[str, AgentFactory] = {}
        for member in league.learners if live_only else (*league.learners, *league.snapshots):
            how = agent_settings(self.config_with(league.hyper.get(member.id, {})).agent)
            engine = self._parts.server.policy(member.id)
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

    async def _publish_state(self, name: str, state: LearnerState, step: int) -> None:
        """Publish the weights of a state; the learner need not be active."""
        await self._parts.server.publish(name, self.shared_learner.learner.weights(state.weights), step)
