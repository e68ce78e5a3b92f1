"""The agents that a command names: who they are, checked against a game, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage.commands.means import Means, say_where_the_key_goes
from mage.evaluate.nashconv import Named
from mage.evaluate.subject import BAYES, PlayerSubject, Subject
from mage.games.openspiel import Game
from mage.games.world import OpenSpielWorld
from mage.players.table import OPPONENTS, TALKERS, check_opponent


def subjects_of(agents: Sequence[str], values: Mapping[str, object], game: Game, means: Means) -> list[Subject]:
    """Who is named, checked against the game; settings of models are kept from players, who have none."""
    say_where_the_key_goes(agents)
    subjects = []
    for agent in agents:
        own = {key: v for key, v in values.items() if not (_is_player(agent) and key.startswith("agent."))}
        subject = means.subject(agent, own)
        if isinstance(subject, PlayerSubject):
            for seat in range(game.num_seats):
                check_opponent(subject.name, game, seat)
        subjects.append(subject)
    return subjects


def named(texts: Sequence[str], subjects: Sequence[Subject]) -> list[Named]:
    """Agents by their names, or as they were given where two have the same."""
    world = OpenSpielWorld()
    names = [subject.name for subject in subjects]
    shown_names = [t if names.count(name) > 1 else name for t, name in zip(texts, names, strict=True)]
    return [(name, subject.seating(world)) for name, subject in zip(shown_names, subjects, strict=True)]


def _is_player(agent: str) -> bool:
    """Whether it is a player without a model, as far as its name says."""
    names = {BAYES, *OPPONENTS} - set(TALKERS)
    return any(agent == name or agent.startswith((f"{name}:", f"{name}(")) for name in names)
