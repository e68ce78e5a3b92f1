"""The learners of a run, and the policies that play in it: what the loop asks of one learner, or of a league."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mage.credit.steps import CreditGroup
from mage.league.matches import PlayedMatch
from mage.protocols import AgentFactory, Learner
from mage.training.parts import LEARNER, Parts


class RunLearners(Protocol):
    """One or more learners, by name, that share one `Learner`."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def leader(self) -> str:
        """The learner that is shown, evaluated and saved as the model of the run."""
        ...

    @property
    def num_tokens(self) -> int:
        """Tokens that all learners together were trained on."""
        ...

    def activate(self, name: str) -> Learner:
        """Load the state of a learner into the `Learner`, and return that."""
        ...

    async def prepare(self, step: int) -> None:
        """Publish weights that do not change from step to step, before the first step of this process."""
        ...

    async def publish(self, step: int) -> None:
        """Publish the current weights of all learners and reset prefix caches."""
        ...

    def agent_factories(self, step: int) -> Mapping[str, AgentFactory]:
        """Agent factories for training at a step: of every learner, and of every opponent that has weights."""
        ...

    def credit(self, played: Sequence[PlayedMatch]) -> list[CreditGroup]:
        """All groups as numbers for the estimator, with the returns of each learner's own settings."""
        ...

    async def measure(self, step: int) -> Mapping[str, Mapping[str, float]]:
        """Metrics by learner beyond those of the trials; call after a step's updates, before its end."""
        ...


class OneLearner:
    """The only learner of a run without a league."""

    names = (LEARNER,)
    leader = LEARNER

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @property
    def num_tokens(self) -> int:
        return self._parts.learner.num_tokens

    def activate(self, name: str) -> Learner:
        return self._parts.learner

    async def prepare(self, step: int) -> None:
        """Do nothing: all weights change."""

    async def publish(self, step: int) -> None:
        await self._parts.publish(step)

    def agent_factories(self, step: int) -> Mapping[str, AgentFactory]:
        return {LEARNER: self._parts.training_agent_factory(step)}

    def credit(self, played: Sequence[PlayedMatch]) -> list[CreditGroup]:
        return self._parts.credit([one.group for one in played])

    async def measure(self, step: int) -> Mapping[str, Mapping[str, float]]:
        return {}
