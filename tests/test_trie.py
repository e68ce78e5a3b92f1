"""The trie of constrained answers, and the prefix cache."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.engines.local.prefix_cache import Ids, PrefixCache
from mage.engines.trie import Trie, action_logprobs
from mage.errors import EngineError

END = 0

SHARED = 32
"""What a cache must save by a copy, unless told otherwise."""


def test_words_with_different_first_tokens_are_one_decision() -> None:
    trie = Trie([(5, 6, END), (7, END)])
    assert list(trie.decisions()) == [((), (5, 7))]
    assert trie.after(5).allowed == (6,)
    assert trie.after(5).after(6).after(END).allowed == ()


def test_where_one_action_begins_another_its_end_is_a_decision() -> None:
    bet, bet_two, bet_twenty = (5, END), (5, 8, END), (5, 8, 9, END)
    assert list(Trie([bet_twenty, bet, bet_two]).decisions()) == [((5,), (END, 8)), ((5, 8), (END, 9))]


def test_the_only_choice_is_forced_from_its_first_token() -> None:
    assert list(Trie([(5, 6, END)]).decisions()) == []


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ((), "at least one choice"),
        (((5, END), (5, END)), "must differ"),
        (((5,), (5, 6)), "one choice begins another"),
    ],
)
def test_ambiguous_choices_are_refused(choices: tuple[Ids, ...], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        Trie(choices)


def test_probabilities_multiply_along_the_trie() -> None:
    choices = [(5, END), (5, 8, END), (7, END)]
    decided = {
        (): {5: math.log(0.8), 7: math.log(0.2)},
        (5,): {END: math.log(0.25), 8: math.log(0.75)},
    }
    assert [math.exp(p) for p in action_logprobs(choices, decided)] == pytest.approx([0.2, 0.6, 0.2])


def held(cache: PrefixCache, ids: Ids) -> int:
    """Lease a slot for `ids`, read them into it and give it back."""
    lease = cache.lease(cache.match(ids))
    assert lease is not None
    cache.keep(lease.slot, ids)
    cache.release(lease.slot)
    return lease.slot


def test_a_stream_that_goes_on_takes_over_its_own_slot() -> None:
    cache = PrefixCache(4)
    slot = held(cache, (1, 2, 3))
    held(cache, (1, 2, 4))
    lease = cache.lease(cache.match((1, 2, 3, 5)))
    assert lease == (slot, 3, None)


def test_one_token_is_always_left_to_read() -> None:
    cache = PrefixCache(2)
    ids = tuple(range(SHARED + 8))
    held(cache, ids)
    assert cache.match(ids).shared == len(ids) - 1


def test_a_long_shared_opening_is_copied_to_another_slot() -> None:
    cache = PrefixCache(3)
    opening = tuple(range(SHARED))
    donor = held(cache, (*opening, 100, 101))
    lease = cache.lease(cache.match((*opening, 200, 201)))
    assert lease is not None
    assert lease.source == donor != lease.slot
    assert lease.filled == len(opening)
    short = cache.lease(cache.match((*opening[:-1], 300, 301)))
    assert short is not None
    assert (short.filled, short.source) == (0, None)


def test_the_least_recently_used_slot_is_given_up() -> None:
    cache = PrefixCache(2)
    first, second = held(cache, (1, 2)), held(cache, (3, 4))
    assert held(cache, (1, 2, 5)) == first
    assert held(cache, (6, 7)) == second
    assert cache.match((3, 4, 8)).whole == 0
    assert cache.match((1, 2, 5, 8)).whole == 3


def test_leased_slots_are_not_given_away() -> None:
    cache = PrefixCache(1)
    lease = cache.lease(cache.match((1, 2)))
    assert lease is not None
    assert cache.lease(cache.match((3, 4))) is None
    cache.release(lease.slot)
    assert cache.lease(cache.match((3, 4))) is not None


def test_after_a_reset_nothing_is_known_and_slots_come_in_order() -> None:
    cache = PrefixCache(3)
    for ids in ((1, 2), (3, 4), (5, 6), (1, 2, 7)):
        held(cache, ids)
    cache.clear()
    assert [cache.match(ids).shared for ids in ((1, 2, 9), (3, 4, 9))] == [0, 0]
    assert [held(cache, ids) for ids in ((8, 8), (9, 9))] == [0, 1]


def common(one: Ids, other: Ids) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.lists(st.integers(0, 1), min_size=1, max_size=70)), max_size=40))
def test_the_books_are_always_true(calls: list[tuple[int, list[int]]]) -> None:
    """Streams grow and fork at random; a slot is simulated as the list of ids that were really put into it."""
    cache = PrefixCache(3)
    slots: dict[int, Ids] = dict.fromkeys(range(3), ())
    known: dict[int, Ids] = {}
    streams: list[Ids] = [()] * 8
    for number, more in calls:
        ids = streams[number] + tuple(more)
        match = cache.match(ids)
        assert match.shared == max((common(h, ids[:-1]) for h in known.values()), default=0)
        lease = cache.lease(match)
        assert lease is not None
        if lease.source is not None:
            slots[lease.slot] = slots[lease.source][: lease.filled]
        assert slots[lease.slot][: lease.filled] == ids[: lease.filled]
        assert lease.filled >= min(match.shared - SHARED + 1, len(ids) - 1)
        slots[lease.slot] = known[lease.slot] = ids
        cache.keep(lease.slot, ids)
        cache.release(lease.slot)
        streams[number] = ids
