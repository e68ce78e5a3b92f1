"""Words for any OpenSpiel game nobody wrote words for: OpenSpiel's own strings, framed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mage.games.words.base import State, signed
from mage.types import Fact


class GenericWords:
    """Observation and action strings as OpenSpiel prints them."""

    def __init__(self, game: Any) -> None:
        kind = game.get_type()
        self.name = kind.long_name
        self.num_seats = game.num_players()
        self.hidden = kind.information == kind.Information.IMPERFECT_INFORMATION
        self.has_information = kind.provides_information_state_string
        self.has_observation = kind.provides_observation_string

    def rules(self, seat: int) -> str:
        others = f"one of {self.num_seats} players" if self.num_seats > 1 else "the only player"
        return f"The game is {self.name}. You are player {seat}, {others}. Higher scores are better."

    def observe(self, state: State, seat: int) -> str:
        # The information state also holds what a seat saw earlier in the episode, so prefer it where cards hide.
        if self.has_information and (self.hidden or not self.has_observation):
            return str(state.information_state_string(seat)).rstrip()
        return str(state.observation_string(seat)).rstrip()

    def action(self, state: State, seat: int, action: int) -> str:
        return str(state.action_to_string(seat, action))

    def outcome(self, state: State, seat: int) -> str:
        return f"{self.observe(state, seat)}\nYour score: {signed(state.returns()[seat])}."

    def facts(self, state: State, seat: int | None) -> Mapping[str, Fact]:
        if seat is None:
            return {"state": str(state)}
        return {}
