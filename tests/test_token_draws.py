"""One number from 0 to 1 draws one token, by the distribution and by nothing else."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.engines.local.jobs import TokenRequest
from mage.engines.local.sampling import TokenSampler
from mage.seeds import pick_index


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-8, 8, width=32), min_size=2, max_size=12),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_a_draw_is_the_inverse_of_the_distribution_function(
    logits: list[float], point: float, temperature: float
) -> None:
    weights = (torch.tensor(logits, dtype=torch.float64) / temperature).softmax(0).tolist()
    edges = [sum(weights[: n + 1]) for n in range(len(weights))]
    free, bound = TokenSampler(
        torch.tensor([logits, logits]),
        [TokenRequest(None, temperature, point), TokenRequest(tuple(range(len(logits))), temperature, point)],
    ).read()
    for draw in (free, bound):
        if min(abs(point - edge) for edge in edges) > 1e-5:
            assert draw.token == pick_index(weights, point)
        assert draw.logprob == pytest.approx(math.log(weights[draw.token]), abs=1e-4)
    assert bound.logprobs == pytest.approx([math.log(w) for w in weights], abs=1e-4)


def test_what_has_no_probability_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    found = [
        TokenSampler(logits, [TokenRequest(None, 1.0, point)]).read()[0].token for point in (0.0, 0.49, 0.5, 1 - 2**-53)
    ]
    assert found == [1, 1, 3, 3]
