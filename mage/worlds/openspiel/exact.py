"""The exact model of a two-player game: the policies that its opponents can draw are the hidden types."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from mage.opponents.enumerate import enumerate_policies
from mage.protocols import Branches
from mage.worlds.openspiel.game import Game
from mage.worlds.openspiel.security import check_countable
from mage.worlds.openspiel.words.base import State


class GamePosition(NamedTuple):
    """A state in an episode, and the number of the opponent's moves."""

    state: State
    episode: int
    turn: int


class OpenSpielModel:
    """The `ExactModel` of one seat of a game. An opponent's policy is drawn once for a trial."""

    def __init__(self, game: Game, members: Sequence[tuple[str, float]], seat: int) -> None:
        check_countable(game)
        self._game = game
        self._seat = seat
        drawn = [(w * p, policy) for spec, w in members for p, policy in enumerate_policies(spec, game, 1 - seat)]
        self._policies = [policy for _, policy in drawn]
        self.prior = {number: weight for number, (weight, _) in enumerate(drawn)}

    def start(self, episode: int) -> Branches[GamePosition]:
        return [(GamePosition(self._game.start(0), episode, 0), dict.fromkeys(self.prior, 1.0))]

    def forward(self, position: GamePosition, types: Collection[int]) -> Branches[GamePosition]:
        state, episode, turn = position
        if state.is_terminal():
            return ()
        if drawn := self._game.chance(state):
            return [
                (GamePosition(state.child(outcome), episode, turn), dict.fromkeys(types, chance))
                for outcome, chance in drawn
            ]
        return () if state.current_player() == self._seat else self._answers(position, types)

    def seen(self, position: GamePosition) -> tuple[bool, str]:
        state = position.state
        if state.is_terminal():
            return True, self._game.words.outcome(state, self._seat)
        return False, self._game.key(state, self._seat)

    def actions(self, position: GamePosition) -> tuple[int, ...]:
        return tuple(position.state.legal_actions())

    def after(self, position: GamePosition, action: int) -> GamePosition:
        return GamePosition(position.state.child(action), position.episode, position.turn)

    def score(self, position: GamePosition) -> float:
        return self._game.scores(position.state)[self._seat]

    def _answers(self, position: GamePosition, types: Collection[int]) -> Branches[GamePosition]:
        """The position after each move that one of the policies makes, with its probability by policy."""
        state, episode, turn = position
        observation = self._game.observe(state, 1 - self._seat, episode, turn)
        answers: dict[int, dict[int, float]] = {action: {} for action in observation.ids}
        for number in types:
            for action, probability in zip(observation.ids, self._policies[number](observation), strict=True):
                if probability > 0:
                    answers[action][number] = probability
        return [
            (GamePosition(state.child(action), episode, turn + 1), chances)
            for action, chances in answers.items()
            if chances
        ]
