"""Default words of OpenSpiel games: OpenSpiel's own strings with a frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mage.types import Fact
from mage.worlds.openspiel.words.base import State, signed


class GenericWords:
    """Observation and action strings as OpenSpiel prints them."""

    def __init__(self, game: Any) -> None:
        kind = game.get_type()
        self.name = kind.long_name
        self.num_seats = game.num_players()
        self.bounds = (game.min_utility(), game.max_utility())
        self.in_turn = kind.dynamics == kind.Dynamics.SEQUENTIAL
        self.hidden = kind.information == kind.Information.IMPERFECT_INFORMATION
        # The information state also holds earlier observations of the episode, so it is used with hidden information.
        self.shows_information = kind.provides_information_state_string and (
            self.hidden or not kind.provides_observation_string
        )

    def rules(self, seat: int) -> str:
        others = f"one of {self.num_seats} players" if self.num_seats > 1 else "the only player"
        low, high = map(signed, self.bounds)
        return f"The game is {self.name}. You are player {seat}, {others}. Scores go from {low} to {high}."

    def observe(self, state: State, seat: int) -> str:
        seen = state.information_state_string(seat) if self.shows_information else state.observation_string(seat)
        # OpenSpiel's turn-based view of simultaneous moves begins with a line that names the player to move.
        shown = str(seen if self.in_turn else seen.partition("\n")[2]).rstrip()
        return shown or "Nothing has happened yet."

    def action(self, state: State, seat: int, action: int) -> str:
        return " ".join(state.action_to_string(seat, action).split())

    def outcome(self, state: State, seat: int) -> str:
        score = f"Your score: {signed(state.returns()[seat])}."
        seen = self.observe(state, seat)
        # Some card games reveal all cards at the end, also those that were never shown.
        reveals_all = self.hidden and self.num_seats > 1 and seen == str(state).rstrip()
        return score if reveals_all else f"{seen}\n{score}"

    def facts(self, state: State, seat: int | None) -> Mapping[str, Fact]:
        return {"state": str(state)} if seat is None else {}
