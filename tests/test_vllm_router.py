"""Which server a request goes to: where its beginning was read, unless that server has clearly more to do."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from mage.engines.vllm import router as router_module
from mage.engines.vllm.requests import Ids
from mage.engines.vllm.router import Router

SALT = "one publication"
MOST = 1.8
"""Requests of the busiest server by those of the least busy one."""


def ids(seed: int, num: int) -> Ids:
    draw = random.Random(seed)
    return tuple(draw.randrange(50_000) for _ in range(num))


def answered(router: Router, prompt: Ids, salt: str = SALT) -> int:
    """The server of a request that is answered before the next one is asked."""
    server = router.begin(prompt, salt)
    router.end(server)
    router.remember(server, prompt, salt)
    return server


def test_requests_without_a_known_beginning_go_to_the_least_busy_server_in_order() -> None:
    router = Router(3)
    assert [router.begin(ids(number, 40), SALT) for number in range(6)] == [0, 1, 2, 0, 1, 2]
    router.end(1)
    router.end(2)
    router.end(2)
    assert [router.begin(ids(number, 40), SALT) for number in range(3)] == [2, 1, 2]


def test_a_prompt_goes_where_most_of_it_was_read() -> None:
    router, prompt = Router(3), ids(0, 96)
    router.remember(1, prompt[:64], SALT)
    router.remember(2, prompt[:32], SALT)
    assert answered(router, prompt) == 1
    assert answered(router, prompt[:32]) == 1, "as much of it as on server 2"
    router.remember(2, (*prompt[:80], 7), SALT)
    assert answered(router, prompt + prompt) == 1, "it was remembered of the first request"
    assert answered(router, (*prompt[:80], *ids(3, 40))) == 1
    router.remember(2, (*prompt, *prompt[:16]), SALT)
    assert answered(router, prompt + prompt) == 1
    assert answered(router, (*prompt, *prompt[:16], 5)) == 1
    assert answered(router, (7, *prompt)) == 0, "nothing of it was read"


def test_what_was_read_before_a_publication_is_not_found_after_it() -> None:
    router, prompt = Router(2), ids(0, 64)
    router.remember(1, prompt, "old")
    assert router.begin(prompt, "old") == 1
    router.end(1)
    assert router.begin(prompt, "new") == 0


def test_a_server_that_has_clearly_more_to_do_gets_no_more() -> None:
    router, prompt = Router(2), ids(0, 64)
    router.remember(0, prompt, SALT)
    found = [router.begin(prompt, SALT) for _ in range(60)]
    assert found[:5] == [0] * 5
    counts = Counter(found)
    assert counts[0] <= 4 + 1.25 * counts[1] + 1
    assert counts[1] >= 20


def test_the_blocks_that_were_used_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_module, "_MOST_BLOCKS", 4)
    router, old, kept = Router(2), ids(0, 64), ids(1, 64)
    router.remember(1, old, SALT)
    router.remember(1, kept[:32], SALT)
    assert answered(router, kept) == 1
    router = Router(2)
    router.remember(1, old, SALT)
    router.remember(1, kept[:32], SALT)
    assert answered(router, old) == 1, "its first half is still there"
    router = Router(2)
    router.remember(1, old, SALT)
    router.remember(1, kept, SALT)
    assert answered(router, old) == 0
    router = Router(2)
    for used in (old[:32], kept[:32], old[:32], ids(2, 32)):
        router.remember(1, used, SALT)
    assert answered(router, kept[:32]) == 0
    assert answered(router, old[:32]) == 1


@pytest.mark.parametrize("is_known", [False, True], ids=["nothing read", "one has read the opening"])
@pytest.mark.parametrize("servers", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_trials_of_one_world_are_balanced_and_each_stays_on_its_server(servers: int, seed: int, is_known: bool) -> None:
    """64 trials that begin with the same prompt, end their requests in any order, and have three to eight turns."""
    draw, router, opening = random.Random(seed), Router(servers), ids(99, 70)
    if is_known:
        router.remember(0, opening, SALT)
    turns = [draw.randrange(3, 9) for _ in range(64)]
    prompts = [opening] * len(turns)
    asked = [[router.begin(opening, SALT)] for _ in turns]
    waiting = list(range(len(turns)))
    while waiting:
        trial = waiting.pop(draw.randrange(len(waiting)))
        server = asked[trial][-1]
        router.end(server)
        prompts[trial] += ids(1000 * trial + len(asked[trial]), 24)
        router.remember(server, prompts[trial], SALT)
        if len(asked[trial]) < turns[trial]:
            prompts[trial] += ids(trial, 8)
            asked[trial].append(router.begin(prompts[trial], SALT))
            waiting.append(trial)
        in_flight = Counter(asked[each][-1] for each in waiting)
        if len(waiting) > len(turns) / 2:
            assert max(in_flight.values()) <= MOST * min(in_flight[number] for number in range(servers)) + 5
    played = Counter(number for found in asked for number in found)
    assert max(played.values()) <= MOST * min(played.values())
    moves = sum(one != other for found in asked for one, other in pairwise(found))
    assert moves <= 0.05 * sum(played.values())
