"""The rules of the household: which commands are possible in a position, and what they do.

They are those of ALFWorld's domain with its 15 actions. A command that is not possible changes nothing.
"""

from __future__ import annotations

from mage.worlds.alfworld.game import HELP, INVENTORY, LOOK, NONE, Command, Game, Position, Verb
from mage.worlds.alfworld.kinds import FRIDGE, MICROWAVE, SINK, Can, Goal


def start_of(game: Game) -> Position:
    """The position in which every episode begins."""
    begin = game.start
    clean, hot, cool, used, sliced = begin.states
    position = Position(
        begin.where, begin.location, NONE, begin.opened, 0, clean, hot, cool, used, sliced, begin.located
    )
    return position._replace(is_done=_reaches_goal(game, position))


def is_accessible(game: Game, position: Position, place: int) -> bool:
    """Whether the contents of a receptacle can be seen and reached by one who stands at it."""
    return not game.places[place].is_openable or bool(position.opened >> place & 1)


def contents(position: Position, place: int) -> list[int]:
    """The objects in a receptacle."""
    return [thing for thing, where in enumerate(position.where) if where == place]


def possible(game: Game, position: Position) -> list[Command]:
    """The commands that are possible."""
    return [*always_possible(game, position.location), *possible_here(game, position)]


def always_possible(game: Game, location: int) -> list[Command]:
    """The commands that are possible at a location in every position: to look, and to go elsewhere."""
    going = [Command(Verb.GO, NONE, n) for n, place in enumerate(game.places) if place.location != location]
    return [LOOK, INVENTORY, HELP, *going]


def possible_here(game: Game, position: Position) -> list[Command]:
    """The other commands that are possible."""
    here = game.at_location.get(position.location, ())
    held = position.held
    found = [] if held == NONE else [Command(Verb.EXAMINE_THING, held)]
    for place in here:
        found.append(Command(Verb.EXAMINE_PLACE, NONE, place))
        is_open = is_accessible(game, position, place)
        if game.places[place].is_openable:
            found.append(Command(Verb.CLOSE if is_open else Verb.OPEN, NONE, place))
        if held != NONE:
            found += _with_held(game, held, place, is_open)
        if is_open or game.is_original:
            found += _with_contents(game, position, place, is_open)
    if held != NONE and game.things[held].can & Can.CUT:
        found += [Command(Verb.SLICE, thing, held) for thing in _sliceable(game, position, here)]
    return found


def _with_held(game: Game, held: int, place: int, is_open: bool) -> list[Command]:
    """What can be done at a receptacle with the object in hand."""
    kind, can = game.places[place].kind, game.things[held].can
    found = []
    if is_open and game.things[held].kind in game.takes.get(kind, ()):
        found.append(Command(Verb.MOVE, held, place))
    for station, ability, verb in _STATIONS:
        if kind == station and can & ability:
            found.append(Command(verb, held, place))
    return found


_STATIONS = ((SINK, Can.CLEAN, Verb.CLEAN), (MICROWAVE, Can.HEAT, Verb.HEAT), (FRIDGE, Can.COOL, Verb.COOL))


def _with_contents(game: Game, position: Position, place: int, is_open: bool) -> list[Command]:
    """What can be done with the objects in a receptacle; lamps of files also where it is closed."""
    found = []
    for thing in contents(position, place):
        can = game.things[thing].can
        if can & Can.USE:
            found.append(Command(Verb.USE, thing, place))
        if can & Can.TAKE and is_open and position.held == NONE:
            found.append(Command(Verb.TAKE, thing, place))
    return found


def _sliceable(game: Game, position: Position, here: tuple[int, ...]) -> list[int]:
    sliceable = [n for n, thing in enumerate(game.things) if thing.can & Can.SLICE]
    if game.is_original:
        return [thing for thing in sliceable if (thing, position.location) in position.located]
    return [n for n in sliceable if position.where[n] in here and is_accessible(game, position, position.where[n])]


def after(game: Game, position: Position, command: Command) -> Position:
    """The position after a possible command, or after one that does nothing."""
    verb, thing, place = command
    changed = _CHANGES.get(verb)
    moved = position if changed is None else changed(game, position, thing, place)
    seen = moved.seen
    if verb in _SHOWING and is_accessible(game, moved, place):
        seen |= 1 << place
    is_done = _reaches_goal(game, moved) if verb in _ENDING else position.is_done
    return moved._replace(seen=seen, did=command, turn=position.turn + 1, is_done=is_done)


_SHOWING = frozenset({Verb.GO, Verb.OPEN, Verb.EXAMINE_PLACE})
_ENDING = frozenset({Verb.GO, Verb.TAKE, Verb.MOVE, Verb.USE})
"""What can reach a goal. A lamp that is on stays on, so that a goal to look may also be reached by going or taking."""


def _go(game: Game, position: Position, thing: int, place: int) -> Position:
    return position._replace(location=game.places[place].location)


def _open(game: Game, position: Position, thing: int, place: int) -> Position:
    return position._replace(opened=position.opened | 1 << place)


def _close(game: Game, position: Position, thing: int, place: int) -> Position:
    return position._replace(opened=position.opened & ~(1 << place))


def _take(game: Game, position: Position, thing: int, place: int) -> Position:
    where = (*position.where[:thing], NONE, *position.where[thing + 1 :])
    taken = position._replace(where=where, held=thing)
    if game.is_original:
        here = frozenset({(thing, position.location)})
        return taken._replace(located=position.located - here, left=position.left | {(thing, place)})
    return taken


def _move(game: Game, position: Position, thing: int, place: int) -> Position:
    where = (*position.where[:thing], place, *position.where[thing + 1 :])
    put = position._replace(where=where, held=NONE)
    if game.is_original:
        here = frozenset({(thing, position.location)})
        return put._replace(located=position.located | here, left=position.left - {(thing, place)})
    return put


def _heat(game: Game, position: Position, thing: int, place: int) -> Position:
    return position._replace(hot=position.hot | 1 << thing, cool=position.cool & ~(1 << thing))


def _cool(game: Game, position: Position, thing: int, place: int) -> Position:
    return position._replace(cool=position.cool | 1 << thing, hot=position.hot & ~(1 << thing))


def _clean(game: Game, position: Position, thing: int, place: int) -> Position:
    return position._replace(clean=position.clean | 1 << thing)


def _use(game: Game, position: Position, thing: int, place: int) -> Position:
    return position._replace(used=position.used | 1 << thing)


def _slice(game: Game, position: Position, thing: int, place: int) -> Position:
    return position._replace(sliced=position.sliced | 1 << thing)


_CHANGES = {
    Verb.GO: _go,
    Verb.OPEN: _open,
    Verb.CLOSE: _close,
    Verb.TAKE: _take,
    Verb.MOVE: _move,
    Verb.HEAT: _heat,
    Verb.COOL: _cool,
    Verb.CLEAN: _clean,
    Verb.USE: _use,
    Verb.SLICE: _slice,
}


def _reaches_goal(game: Game, position: Position) -> bool:
    goal, _, place = game.wish[:3]
    if goal is Goal.LOOK:
        return position.held in game.wanted and _is_lit(game, position, place)
    treated = _treated(position, goal)
    there = [
        position.where[thing]
        for thing in game.wanted
        if treated >> thing & 1 and position.where[thing] != NONE and game.places[position.where[thing]].kind == place
    ]
    return len(there) > len(set(there)) if goal is Goal.TWO else bool(there)


def _treated(position: Position, goal: Goal) -> int:
    """The mask of the objects that are as the goal wants them."""
    if goal is Goal.CLEAN:
        return position.clean
    if goal is Goal.HEAT:
        return position.hot
    return position.cool if goal is Goal.COOL else -1


def _is_lit(game: Game, position: Position, lamp: str) -> bool:
    """Whether a lamp of a kind that was turned on stands where the agent is."""
    here = game.at_location.get(position.location, ())
    return any(
        position.used >> thing & 1 and position.where[thing] in here and game.things[thing].kind == lamp
        for thing in range(len(game.things))
    )
