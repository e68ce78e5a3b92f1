"""The `Words` protocol, by which a game is shown as text, and neutral renaming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from mage.errors import ConfigError
from mage.seeds import stream
from mage.spec import show
from mage.types import Fact

State = Any
"""A `pyspiel.State`; OpenSpiel ships no types."""

# fmt: off
NEUTRAL = (
    "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "haven",
    "iris", "jade", "kelp", "lotus", "maple", "north", "opal", "pearl",
    "quartz", "raven", "slate", "topaz", "umber", "vale", "willow", "zinc",
)
# fmt: on
"""Neutral names for reworded games."""


class Words(Protocol):
    """The texts of one game. Rules and chance are OpenSpiel's."""

    def rules(self, seat: int) -> str:
        """The rules as told to a seat, once per trial."""

    def observe(self, state: State, seat: int) -> str:
        """What the seat sees now, in a few short lines. It may rely on its earlier turns of the same episode;
        legal actions are listed elsewhere."""

    def action(self, state: State, seat: int, action: int) -> str:
        """The name of a legal action; distinct among the legal actions of a state."""

    def outcome(self, state: State, seat: int) -> str:
        """The text for a seat when the episode is over; hidden information stays hidden."""

    def facts(self, state: State, seat: int | None) -> Mapping[str, Fact]:
        """The facts known to a seat, as data; all facts for None."""


@runtime_checkable
class NamesSuccess(Protocol):
    """Words of a game that may name the score of a success, because a positive one is none."""

    success_score: float | None


def lexicon(game: str, terms: Sequence[str], reworded: int | None) -> Mapping[str, str]:
    """The name of each term of a game: unchanged, or a neutral name chosen by the seed `reworded`.

    >>> lexicon("rps", ["rock", "paper"], None)
    {'rock': 'rock', 'paper': 'paper'}
    >>> sorted(lexicon("rps", ["rock", "paper"], 7)) == ["paper", "rock"]
    True
    """
    if reworded is None:
        return {term: term for term in terms}
    if type(reworded) is not int:
        raise ConfigError(f"reworded must be a whole number, the seed of the new words, not {show(reworded)}")
    if len(terms) > len(NEUTRAL):
        raise ConfigError(f"cannot reword {len(terms)} terms of {game}; at most {len(NEUTRAL)} have neutral names")
    return dict(zip(terms, stream(reworded, "words", game).sample(NEUTRAL, len(terms)), strict=True))


def signed(value: float) -> str:
    """A score with its sign, rounded to two digits.

    >>> signed(1.0), signed(-0.5), signed(0.0), signed(1 / 3)
    ('+1', '-0.5', '0', '+0.33')
    """
    return f"{value:+.2f}".rstrip("0").rstrip(".") if round(value, 2) else "0"
