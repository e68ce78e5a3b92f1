"""What the engine in this process refuses to answer, and to be."""

from __future__ import annotations

import math

import pytest

from mage.engines.local.engine import LocalEngine
from mage.errors import ConfigError, EngineError
from mage.protocols import Sampling
from tests.engine_made import Ids, nano, run


@pytest.mark.parametrize(
    ("prompt", "sampling", "options", "message"),
    [
        ((), Sampling(1.0, 4, 0), None, "prompt is empty"),
        ((5,) * 125, Sampling(1.0, 4, 0), None, "125 tokens and an answer of 4 do not fit the engine's 128"),
        ((5,), Sampling(-1.0, 4, 0), None, "temperature must be 0 or more, not -1.0"),
        ((5,), Sampling(math.nan, 4, 0), None, "temperature must be 0 or more"),
        ((5,), Sampling(1.0, 0, 0), None, "max_tokens is 0"),
        ((5,), Sampling(1.0, 2, 0), [(7, 8, 2), (9, 2)], "max_tokens is 2, but the longest answer has 3 tokens"),
        ((5,), Sampling(1.0, 4, 0), [], "at least one choice"),
        ((5,), Sampling(1.0, 4, 0), [(7, 2), (7, 2)], "choices must differ"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    prompt: Ids, sampling: Sampling, options: list[Ids] | None, message: str
) -> None:
    with pytest.raises(EngineError, match=message):
        run(LocalEngine(nano(), slots=2, length=128).complete(prompt, sampling, options))


def test_an_engine_needs_room() -> None:
    with pytest.raises(ConfigError, match="room for 16 tokens at least, not 8"):
        LocalEngine(nano(), length=8)
    with pytest.raises(ConfigError, match="one slot at least, not 0"):
        LocalEngine(nano(), slots=0)
    assert LocalEngine(nano()).length == 1024
