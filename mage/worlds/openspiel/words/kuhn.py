"""Words for Kuhn poker with two or more players."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.types import Fact
from mage.worlds.openspiel.words.base import State, lexicon, signed

PASS, BET = 0, 1
_RANKS = ("three", "four", "five", "six", "seven", "eight", "nine", "ten", "jack", "queen", "king")

MAX_SEATS = len(_RANKS) - 1


class KuhnWords:
    """Cards are numbered from the lowest; one card more than there are players."""

    def __init__(self, num_seats: int, reworded: int | None) -> None:
        self.num_seats = num_seats
        cards = _RANKS[-num_seats - 1 :]
        shown = lexicon("kuhn_poker", ["Kuhn poker", *cards, "pass", "bet"], reworded)
        self.title = shown["Kuhn poker"]
        self.cards = [shown[c] for c in cards]
        self.moves = [shown["pass"], shown["bet"]]
        self.card, self.chip = ("card", "chip") if reworded is None else ("tile", "point")

    def rules(self, seat: int) -> str:
        check, bet = self.moves
        if self.num_seats == 2:
            others, place, answer = "one opponent", f"You act {('first', 'second')[seat]}", "the other player answers"
        else:
            others = f"{self.num_seats - 1} opponents"
            place = f"Players act in turn; you are player {seat + 1} of {self.num_seats}"
            answer = "each other player answers"
        return (
            f"The game is {self.title}, against {others}. Each player puts in 1 {self.chip} and gets one hidden "
            f"{self.card}. {self.card.capitalize()}s, best first: {', '.join(reversed(self.cards))}. {place}. "
            f"Choose {bet} to put in 1 more {self.chip}, or {check} to put in none. After the first {bet} {answer} "
            f"once: {bet} to stay in, or {check} to give up. Of those still in, the best {self.card} wins all "
            f"{self.chip}s. Your score is the {self.chip}s you win or lose."
        )

    def observe(self, state: State, seat: int) -> str:
        held, betting = _read(state, self.num_seats)
        lines = [f"Your {self.card}: {self.cards[held[seat]]}."] if seat < len(held) else []
        lines.append(f"So far: {self._betting(betting, seat)}." if betting else "Nobody has acted yet.")
        return "\n".join(lines)

    def action(self, state: State, seat: int, action: int) -> str:
        return self.moves[action]

    def outcome(self, state: State, seat: int) -> str:
        held, betting = _read(state, self.num_seats)
        staying = showdown(betting, self.num_seats)
        lines = [f"Your {self.card}: {self.cards[held[seat]]}.", f"Play: {self._betting(betting, seat)}."]
        if len(staying) > 1:
            shown = ", ".join(f"{self._who(s, seat)} {self.cards[held[s]]}" for s in staying)
            lines.append(f"Shown: {shown}.")
        lines.append(f"Your score: {signed(state.returns()[seat])}.")
        return "\n".join(lines)

    def facts(self, state: State, seat: int | None) -> Mapping[str, Fact]:
        held, betting = _read(state, self.num_seats)
        if seat is None:
            return {"cards": tuple(held), "betting": tuple(betting)}
        return {"card": held[seat] if seat < len(held) else None, "betting": tuple(betting)}

    def _betting(self, betting: Sequence[int], seat: int) -> str:
        acts = [f"{self._who(i % self.num_seats, seat)} {self.moves[a]}" for i, a in enumerate(betting)]
        return ", ".join(acts)

    def _who(self, other: int, seat: int) -> str:
        if other == seat:
            return "you"
        return "opponent" if self.num_seats == 2 else f"player {other + 1}"


def showdown(betting: Sequence[int], num_seats: int) -> list[int]:
    """The seats still in at the end: all if there was no bet, else those that bet.

    >>> showdown([0, 1, 0], 2), showdown([0, 0], 2), showdown([1, 1], 2)
    ([1], [0, 1], [0, 1])
    """
    if BET not in betting:
        return list(range(num_seats))
    return sorted({i % num_seats for i, act in enumerate(betting) if act == BET})


def _read(state: State, num_seats: int) -> tuple[list[int], list[int]]:
    """Cards dealt so far by seat, and the betting."""
    history = state.history()
    return history[:num_seats], history[num_seats:]
