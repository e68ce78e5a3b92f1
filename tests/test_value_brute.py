"""Values of one-move tables against an enumeration of all policies in exact fractions, written down independently."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import NamedTuple, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage.evaluation.exact.myopic import MyopicPlanner
from mage.evaluation.exact.notes import NoteSearch
from mage.evaluation.exact.planner import Planner, best_value, informed_value
from mage.evaluation.exact.pool import DRAWN, load_pool
from mage.evaluation.value.objective_weights import SINGLE, objectives

Vector: TypeAlias = tuple[Fraction, ...]
"""Expected scores by episode."""


class Table(NamedTuple):
    """What each action pays and tells, by type; whole numbers."""

    weights: tuple[int, ...]
    pay: tuple[tuple[int, ...], ...]
    told: tuple[tuple[int, ...], ...]

    @property
    def spec(self) -> str:
        """The same as a world."""
        names = [f"a{number}" for number in range(len(self.pay))], [f"t{number}" for number in range(len(self.weights))]
        actions, types = (f"[{','.join(listed)}]" for listed in names)
        pay = ",".join(f"[{','.join(map(str, row))}]" for row in self.pay)
        told = ",".join(f"[{','.join(f'n{cell}' for cell in row)}]" for row in self.told)
        prior = ",".join(map(str, self.weights))
        return f"hidden(actions={actions},types={types},prior=[{prior}],pay=[{pay}],told=[{told}])"

    @property
    def odds(self) -> list[Fraction]:
        return [Fraction(weight, sum(self.weights)) for weight in self.weights]

    def outcomes(self, action: int, odds: Sequence[Fraction]) -> dict[tuple[int, int], list[Fraction]]:
        """By what is seen, score and words, the odds of the types together with it."""
        found: dict[tuple[int, int], list[Fraction]] = {}
        for kind, odd in enumerate(odds):
            if odd:
                seen = self.pay[action][kind], self.told[action][kind]
                found.setdefault(seen, [Fraction(0)] * len(odds))[kind] = odd
        return found

    def score(self, action: int, odds: Sequence[Fraction]) -> Fraction:
        return sum((odd * self.pay[action][kind] for kind, odd in enumerate(odds)), Fraction(0))


DOORS = Table((1, 1, 1), ((2, 0, 0), (0, 2, 0), (0, 0, 2), (1, 1, 1)), ((0,) * 3,) * 4)
"""With all scores doubled."""


def policies(table: Table, odds: Sequence[Fraction], episodes: int) -> set[Vector]:
    """The scores of all policies that remember everything, times the odds."""
    if episodes == 0:
        return {()}
    found: set[Vector] = set()
    for action in range(len(table.pay)):
        later = [policies(table, joint, episodes - 1) for joint in table.outcomes(action, odds).values()]
        for chosen in product(*later):
            rest = [sum(column, Fraction(0)) for column in zip(*chosen, strict=True)]
            found.add((table.score(action, odds), *rest))
    return found


def best_policy(found: set[Vector], weights: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
    """The last score and the sum of the best: by the weighted sum, then by the last score, then by the sum."""

    def rank(scores: Vector) -> tuple[Fraction, Fraction, Fraction]:
        weighted = sum((w * s for w, s in zip(weights, scores, strict=True)), Fraction(0))
        return weighted, scores[-1], sum(scores, Fraction(0))

    _, last, total = max(map(rank, found))
    return last, total


def myopic_vectors(table: Table, odds: Sequence[Fraction], episodes: int) -> set[Vector]:
    """The scores of all policies that are best for each episode, given what was seen."""
    if episodes == 0:
        return {()}
    scores = [table.score(action, odds) for action in range(len(table.pay))]
    found: set[Vector] = set()
    for action in range(len(table.pay)):
        if scores[action] == max(scores):
            later = [myopic_vectors(table, joint, episodes - 1) for joint in table.outcomes(action, odds).values()]
            for chosen in product(*later):
                found.add((scores[action], *(sum(column, Fraction(0)) for column in zip(*chosen, strict=True))))
    return found


Memory: TypeAlias = Callable[[int, tuple[int, int]], Sequence[Hashable]]
"""Which words may be written after an action and what was seen."""
Beliefs: TypeAlias = Mapping[Hashable, Sequence[Fraction]]


def machines(table: Table, beliefs: Beliefs, episodes: int, words: Memory) -> Fraction:
    """The best last score of all machines that read a word, act, and write a word; `beliefs` are odds by word."""
    num = range(len(table.pay))
    if episodes == 1:
        return sum((max(table.score(action, odds) for action in num) for odds in beliefs.values()), Fraction(0))
    return max(machines(table, after, episodes - 1, words) for after in _written(table, beliefs, words))


def _written(table: Table, beliefs: Beliefs, words: Memory) -> Iterator[Beliefs]:
    """The beliefs after an episode, for every choice of an action after each word and of the words that are written."""
    options = []
    for odds in beliefs.values():
        mine = []
        for action in range(len(table.pay)):
            seen = table.outcomes(action, odds)
            for written in product(*(words(action, told) for told in seen)):
                mine.append(list(zip(written, seen.values(), strict=True)))
        options.append(mine)
    for choice in product(*options):
        after: dict[Hashable, list[Fraction]] = {}
        for word, joint in (pair for sent in choice for pair in sent):
            before = after.get(word, [Fraction(0)] * len(joint))
            after[word] = [a + b for a, b in zip(before, joint, strict=True)]
        yield after


@st.composite
def tables(draw: st.DrawFn, types: int) -> Table:
    """Random tables of three actions."""

    def rows(high: int) -> tuple[tuple[int, ...], ...]:
        cells = st.tuples(*[st.integers(0, high)] * types)
        return tuple(draw(cells) for _ in range(3))

    return Table(draw(st.tuples(*[st.integers(1, 3)] * types)), rows(3), rows(1))


def check(table: Table, episodes: int) -> None:
    """Compare M, G, B, C, L, D, F, R(2) and W with the enumeration."""
    pool = load_pool(table.spec, DRAWN, 0)
    trees = pool.trees(episodes)
    found = policies(table, table.odds, episodes)
    gamma = Fraction(3, 5)
    powers = [gamma**k for k in range(episodes)]
    expected = {
        "cumulative": powers,
        "sum": [Fraction(1)] * episodes,
        "differential": [*((1 - gamma) * power for power in powers[:-1]), powers[-1]],
        "final": [*[Fraction(0)] * (episodes - 1), Fraction(1)],
    }
    for objective in objectives(0.6):
        if objective.name != SINGLE:
            scores = Planner(trees, pool.prior, objective.weights(episodes)).trial_scores()
            best = best_policy(found, expected[objective.name])
            assert (scores[-1], sum(scores)) == pytest.approx(tuple(map(float, best)), abs=1e-9), objective.name
    myopic = MyopicPlanner(trees, pool.prior).trial_scores()
    vectors = myopic_vectors(table, table.odds, episodes)
    assert myopic.low[-1] == pytest.approx(float(min(scores[-1] for scores in vectors)), abs=1e-9)
    high = max((scores[-1], sum(scores, Fraction(0))) for scores in vectors)
    assert (myopic.high[-1], sum(myopic.high)) == pytest.approx(tuple(map(float, high)), abs=1e-9)
    assert best_value(trees[0], pool.prior) == pytest.approx(float(max(v[0] for v in found)), abs=1e-9)
    told = sum((odd * max(row[kind] for row in table.pay) for kind, odd in enumerate(table.odds)), Fraction(0))
    assert informed_value(trees[0], pool.prior) == pytest.approx(float(told), abs=1e-9)
    notes = NoteSearch(trees, pool.prior)
    two = machines(table, {0: table.odds}, episodes, lambda *_: (0, 1))
    assert notes.words(2)[-1] == pytest.approx(float(two), abs=1e-9)
    verbatim = machines(table, {0: table.odds}, episodes, lambda *episode: (episode,))
    assert notes.last_episode() == pytest.approx(float(verbatim), abs=1e-9)


def test_doors_agree_with_an_enumeration_of_all_policies() -> None:
    check(DOORS, 3)


@settings(max_examples=25, deadline=None)
@given(tables(2))
def test_random_tables_of_two_types_agree_over_three_episodes(table: Table) -> None:
    check(table, 3)


@settings(max_examples=25, deadline=None)
@given(tables(3))
def test_random_tables_of_three_types_agree_over_two_episodes(table: Table) -> None:
    check(table, 2)
