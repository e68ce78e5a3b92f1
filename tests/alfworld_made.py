"""Games in ALFWorld's own format, written from generated ones: a problem in PDDL, as its files have them."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from mage.worlds.alfworld.game import Game
from mage.worlds.alfworld.generate import Size, make_game, parse_level
from mage.worlds.alfworld.house_words import HouseWords
from mage.worlds.alfworld.kinds import Can, Goal

_GOALS = {
    Goal.PICK: "(inReceptacle ?o ?r)",
    Goal.CLEAN: "(cleanable ?o) (isClean ?o) (inReceptacle ?o ?r)",
    Goal.HEAT: "(heatable ?o) (isHot ?o) (inReceptacle ?o ?r)",
    Goal.COOL: "(coolable ?o) (isCool ?o) (inReceptacle ?o ?r)",
}
_FACTS = {
    Can.TAKE: "pickupable",
    Can.CLEAN: "cleanable",
    Can.HEAT: "heatable",
    Can.COOL: "coolable",
    Can.USE: "toggleable",
    Can.SLICE: "sliceable",
    Can.HOLD: "isReceptacleObject",
}
_SINK = "sinkbasin"


def write_games(folder: Path, levels: list[str], *, at_one_place: int = 1, size: Size = Size.SMALL) -> Path:
    """Write a game file for each level; so many receptacles share a location, as they do in ALFWorld."""
    for level in levels:
        game = make_game(parse_level(level), size)
        path = folder / level.replace(":", "-") / "trial_1"
        path.mkdir(parents=True)
        domain, grammar = _logic()
        told = HouseWords(None).goal(game).removesuffix(".")
        data = {
            "pddl_domain": domain,
            "grammar": grammar.replace("UNKNOWN GOAL", told),
            "pddl_problem": to_problem(game, at_one_place),
            "solvable": True,
            "walkthrough": None,
        }
        (path / "game.tw-pddl").write_text(json.dumps(data), encoding="utf-8")
    return folder


def _logic() -> tuple[str, str]:
    """The domain and the grammar of the package; without it, a grammar that has the task and nothing else."""
    found = find_spec("alfworld")
    if found is None or not found.submodule_search_locations:
        return "", '"rhs": "Your task is to: UNKNOWN GOAL."'
    data = Path(found.submodule_search_locations[0]) / "data"
    return (data / "alfred.pddl").read_text(encoding="utf-8"), (data / "alfred.twl2").read_text(encoding="utf-8")


def to_problem(game: Game, at_one_place: int) -> str:
    """The problem of a game. Ids are in the order of its objects, so that they get the same names."""
    places = [f"{_place(place.kind)}_{number:03}{_basin(place.kind)}" for number, place in enumerate(game.places)]
    things = [f"{thing.kind}_bar__plus_{number:03}" for number, thing in enumerate(game.things)]
    locations = [f"loc_bar_{place.location // at_one_place:03}" for place in game.places]
    kinds = sorted({thing.kind for thing in game.things} | {"knife", "butterknife"})
    receptacle_kinds = sorted({place.kind for place in game.places} | {_SINK, "microwave", "fridge"})
    facts = ["(= (total-cost) 0)", "(atLocation agent1 loc_bar_start)"]
    for name, place, location in zip(places, game.places, locations, strict=True):
        facts += [f"(receptacleAtLocation {name} {location})", f"(receptacleType {name} {place.kind}Type)"]
        facts += [f"(openable {name})"] if place.is_openable else []
    for name, thing, where in zip(things, game.things, game.start.where, strict=True):
        facts += [f"(objectType {name} {thing.kind}Type)", f"(inReceptacle {name} {places[where]})"]
        facts += [f"({fact} {name})" for can, fact in _FACTS.items() if thing.can & can]
        facts += [f"(objectAtLocation {name} {locations[where]})"]
    facts += [f"(canContain {r}Type {k}Type)" for r in receptacle_kinds for k in kinds if k in game.takes[r]]
    types = (
        f"{' '.join(f'{kind}Type' for kind in kinds)} - otype {' '.join(f'{k}Type' for k in receptacle_kinds)} - rtype"
    )
    return f"""
(define (problem made)
 (:domain alfred)
 (:objects agent1 - agent {types}
  {" ".join(sorted({*locations, "loc_bar_start"}))} - location
  {" ".join(places)} - receptacle
  {" ".join(things)} - object)
 (:init {" ".join(facts)})
 (:goal {_goal(game)})
)
"""


def _place(kind: str) -> str:
    return "sink_bar" if kind == _SINK else "bathtub_bar" if kind == "bathtubbasin" else f"{kind}_bar"


def _basin(kind: str) -> str:
    return f"_bar_{kind}" if kind.endswith("basin") else ""


def _goal(game: Game) -> str:
    goal, thing, place, *_ = game.wish
    if goal is Goal.LOOK:
        return f"""(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location)
          (and (objectType ?ot {place}Type) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l)
               (atLocation ?a ?l) (inReceptacle ?ot ?r)))
         (exists (?o - object ?a - agent) (and (objectType ?o {thing}Type) (holds ?a ?o))))"""
    kinds = f"(objectType ?o {thing}Type) (receptacleType ?r {place}Type)"
    if goal is Goal.TWO:
        return f"""(and (exists (?r - receptacle) (exists (?o - object) (and {kinds} (inReceptacle ?o ?r)
          (exists (?o2 - object) (and (not (= ?o ?o2)) (objectType ?o2 {thing}Type) (receptacleType ?r {place}Type)
             (inReceptacle ?o2 ?r)))))))"""
    return f"(and (exists (?r - receptacle) (exists (?o - object) (and {kinds} {_GOALS[goal]}))))"
