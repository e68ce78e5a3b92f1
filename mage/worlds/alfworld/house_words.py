"""The texts of the household: rules, goals, commands and what they tell, in ALFWorld's wording or in neutral words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import permutations

from mage.seeds import stream
from mage.worlds.alfworld.game import NONE, Command, Game, Position, Verb
from mage.worlds.alfworld.kinds import FRIDGE, HOMES, LAMP, MICROWAVE, SINK, TAKES, Can, Goal
from mage.worlds.alfworld.rules import always_possible, contents, is_accessible, possible_here
from mage.worlds.openspiel.words.base import NEUTRAL, lexicon

NOTHING_HAPPENS = "Nothing happens."
_VERBS = ("look", "inventory", "help", "go", "open", "close", "take", "move", "use", "heat", "cool", "clean", "slice")
_TERMS = (*_VERBS, "examine", "closed", "hot", "cold", "sliced")
_PATTERNS = {
    Verb.LOOK: "{look}",
    Verb.INVENTORY: "{inventory}",
    Verb.HELP: "{help}",
    Verb.GO: "{go} to {{1}}",
    Verb.OPEN: "{open} {{1}}",
    Verb.CLOSE: "{close} {{1}}",
    Verb.TAKE: "{take} {{0}} from {{1}}",
    Verb.MOVE: "{move} {{0}} to {{1}}",
    Verb.USE: "{use} {{0}}",
    Verb.HEAT: "{heat} {{0}} with {{1}}",
    Verb.COOL: "{cool} {{0}} with {{1}}",
    Verb.CLEAN: "{clean} {{0}} with {{1}}",
    Verb.SLICE: "{slice} {{0}} with {{1}}",
    Verb.EXAMINE_PLACE: "{examine} {{1}}",
    Verb.EXAMINE_THING: "{examine} {{0}}",
}
_GOALS = {
    Goal.PICK: ("put a {thing} in {place}", "put some {thing} on {place}"),
    Goal.LOOK: ("{look} at {thing} under the {place}", "{examine} the {thing} with the {place}"),
    Goal.CLEAN: ("put a {clean} {thing} in {place}", "{clean} some {thing} and put it in {place}"),
    Goal.HEAT: ("put a {hot} {thing} in {place}", "{heat} some {thing} and put it in {place}"),
    Goal.COOL: ("put a {cool} {thing} in {place}", "{cool} some {thing} and put it in {place}"),
    Goal.TWO: ("put two {thing} in {place}", "find two {thing} and put them in {place}"),
}
_HELP = (
    ("{look}:", "{look} around your current location"),
    ("{inventory}:", "check your current {inventory}"),
    ("{go} to (receptacle):", "{move} to a receptacle"),
    ("{open} (receptacle):", "{open} a receptacle"),
    ("{close} (receptacle):", "{close} a receptacle"),
    ("{take} (object) from (receptacle):", "{take} an object from a receptacle"),
    ("{move} (object) to (receptacle):", "place an object in or on a receptacle"),
    ("{examine} (something):", "{examine} a receptacle or an object"),
    ("{use} (object):", "{use} an object"),
    ("{heat} (object) with (receptacle):", "{heat} an object using a receptacle"),
    ("{clean} (object) with (receptacle):", "{clean} an object using a receptacle"),
    ("{cool} (object) with (receptacle):", "{cool} an object using a receptacle"),
    ("{slice} (object) with (object):", "{slice} an object using a sharp object"),
)
_RULES = (
    "You are in a room of a house. Its receptacles are told at the beginning, the objects in or on them only when you "
    "are there; some receptacles must be opened first. You stand at one receptacle and carry at most one object. "
    "Commands: {look}, {inventory}, {help}, {go} to RECEPTACLE, {open} RECEPTACLE, {close} RECEPTACLE, {take} OBJECT "
    "from RECEPTACLE, {move} OBJECT to RECEPTACLE, {examine} OBJECT or RECEPTACLE, {use} OBJECT, {heat} OBJECT with "
    "RECEPTACLE, {cool} OBJECT with RECEPTACLE, {clean} OBJECT with RECEPTACLE, {slice} OBJECT with OBJECT. What you "
    "carry is {hot} after {heat} with a {microwave}, {cold} after {cool} with a {fridge}, {clean} after {clean} with a "
    "{sinkbasin}. To see an object under a {desklamp}, carry it there and {use} the {desklamp}. "
)


class HouseWords:
    """Texts in the usual words, or in neutral ones."""

    def __init__(self, reworded: int | None) -> None:
        self._terms = lexicon("alfworld", _TERMS, reworded)
        self._kinds = _neutral_kinds(reworded)
        self._meant = {word: kind for kind, word in self._kinds.items()}
        self._patterns = {verb: pattern.format(**self._terms) for verb, pattern in _PATTERNS.items()}
        """By verb how a command is written, with 0 for the object and 1 for the receptacle or second object."""
        self.names = lru_cache(maxsize=4096)(self._name)
        self._always = lru_cache(maxsize=16384)(self._write_always)
        self.trial = "You play {episodes} episodes of the same game: every object is again where it was at first."
        self.reflect_request = (
            "Write a short note to yourself: where did you find which objects, where is nothing that you need, and "
            "what will you do next?"
        )

    def rules(self, turns: int, is_open: bool) -> str:
        """The rules; `is_open` where any text is a command."""
        kinds = {kind: self.kind(kind) for kind in (MICROWAVE, FRIDGE, SINK, LAMP)}
        impossible = f"A command that is not possible does nothing: {NOTHING_HAPPENS} " if is_open else ""
        return (
            _RULES.format(**self._terms, **kinds)
            + impossible
            + f"Each turn is one command; an episode has {turns} turns. With the task done it ends: +1. Otherwise: 0."
        )

    def kind(self, kind: str) -> str:
        """The word for a kind of object or receptacle."""
        return self._kinds.get(kind, kind)

    def thing(self, game: Game, thing: int) -> str:
        """The name of an object."""
        return self.names(game)[0][thing]

    def place(self, game: Game, place: int) -> str:
        """The name of a receptacle."""
        return self.names(game)[1][place]

    def _name(self, game: Game) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the objects and of the receptacles."""
        things = tuple(f"{self.kind(thing.kind)} {thing.number}" for thing in game.things)
        return things, tuple(f"{self.kind(place.kind)} {place.number}" for place in game.places)

    def goal(self, game: Game) -> str:
        """The goal in words."""
        wish = game.wish
        pattern = _GOALS[wish.goal][wish.wording]
        names = {"thing": self.kind(wish.thing), "place": self.kind(wish.place)}
        return wish.told or f"{pattern.format(**self._terms, **names)}."

    def wanted(self, game: Game) -> tuple[str, str, str]:
        """The goal as data: its kind, that of the object, and that of the receptacle or lamp."""
        return str(game.wish.goal), self.kind(game.wish.thing), self.kind(game.wish.place)

    def commands(self, game: Game, position: Position) -> dict[str, Command]:
        """The possible commands by how they are written, in alphabetical order."""
        found = [*self._always(game, position.location), *self._written(game, possible_here(game, position))]
        return dict(sorted(found))

    def _write_always(self, game: Game, location: int) -> list[tuple[str, Command]]:
        return self._written(game, always_possible(game, location))

    def _written(self, game: Game, commands: Iterable[Command]) -> list[tuple[str, Command]]:
        things, places = self.names(game)
        patterns = self._patterns
        found = []
        for command in commands:
            verb, thing, place = command
            second = things if verb is Verb.SLICE else places
            found.append((patterns[verb].format(things[thing], second[place]), command))
        return found

    def write(self, verb: Verb, thing: str = "", place: str = "") -> str:
        """A command as it is written, from names; of two objects the one that slices is the second."""
        return self._patterns[verb].format(thing, place)

    def kind_of(self, name: str) -> str:
        """The kind of the object or receptacle of a name."""
        word = name.rpartition(" ")[0]
        return self._meant.get(word, word)

    def told(self, game: Game, position: Position) -> str:
        """What a position tells: the answer to the command that led to it."""
        verb, thing, place = position.did
        if verb is Verb.START:
            return f"{self._around(game, position)}\n\nYour task is to: {self.goal(game)}"
        if verb is Verb.GO:
            return f"You arrive at {self.place(game, place)}. {self._contents(game, position, place)}"
        if verb is Verb.OPEN:
            return f"You {self._terms['open']} the {self.place(game, place)}. {self._contents(game, position, place)}"
        if verb is Verb.CLOSE:
            return f"You {self._terms['close']} the {self.place(game, place)}."
        if verb is Verb.TAKE:
            return f"You {self._picked} the {self.thing(game, thing)} from the {self.place(game, place)}."
        if verb is Verb.MOVE:
            return f"You {self._terms['move']} the {self.thing(game, thing)} to the {self.place(game, place)}."
        if verb is Verb.EXAMINE_PLACE:
            return self._contents(game, position, place)
        return self._told_else(game, position)

    def _told_else(self, game: Game, position: Position) -> str:
        verb, thing, place = position.did
        if verb in (Verb.HEAT, Verb.COOL, Verb.CLEAN):
            word = self._terms[verb.name.lower()]
            return f"You {word} the {self.thing(game, thing)} using the {self.place(game, place)}."
        if verb is Verb.SLICE:
            return f"You {self._terms['sliced']} the {self.thing(game, thing)} with the {self.thing(game, place)}."
        if verb is Verb.USE:
            return f"You turn on the {self.thing(game, thing)}."
        if verb is Verb.EXAMINE_THING:
            return self._examined(game, position, thing)
        if verb is Verb.INVENTORY:
            if position.held == NONE:
                return "You are not carrying anything."
            return f"You are carrying: a {self.thing(game, position.held)}."
        if verb is Verb.LOOK:
            return self._around(game, position)
        return self._helped() if verb is Verb.HELP else NOTHING_HAPPENS

    @property
    def _picked(self) -> str:
        """The verb of having taken, which is another one in the usual words."""
        return "pick up" if self._terms["take"] == "take" else self._terms["take"]

    def _contents(self, game: Game, position: Position, place: int) -> str:
        name = self.place(game, place)
        if not is_accessible(game, position, place):
            return f"The {name} is {self._terms['closed']}."
        things = listed(f"a {self.thing(game, thing)}" for thing in contents(position, place))
        if game.places[place].is_openable:
            return f"The {name} is {self._terms['open']}. In it, you see {things}."
        return f"On the {name}, you see {things}."

    def _around(self, game: Game, position: Position) -> str:
        """What is seen by looking: at a receptacle that one, and in the middle of the room all of them."""
        here = game.at_location.get(position.location, ())
        if here:
            beside = listed(f"a {self.thing(game, thing)}" for thing in _beside(position, here))
            facing = listed(self.place(game, place) for place in here)
            return f"You are facing the {facing}. Next to it, you see {beside}."
        is_told = position.did.verb is Verb.START or not game.is_original  # ALFWorld names no receptacle later
        places = range(len(game.places)) if is_told else ()
        seen = listed(f"a {self.place(game, place)}" for place in places)
        return f"You are in the middle of a room. Looking quickly around you, you see {seen}."

    def _examined(self, game: Game, position: Position, thing: int) -> str:
        name, terms = self.thing(game, thing), self._terms
        if game.things[thing].can & Can.HOLD:
            inside = listed(f"a {self.thing(game, other)}" for other in game.things[thing].inside)
            return f"This is a normal {name}. In it, you see {inside}."
        bit = 1 << thing
        is_sliced, is_clean = position.sliced & bit, position.clean & bit
        warmth = "hot" if position.hot & bit else "cool" if position.cool & bit else ""
        if not (warmth or is_clean or is_sliced):
            return f"There's nothing special about {name}."
        if warmth == "cool" and not is_clean and not is_sliced:
            warmth = "cold"
        states = " and ".join(terms[state] for state in (warmth, "clean" if is_clean else "") if state)
        return f"This is a {' '.join(filter(None, (states, terms['sliced'] if is_sliced else '', name)))}."

    def _helped(self) -> str:
        lines = [(left.format(**self._terms), right.format(**self._terms)) for left, right in _HELP]
        return "\n".join(["Available commands:", *(f"  {left:<33} {right}" for left, right in lines)])


def listed(names: Iterable[str]) -> str:
    """Names as a text.

    >>> listed(["a mug 1", "a pan 2"]), listed(["a mug 1"]), listed([])
    ('a mug 1, and a pan 2', 'a mug 1', 'nothing')
    """
    *first, last = [*names] or ["nothing"]
    return f"{', '.join(first)}, and {last}" if first else last


def _beside(position: Position, here: Sequence[int]) -> list[int]:
    """The objects that are told to lie beside receptacles: taken from one that is here, and put into another here."""
    there = sorted(thing for thing, location in position.located if location == position.location)
    return [thing for thing in there for place in here if (thing, place) in position.left]


def _neutral_kinds(reworded: int | None) -> Mapping[str, str]:
    """By kind a name of two neutral words in one; none in the usual words."""
    if reworded is None:
        return {}
    kinds = sorted({*HOMES, *TAKES})
    names = ["".join(pair) for pair in permutations(NEUTRAL, 2)]
    return dict(zip(kinds, stream(reworded, "words", "alfworld kinds").sample(names, len(kinds)), strict=True))
