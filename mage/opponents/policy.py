"""Policies and their players: a policy is a pure function from an observation to action probabilities.

Purity makes the exact tools possible: best responses, expected values and Bayes-optimal play evaluate the same policy
at every information state. Other randomness of an opponent (a phase, a first move) is drawn once, when it is built for
a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mage.errors import PlayError
from mage.plugin_errors import as_numbers, plugin_errors, shown_value
from mage.protocols import Player
from mage.seeds import pick_index, uniform
from mage.types import AgentInfo, Observation, Reply

Policy = Callable[[Observation], Sequence[float]]
"""Probabilities aligned with `observation.ids`."""


_TOLERANCE = 1e-6
"""By how much the sum of a user's probabilities may differ from 1."""


class CheckedPolicy:
    """A user's policy: what it returns is checked, since play and exact values would go on from any numbers."""

    def __init__(self, name: str, policy: Callable[[Observation], object]) -> None:
        self._name = name
        self._policy = policy

    def __call__(self, observation: Observation) -> Sequence[float]:
        with plugin_errors(f"opponent {self._name!r}"):
            returned = self._policy(observation)
        odds, num = as_numbers(returned), len(observation.ids)
        if odds is None or len(odds) != num or not _is_distribution(odds):
            raise PlayError(
                f"opponent {self._name!r} returned {shown_value(returned)}; "
                f"allowed are {num} numbers from 0 that sum to 1, one for each action"
            )
        return odds


def _is_distribution(odds: Sequence[float]) -> bool:
    """Whether numbers are from 0 and sum to 1; comparisons with nan are false."""
    return min(odds, default=0.0) >= 0.0 and abs(sum(odds) - 1.0) <= _TOLERANCE


class PolicyPlayer:
    """Plays a policy. Moves are sampled by (episode, turn), so siblings that act alike get the same reply."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self._policy = policy
        self._seed = seed

    def odds(self, observation: Observation) -> Sequence[float]:
        """The probability of each action."""
        return self._policy(observation)

    async def act(self, observation: Observation) -> Reply:
        weights = self._policy(observation)
        if 1.0 in weights:
            index = weights.index(1.0)
        else:
            index = pick_index(weights, uniform(self._seed, observation.episode, observation.turn))
        return Reply(observation.actions[index], "", ())


class PlayerAgent:
    """Any player in the agent's seat, without reflections and token streams."""

    def __init__(self, player: Player, name: str) -> None:
        self._player = player
        self.info = AgentInfo(name, None, None)

    async def act(self, observation: Observation) -> Reply:
        return await self._player.act(observation)

    async def reflect(self, outcome: Observation) -> Reply | None:
        return None

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()


class PolicyAgent(PlayerAgent):
    """A policy in the agent's seat; its probabilities can be read."""

    def __init__(self, player: PolicyPlayer, name: str) -> None:
        super().__init__(player, name)
        self._policy_player = player

    def fork(self, number: int) -> PolicyAgent:
        """Itself: a policy is pure, so there is nothing to copy."""
        return self

    async def odds(self, observation: Observation) -> tuple[float, ...] | None:
        """The probability of each action."""
        return tuple(self._policy_player.odds(observation))

    def force_action(self, observation: Observation, action: str) -> None:
        """Does nothing: there is no memory."""


def certainly(observation: Observation, action: int) -> list[float]:
    """Probability 1 for one action id."""
    if action not in observation.ids:
        raise PlayError(f"action {action} is not legal here; legal are {list(observation.ids)}")
    return [float(i == action) for i in observation.ids]


def evenly(observation: Observation) -> list[float]:
    """The same probability for every legal action."""
    return [1.0 / len(observation.ids)] * len(observation.ids)
