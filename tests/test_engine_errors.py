"""What an engine returns is checked where it comes back: a learner would train on any numbers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from mage.errors import EngineError
from mage.protocols import Sampling
from mage.types import Completion, ReplyMode
from tests.seated import RandomEngine, make_settings
from tests.test_agent import agent_of, see


class Changing:
    """An engine that changes a field of what another one returned, or returns something else."""

    def __init__(self, **fields: Any) -> None:
        self._inner, self._fields = RandomEngine(), fields

    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, choices: Sequence[Sequence[int]] | None
    ) -> Completion:
        found = await self._inner.complete(prompt, sampling, choices)
        if "given" in self._fields:
            given: Completion = self._fields["given"]
            return given
        values = {name: make(getattr(found, name)) for name, make in self._fields.items()}
        return msgspec.structs.replace(found, **values)


CHOSEN, FREE = ReplyMode.CHOICE, ReplyMode.TEXT


@pytest.mark.parametrize(
    ("reply", "fields", "said"),
    [
        (FREE, {"given": None}, "returned None; allowed is a mage.types.Completion"),
        (FREE, {"given": "rock"}, "returned 'rock'; allowed is a mage.types.Completion"),
        (FREE, {"tokens": lambda ids: [None for _ in ids]}, "returned the tokens [None"),
        (FREE, {"logprobs": lambda found: found[:-1]}, "returned 21 log-probabilities for 22 tokens; allowed is one"),
        (CHOSEN, {"logprobs": lambda found: found[:-1]}, "returned 1 log-probabilities for 2 tokens; allowed is one"),
        (FREE, {"logprobs": lambda _: None}, "returned the log-probabilities None; allowed is a tuple of floats"),
        (
            FREE,
            {"logprobs": lambda found: tuple(map(np.float32, found))},
            "returned the log-probabilities (np.float32(",
        ),
        (CHOSEN, {"logprobs": lambda _: (0.5, 0.0)}, "returned the log-probabilities (0.5, 0.0); allowed is finite"),
        (CHOSEN, {"logprobs": lambda _: (math.nan, 0.0)}, "returned the log-probabilities (nan, 0.0); allowed is"),
        (CHOSEN, {"logprobs": lambda _: (0.0, -math.inf)}, "returned the log-probabilities (0.0, -inf); allowed is"),
        (CHOSEN, {"allowed": lambda _: None}, "returned allowed = None where choices were given; allowed is the ids"),
        (CHOSEN, {"allowed": lambda ids: (None,) * len(ids)}, "returned allowed = (None, None) where choices were"),
        (CHOSEN, {"allowed": lambda ids: ids[:-1]}, "returned allowed = ((97, 98),) where choices were given"),
        (CHOSEN, {"allowed": lambda ids: ((1, 2), *ids[1:])}, "returned allowed = ((1, 2), "),
    ],
)
def test_what_no_engine_may_return_is_refused(reply: ReplyMode, fields: dict[str, Any], said: str) -> None:
    agent = agent_of(Changing(**fields), make_settings(reply=reply))
    with pytest.raises(EngineError) as refused:
        asyncio.run(agent.act(see(0, 0, "one")))
    assert str(refused.value).startswith(f"the engine Changing {said}")


@pytest.mark.parametrize("reply", [CHOSEN, FREE])
def test_log_probabilities_may_be_rounded_above_zero_and_be_float64_of_numpy(reply: ReplyMode) -> None:
    engine = Changing(logprobs=lambda found: tuple(np.float64(1e-6) for _ in found))
    asyncio.run(agent_of(engine, make_settings(reply=reply)).act(see(0, 0, "one")))
