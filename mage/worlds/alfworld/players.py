"""Scripted players of the household: they go where a thing they need is known to be, or else look for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mage.errors import PlayError
from mage.seeds import stream
from mage.types import AgentInfo, Fact, Observation, Reply
from mage.worlds.alfworld.game import Game, Verb
from mage.worlds.alfworld.house_words import HouseWords
from mage.worlds.alfworld.kinds import HOMES, STATION, Goal
from mage.worlds.alfworld.rules import contents, start_of

Known = Mapping[str, tuple[str, ...]]
"""By receptacle the objects that lie in or on it at the beginning of an episode."""

_TREATMENTS = {
    Goal.CLEAN: (Verb.CLEAN, "clean"),
    Goal.HEAT: (Verb.HEAT, "hot"),
    Goal.COOL: (Verb.COOL, "cool"),
}


class Place(NamedTuple):
    """A receptacle as a player knows it."""

    name: str
    kind: str
    is_closed: bool
    inside: tuple[str, ...] | None
    """None where it is not known."""


class View(NamedTuple):
    """What a player knows when it must act; kinds are in the usual words."""

    goal: Goal
    thing: str
    """The kind of the wanted object."""
    place: str
    """The kind of the wanted receptacle, or of the lamp."""
    places: Mapping[str, Place]
    at: Sequence[str]
    holding: str
    states: frozenset[tuple[str, str]]


class Searcher:
    """Goes straight to what it knows, and else looks into receptacles that it does not know yet.

    It knows what was shown in this episode, what it remembers of earlier ones, and what it is told in `known`.
    """

    def __init__(
        self,
        name: str,
        words: HouseWords,
        seed: int,
        *,
        knows_homes: bool = True,
        remembers: bool = True,
        known: Known | None = None,
    ) -> None:
        self.info = AgentInfo(name, None, None)
        self._words = words
        self._seed = seed
        self._knows_homes = knows_homes
        """Whether it looks first where things of the kind may lie, and where nothing must be opened; else anywhere."""
        self._remembers = remembers
        self._episode = 0
        self._first: dict[str, tuple[str, ...]] = dict(known or {})
        """What lay in receptacles when they were first seen."""

    async def act(self, observation: Observation) -> Reply:
        return Reply(self.choose(observation.facts, observation.episode, observation.turn), "", ())

    async def reflect(self, outcome: Observation) -> Reply | None:
        self._learn(outcome.facts)
        return None

    def memory(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        return (), ()

    def choose(self, facts: Mapping[str, Fact], episode: int, turn: int) -> str:
        """The next command."""
        if episode != self._episode:
            self._episode = episode
            if not self._remembers:
                self._first.clear()
        self._learn(facts)
        view = self._view(facts)
        rng = stream(self._seed, "household search", episode, turn)

        def order(places: list[Place], kind: str) -> list[Place]:
            rng.shuffle(places)
            return sorted(places, key=lambda place: _effort(view, place, kind)) if self._knows_homes else places

        return _next(view, self._words, order)

    def _learn(self, facts: Mapping[str, Any]) -> None:
        """Remember what lay in receptacles that are seen for the first time."""
        for name, _, inside in facts.get("places", ()):
            if inside is not None and name not in self._first:
                self._first[name] = _names(inside)

    def _view(self, facts: Mapping[str, Any]) -> View:
        kind_of = self._words.kind_of
        seen = {name: _names(inside) for name, _, inside in facts["places"] if inside is not None}
        elsewhere = {thing for things in seen.values() for thing in things} | {facts["holding"]}
        places = {}
        for name, state, _ in facts["places"]:
            inside = seen.get(name)
            if inside is None and name in self._first:
                inside = tuple(thing for thing in self._first[name] if thing not in elsewhere)
            places[name] = Place(name, kind_of(name), state == "closed", inside)
        goal, thing, place = facts["goal"]
        at, states = _names(facts["at"]), frozenset(map(tuple, facts["states"]))
        return View(Goal(goal), kind_of(f"{thing} 0"), kind_of(f"{place} 0"), places, at, facts["holding"], states)


class Oracle(Searcher):
    """Knows what is hidden in a game, and goes straight there."""

    def __init__(self, game: Game, words: HouseWords) -> None:
        begin = start_of(game)
        things, places = words.names(game)
        known = {name: tuple(things[thing] for thing in contents(begin, n)) for n, name in enumerate(places)}
        super().__init__("oracle", words, 0, known=known)
        self._level = game.level
        self._told = (words.goal(game), *places)

    async def act(self, observation: Observation) -> Reply:
        facts: Mapping[str, Any] = observation.facts
        if (facts["task"], *(name for name, *_ in facts["places"])) != self._told:
            raise PlayError(f"the oracle knows the game {self._level}, and this is another; its task needs a level")
        return await super().act(observation)


Order = Callable[[list[Place], str], list[Place]]
"""Puts receptacles in the order in which a thing of a kind is looked for."""


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", ")) if text else ()


def _next(view: View, words: HouseWords, order: Order) -> str:
    """The next command of one who goes straight to what is known."""
    if view.holding and words.kind_of(view.holding) != view.thing:
        return _put_down(view, words)
    if not view.holding:
        return _fetch(view, words, order)
    if view.goal is Goal.LOOK:
        return _use_lamp(view, words, order)
    if view.goal in _TREATMENTS:
        verb, state = _TREATMENTS[view.goal]
        station = [place for place in view.places.values() if place.kind == STATION[view.goal]]
        if (view.holding, state) not in view.states and station:
            return _at(view, words, station[0]) or words.write(verb, view.holding, station[0].name)
    return _put(view, words, _target(view, words))


def _target(view: View, words: HouseWords) -> Place:
    """The receptacle to bring the thing to: one that has one of its kind where two are wanted, else the nearest."""
    fitting = [place for place in view.places.values() if place.kind == view.place]
    return min(fitting, key=lambda p: (-_num_wanted(view, words, p), p.name not in view.at, p.is_closed))


def _num_wanted(view: View, words: HouseWords, place: Place) -> int:
    if view.goal is not Goal.TWO:
        return 0
    return sum(words.kind_of(thing) == view.thing for thing in place.inside or ())


def _fetch(view: View, words: HouseWords, order: Order) -> str:
    """Take a wanted thing that is not yet where it belongs, or look for one."""
    done = _target(view, words).name if view.goal is Goal.TWO else ""
    found = [
        (place, thing)
        for place in view.places.values()
        for thing in place.inside or ()
        if words.kind_of(thing) == view.thing and place.name != done
    ]
    if not found:
        return _search(view, words, order, view.thing)
    place, thing = min(found, key=lambda each: _effort(view, each[0], view.thing))
    return _reach(view, words, place) or words.write(Verb.TAKE, thing, place.name)


def _use_lamp(view: View, words: HouseWords, order: Order) -> str:
    lamps = [
        (place, thing)
        for place in view.places.values()
        for thing in place.inside or ()
        if words.kind_of(thing) == view.place
    ]
    if not lamps:
        return _search(view, words, order, view.place)
    place, lamp = min(lamps, key=lambda each: _effort(view, each[0], view.place))
    return _reach(view, words, place) or words.write(Verb.USE, lamp)


def _search(view: View, words: HouseWords, order: Order, kind: str) -> str:
    """Look into a receptacle that is not known; where all are, look around."""
    unknown = [place for place in view.places.values() if place.inside is None]
    at_hand = [place for place in unknown if place.name in view.at and place.is_closed]
    for place in at_hand or order(unknown, kind):
        return _reach(view, words, place) or words.write(Verb.EXAMINE_PLACE, place=place.name)
    return words.write(Verb.LOOK)


def _put(view: View, words: HouseWords, place: Place) -> str:
    return _reach(view, words, place) or words.write(Verb.MOVE, view.holding, place.name)


def _put_down(view: View, words: HouseWords) -> str:
    """Put down what is not wanted."""
    homes = HOMES.get(words.kind_of(view.holding), frozenset())
    fitting = [place for place in view.places.values() if place.kind in homes] or list(view.places.values())
    return _put(view, words, min(fitting, key=lambda place: _effort(view, place, words.kind_of(view.holding))))


def _at(view: View, words: HouseWords, place: Place) -> str:
    """The command that goes to a receptacle; empty where the player stands at it."""
    return "" if place.name in view.at else words.write(Verb.GO, place=place.name)


def _reach(view: View, words: HouseWords, place: Place) -> str:
    """The command that goes to a receptacle or opens it; empty where its contents can be reached."""
    return _at(view, words, place) or (words.write(Verb.OPEN, place=place.name) if place.is_closed else "")


def _effort(view: View, place: Place, kind: str) -> tuple[bool, bool, bool]:
    """What comes first: receptacles where things of the kind may lie, those at hand, those that are open."""
    homes = HOMES.get(kind, frozenset())
    return place.kind not in homes, place.name not in view.at, place.is_closed
