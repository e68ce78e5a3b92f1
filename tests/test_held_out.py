"""Held-out members are told by what they do, at the length that is played: in splits, in populations and in draws."""

from __future__ import annotations

from itertools import combinations, islice

import pytest
from msgspec.structs import replace

from mage.config.load import load_config
from mage.config.schema import Config
from mage.errors import ConfigError
from mage.evaluation.exact.references import fraction_text
from mage.evaluation.held_out import avoid_held_out, refuse_held_out
from mage.evaluation.splits import has_levels, load_split, make_split, split_names
from mage.evaluation.suite.evaluate import split_references
from mage.opponents.behaviours import behaviours
from mage.opponents.matrix_games import memory_one_members
from mage.protocols import ComparesOpponents
from mage.seeds import derive
from mage.spec import parse_spec
from mage.training.build import check_splits, draw_tasks
from mage.training.task_sources import PrioritisedTasks
from mage.worlds.openspiel.game import load_game
from mage.worlds.registry import load_world

RPS = load_game("rps(rounds=3)")
SPLITS = [split for split in map(load_split, split_names()) if not has_levels(split.world)]


def played(*members: str) -> set[object]:
    """What these players of rock-paper-scissors may do in three rounds."""
    return {found for member in members for found in behaviours(member, RPS, 1)}


def test_93_behaviours_of_three_rounds_are_63_trained_15_held_out_and_15_for_figures() -> None:
    trained, held_out, test = (load_split(name).members for name in ("rps-trained", "rps-held-out", "rps-test"))
    sizes = [(len(members), len(played(*members))) for members in (trained, held_out, test)]
    assert sizes == [(63, 63), (15, 15), (15, 15)]
    everything = played(*map(str, memory_one_members(3)))
    assert len(everything) == 93
    assert played(*trained) | played(*held_out) | played(*test) == everything
    assert played(*load_split("rps-seven").members) <= played(*trained), "recipes may train on the seven"


def test_the_length_decides_what_behaves_alike() -> None:
    one, other = "memory-one(first=0,map=[1,2,2],on=me)", "memory-one(first=0,map=[1,2,0],on=me)"
    assert played(one) == played(other)
    longer = load_game("rps(rounds=4)")
    assert behaviours(one, longer, 1) != behaviours(other, longer, 1)


def test_no_two_members_of_a_split_behave_alike_in_every_seat() -> None:
    for split in SPLITS:
        world = load_world(split.world)
        assert isinstance(world, ComparesOpponents)
        done = {member: [frozenset(world.behaviours(member, seat)) for seat in (0, 1)] for member in split.members}
        alike = [pair for pair in combinations(split.members, 2) if done[pair[0]] == done[pair[1]]]
        assert not alike, split.name


@pytest.mark.parametrize("name", [split.name for split in SPLITS if not split.held_out])
def test_whoever_may_be_trained_with_behaves_like_nobody_held_out(name: str) -> None:
    split = load_split(name)
    refuse_held_out(split.world, split.members)


@pytest.mark.parametrize(
    ("world", "member", "like"),
    [
        ("rps(rounds=3)", "behaviour(0.3,900)", r"behaviour\(concentration=0.3,seed=900\)"),
        ("rps(rounds=3)", "behaviour(0.30,seed=900)", r"behaviour\(concentration=0.3,seed=900\)"),
        ("rps(rounds=3)", "mixture(always:paper,always:rock)", r"mixture\(always\(rock\),always\(paper\)\)"),
        ("rps(rounds=3)", "mixture(always:0,always:paper,weights=[2,2])", r"mixture\(always\(rock\),always\(paper\)\)"),
        ("rps(rounds=3)", "automaton(noise=0.1,seed=900)", r"automaton\(noise=0.1,seed=900,states=3\)"),
        ("rps(rounds=3)", "automaton(3,0.1,911)", r"automaton\(noise=0.1,seed=905,states=3\)"),
        ("kuhn_poker", "always(0)", r"always\(pass\)"),
        ("kuhn_poker", "mixture(cfr,cfr)", "cfr"),
        ("kuhn_poker", "mixture(always:bet,always:pass,weights=[1,3])", r"mixture\(always\(bet\),always\(pass\),"),
        ("kuhn_poker", "mixture(cfr,cfr,cfr,conservative,weights=[4,2,2,2])", r"mixture\(cfr,conservative,"),
        ("kuhn_poker", "switch(conservative,always(0),at=2)", r"always\(pass\)"),
        ("kuhn_poker", "switch(cfr,cfr,at=1)", "cfr"),
        ("tic_tac_toe", "mcts(30,seed=900)", r"mcts\(seed=900,simulations=30\)"),
        ("tic_tac_toe(opening=1)", "mixture(mcts(30,seed=900),mcts(30,seed=900))", r"mcts\(seed=900,simulations=30\)"),
    ],
)
def test_a_held_out_opponent_is_refused_under_any_name(world: str, member: str, like: str) -> None:
    with pytest.raises(ConfigError, match=f"behaves like '{like}.*, which is held out by the split") as caught:
        refuse_held_out(world, ("uniform", member))
    assert "\n" not in str(caught.value)
    assert f"population.members: '{member}'" in str(caught.value)


def test_an_order_that_differs_where_it_is_never_asked_is_the_same_player() -> None:
    order = parse_spec(load_split("tictactoe-orders").members[0]).args[0]
    swapped = (*order[:7], order[8], order[7])  # X never has to choose between the last two cells
    with pytest.raises(ConfigError, match=r"behaves like 'preferred\(.*is held out by the split 'tictactoe-orders'"):
        refuse_held_out("tic_tac_toe", (f"preferred({list(swapped)})",))


def test_players_that_only_resemble_held_out_ones_are_allowed() -> None:
    refuse_held_out("kuhn_poker", ("mixture(always:bet,always:pass,weights=[1,2])", "behaviour(0.3,899)"))
    refuse_held_out("rps(rounds=3)", ("automaton(3,0.2,900)", "mixture(always:rock,always:paper,weights=[1,2])"))
    refuse_held_out("tic_tac_toe", ("mcts(30,seed=1)", "mcts(31,seed=900)"))


def machines_held_out(config: Config) -> tuple[ComparesOpponents, set[object]]:
    """The world of a config, and the behaviours of its held-out machines."""
    world = load_world(config.world)
    assert isinstance(world, ComparesOpponents)
    members = load_split("rps-automata-held-out").members
    return world, {found for member in members for found in world.behaviours(member, 1)}


def automata(*more: str) -> Config:
    members = '["automaton(states=3,noise=0.1)"]'
    return load_config("rps", ["population.split=", f"population.members={members}", *more])


def test_a_family_never_draws_who_behaves_like_a_held_out_member() -> None:
    config = automata()
    world, held_out = machines_held_out(config)
    tasks = list(islice(draw_tasks(config, "tasks", 0), 300))
    assert not [task for task in tasks if world.drawn_behaviour(task.opponents[0], task, 1) in held_out]
    drawn_first = [replace(task, seed=derive(config.seed, "tasks", 0, index)) for index, task in enumerate(tasks)]
    again = [task for task in drawn_first if world.drawn_behaviour(task.opponents[0], task, 1) in held_out]
    assert len(again) > 10, "some were drawn again"
    assert len(set(drawn_first) - set(tasks)) == len(again), "and only those"


def test_a_task_whose_opponent_would_be_held_out_gets_another_seed() -> None:
    config = automata()
    world, held_out = machines_held_out(config)
    task = next(draw_tasks(config, "tasks", 0))
    met = next(
        other
        for seed in range(1000)
        if world.drawn_behaviour((other := replace(task, seed=seed)).opponents[0], other, 1) in held_out
    )
    found = avoid_held_out(config, met)
    assert found.seed != met.seed
    assert world.drawn_behaviour(found.opponents[0], found, 1) not in held_out
    assert replace(found, seed=met.seed) == met
    assert avoid_held_out(config, met) == found, "a function of config and task"


def test_prioritised_draws_avoid_held_out_behaviours_too() -> None:
    config = automata("population.sampler=prioritised")
    world, held_out = machines_held_out(config)
    matches = PrioritisedTasks(config, "main").draw(0, {"main": 300})
    assert not [m for m in matches if world.drawn_behaviour(m.task.opponents[0], m.task, 1) in held_out]


def test_a_split_for_figures_is_not_looked_at_while_settings_are_chosen() -> None:
    config = load_config("rps", ['evaluation.splits=["rps-seven","rps-test"]'])
    with pytest.raises(
        ConfigError, match=r"'rps-test' is kept for published figures.*mage evaluate RUN --opponents rps-test"
    ):
        check_splits(config)
    with pytest.raises(ConfigError, match="is held out by the split 'rps-test'"):
        refuse_held_out("rps(rounds=3)", load_split("rps-test").members[:1])


@pytest.mark.parametrize(
    ("name", "memoryless"),
    [("rps-seven", "22/63"), ("rps-trained", "2/7"), ("rps-held-out", "2/5"), ("rps-test", "17/45")],
)
def test_the_best_memoryless_score_is_that_of_the_split_itself(name: str, memoryless: str) -> None:
    ((_, found),) = split_references(load_split(name), (0,), 3)
    assert found.memoryless is not None
    assert fraction_text(found.memoryless) == memoryless
    assert found.bayes_last == pytest.approx(1.0)


def test_a_part_of_a_split_has_its_own_bound() -> None:
    """Both members begin with rock, so with one round an episode paper wins without memory."""
    part = make_split("part", "", "rps(rounds=1)", ("always:rock", "memory-one(first=0,map=[1,1,1])"), held_out=True)
    ((_, found),) = split_references(part, (0,), 3)
    assert found.memoryless == pytest.approx(1.0)
