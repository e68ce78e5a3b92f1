"""Constrained answers as a trie of token ids: which ids are allowed next, and which are forced.

The probability of an action is the product along the trie; engine, learner and exact tools all use this definition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mage.errors import EngineError

Ids = tuple[int, ...]


class Trie:
    """The choices left after some ids. A trie without children is the end of a choice.

    >>> trie = Trie([(5, 0), (5, 7, 0), (6, 0)])
    >>> trie.allowed, trie.after(5).allowed, trie.after(6).allowed
    ((5, 6), (0, 7), (0,))
    """

    __slots__ = ("_children", "allowed")

    def __init__(self, choices: Sequence[Ids]) -> None:
        if not choices:
            raise EngineError("a constrained answer needs at least one choice")
        if len(set(choices)) < len(choices):
            raise EngineError(f"choices must differ, not {list(choices)}")
        self._children: Mapping[int, Trie] = _children(choices)
        self.allowed: Ids = tuple(sorted(self._children))
        """Ids that may come next, ascending; a single id is forced."""

    def after(self, token: int) -> Trie:
        """The trie after `token`."""
        return self._children[token]

    def decisions(self, path: Ids = ()) -> Iterator[tuple[Ids, Ids]]:
        """Every node with more than one allowed id: the ids that lead to it, and the ids allowed."""
        if len(self.allowed) > 1:
            yield path, self.allowed
        for token in self.allowed:
            yield from self._children[token].decisions((*path, token))


def _children(choices: Sequence[Ids]) -> Mapping[int, Trie]:
    if choices == [()]:
        return {}
    rest: dict[int, list[Ids]] = {}
    for choice in choices:
        if not choice:
            raise EngineError("one choice begins another; each must finish with the id that ends a turn")
        rest.setdefault(choice[0], []).append(choice[1:])
    return {token: Trie(tails) for token, tails in rest.items()}


def action_logprobs(choices: Sequence[Ids], decided: Mapping[Ids, Mapping[int, float]]) -> tuple[float, ...]:
    """The log-probability of each choice, from log-probabilities by decision, keyed by the ids that lead to it.

    >>> action_logprobs([(5, 0), (5, 7, 0)], {(5,): {0: -0.5, 7: -1.0}})
    (-0.5, -1.0)
    """
    return tuple(
        sum(decided[choice[:at]][token] for at, token in enumerate(choice) if choice[:at] in decided)
        for choice in choices
    )
