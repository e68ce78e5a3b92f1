"""What a last episode can score where little crosses each boundary: one of a few words, or only the last episode.

A player is then a finite machine: by the word that it reads it plays an episode, and by what it saw it writes the next
word. With all else fixed, the best play of one episode is found exactly, because later scores are linear in the hidden
type; taking the episodes in turn never lowers the score and ends in a local optimum. So every value here is a lower
bound. The best of many seeded starts is kept.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import inf

import numpy as np

from mage.errors import InexactError
from mage.evaluation.exact.flat_tree import Array, FlatTree
from mage.evaluation.exact.planner import Belief, normalised
from mage.evaluation.exact.ties import tolerance
from mage.evaluation.exact.tree import Tree
from mage.seeds import stream

STARTS = 60
"""Starts of a search for words."""
STARTS_VERBATIM = 12
"""Starts of a search in which the last episode is kept word for word."""
PATIENCE = 4
"""Sweeps without a gain after which a search ends: words that are not in use are given a new meaning in each."""
MAX_WORDS = 64
MAX_LEAVES = 3000
"""Most leaves of an episode that is kept word for word: each of them is a word."""
_SPREAD = 0.02
"""Share of all members in the belief that gives a new word its meaning."""


class NoteSearch:
    """Searches machines for the trial of a seat against hidden members; `limit` is a last score that none exceeds."""

    def __init__(self, trees: Sequence[Tree], prior: Belief, *, limit: float = inf, seed: int = 0) -> None:
        belief = normalised(prior)
        members = sorted(belief)
        flat = {id(tree): FlatTree(tree, members) for tree in {id(tree): tree for tree in trees}.values()}
        self._trees = [flat[id(tree)] for tree in trees]
        self._prior_M: Array = np.array([belief[m] for m in members])
        self._tie = tolerance(trees)
        self._limit = limit - self._tie
        self._seed = seed

    def words(self, most: int) -> list[float]:
        """The best last scores found with 1 word, 2 words, … and `most` words at each boundary: lower bounds."""
        if not 1 <= most <= MAX_WORDS:
            raise InexactError(f"{most} words: allowed are 1 to {MAX_WORDS}")
        found: list[float] = []
        for num in range(1, most + 1):
            best = max(found, default=-inf)
            for start in range(1 if num == 1 else STARTS):
                if best >= self._limit:
                    break
                best = max(
                    best, _Search(self._trees, self._prior_M, num, self._tie).run(stream(self._seed, num, start))
                )
            found.append(best)
        return found

    def last_episode(self) -> float:
        """The best last score found where the last episode is remembered word for word and nothing else: a bound."""
        num = max(len(tree.reach_LM) for tree in self._trees)
        if num > MAX_LEAVES:
            raise InexactError(
                f"an episode has {num} ends, too many to search plays that remember one; most {MAX_LEAVES}"
            )
        best = -inf
        for start in range(STARTS_VERBATIM):
            if best < self._limit:
                best = max(
                    best, _Search(self._trees, self._prior_M, None, self._tie).run(stream(self._seed, "W", start))
                )
        return best


class _Search:
    """One search: words get a meaning by `rng`, then episodes are improved in turn, from the last to the first.

    `num_words` of None is a memory that keeps the last episode word for word: the leaf that was reached is the word.
    """

    def __init__(self, trees: Sequence[FlatTree], prior_M: Array, num_words: int | None, tie: float) -> None:
        self._trees = trees
        self._prior_M = prior_M
        self._num_words = num_words
        self._tie = tie
        sizes = [1, *(num_words or len(tree.reach_LM) for tree in trees[:-1])]
        num = len(prior_M)
        self._beliefs: list[Array] = [np.zeros((size, num)) for size in sizes]
        """By episode, (W, M): the probability of a word and a member together."""
        self._beliefs[0][0] = prior_M
        self._values: list[Array] = [np.zeros((size, num)) for size in sizes]
        """By episode, (W, M): the last score from there on."""
        self._plays: list[list[list[int]]] = [[[]] * size for size in sizes]
        """By episode and word, the leaves that the play allows."""
        self._written: list[list[Sequence[int]]] = [[()] * size for size in sizes]
        """By episode and word, the next word at each leaf."""

    def run(self, rng: random.Random) -> float:
        """The last score of the best machine of this search."""
        best, num_idle = -inf, 0
        while num_idle < PATIENCE:
            for episode in reversed(range(len(self._trees))):
                for word in range(len(self._values[episode])):
                    self._improve(episode, word, rng)
            self._send_beliefs()
            found = float(self._values[0][0] @ self._prior_M)
            num_idle = 0 if found > best + self._tie else num_idle + 1
            best = max(best, found)
        return best

    def _improve(self, episode: int, word: int, rng: random.Random) -> None:
        """The best play of an episode after a word, all else fixed; a word that is not in use gets a new meaning."""
        belief_M = self._beliefs[episode][word]
        is_used = bool(belief_M.any())
        keeps_play = not is_used and self._num_words is None and bool(self._plays[episode][word])
        if not is_used:
            belief_M = self._new_meaning(episode, word, rng)
        tree = self._trees[episode]
        if episode == len(self._trees) - 1:
            later_LM = tree.gain_LM
        else:
            written_L = self._write(episode, tree.reach_LM * belief_M, rng)
            self._written[episode][word] = written_L
            later_LM = tree.reach_LM * self._values[episode + 1][written_L]
        if not keeps_play:
            self._plays[episode][word] = tree.best_play(later_LM @ belief_M, self._tie, rng)
        self._values[episode][word] = later_LM[self._plays[episode][word]].sum(axis=0)

    def _write(self, episode: int, weighted_LM: Array, rng: random.Random) -> Sequence[int]:
        """The next word at each leaf: its own number where episodes are kept verbatim, else the word of highest value.

        The value of a word at a leaf is the expected last score after it, over the types that may have led there.
        """
        if self._num_words is None:
            return range(len(weighted_LM))
        values_LW = weighted_LM @ self._values[episode + 1].T
        is_best_LW = values_LW >= values_LW.max(axis=1, keepdims=True) - self._tie
        return [rng.choice(np.flatnonzero(row).tolist()) for row in is_best_LW]

    def _new_meaning(self, episode: int, word: int, rng: random.Random) -> Array:
        """A belief for a word that is not in use: what the leaf tells, or some members drawn at random."""
        if self._num_words is None:
            told_M: Array = self._prior_M * self._trees[episode - 1].reach_LM[word]
            noise_M: Array = np.array([rng.expovariate(1.0) for _ in told_M])
            return told_M * noise_M
        is_meant = [rng.random() < 1 / self._num_words for _ in self._prior_M]
        if not any(is_meant):
            is_meant[rng.randrange(len(is_meant))] = True
        share_M: Array = np.array(is_meant) + _SPREAD
        return self._prior_M * share_M

    def _send_beliefs(self) -> None:
        """What is known at each boundary, by the plays and words of the episodes before."""
        for episode, tree in enumerate(self._trees[:-1]):
            after_WM = np.zeros_like(self._beliefs[episode + 1])
            for word, belief_M in enumerate(self._beliefs[episode]):
                if belief_M.any():
                    allowed = self._plays[episode][word]
                    written_L = np.asarray(self._written[episode][word])
                    np.add.at(after_WM, written_L[allowed], tree.reach_LM[allowed] * belief_M)
            self._beliefs[episode + 1] = after_WM
