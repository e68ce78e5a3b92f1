"""Random behavioural strategies: probabilities from a Dirichlet distribution at every information state."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from mage.errors import ConfigError
from mage.opponents.draws import draw_seed
from mage.opponents.parameters import number
from mage.opponents.policy import Policy
from mage.seeds import stream
from mage.spec import whole
from mage.types import Observation
from mage.worlds.openspiel.game import Game


def behaviour(game: Game, seat: int, rng: random.Random, concentration: Any = 1.0, seed: Any = None) -> Policy:
    """Random odds per information state: nearly one action each for a small concentration, uniform for a large one."""
    alpha = number("concentration", concentration, 0)
    if alpha == 0:
        raise ConfigError("concentration must be a number above 0, not 0")
    chosen = draw_seed(rng) if seed is None else whole("seed", seed, 0)

    def policy(observation: Observation) -> Sequence[float]:
        return _odds(chosen, alpha, observation.key, len(observation.ids))

    return policy


@lru_cache(maxsize=65536)
def _odds(seed: int, concentration: float, key: str, num_actions: int) -> tuple[float, ...]:
    """The probabilities at one information state: a function of seed and key, independent of the order of calls."""
    rng = stream(seed, "behaviour", key)
    weights = [rng.gammavariate(concentration, 1.0) for _ in range(num_actions)]
    total = sum(weights)
    if total == 0.0:  # a tiny concentration underflows; its limit is one action with probability 1
        weights[rng.randrange(num_actions)] = total = 1.0
    return tuple(w / total for w in weights)
