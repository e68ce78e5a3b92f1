"""Sokoban: rules, rooms of a promised length, the solver, words, levels, files, players and splits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from mage.agents.parsing import parse_action
from mage.checks.worlds import check_world
from mage.errors import ConfigError, InexactError
from mage.opponents.agent_seat import seat_agent
from mage.protocols import Agent
from mage.rollout.trial import play_trial
from mage.seeds import stream
from mage.types import Task, Trial
from mage.worlds.openspiel.words.base import NEUTRAL
from mage.worlds.registry import load_world
from mage.worlds.sokoban import solve as solver
from mage.worlds.sokoban.generate import RoomWish, generate
from mage.worlds.sokoban.room import Room, from_board, moved, parse_level, read_rooms, to_board
from mage.worlds.sokoban.solve import push_distances, solve
from mage.worlds.sokoban.world import Sokoban

SPECS = ("sokoban", "sokoban(boxes=1)", "sokoban(boxes=3)", "sokoban(reworded=7)", "sokoban(admissible=false)")
CORRIDOR = "6#|#@$-.#|6#"


def task(world: str = "sokoban", seed: int = 0, level: str = "", episodes: int = 3) -> Task:
    return Task(world, (), 0, seed, episodes, False, False, 100, level)


def room_of(world: str = "sokoban", seed: int = 0) -> Room:
    loaded = load_world(world)
    assert isinstance(loaded, Sokoban)
    return loaded.draw(task(world, seed))


def walked(room: Room, moves: Sequence[int]) -> tuple[int, int]:
    """Player and boxes after moves that are all possible."""
    player, boxes = room.player, room.boxes
    for move in moves:
        after = moved(room, player, boxes, room.deltas[move])
        assert after is not None
        player, boxes = after
    return player, boxes


def to_xsb(rooms: Sequence[Room]) -> str:
    """Rooms as the text of a file in the layout of Boxoban: a number, then the rows."""
    return "\n".join(
        "\n".join((f"; {number}", *to_board(room, room.player, room.boxes), "")) for number, room in enumerate(rooms)
    )


def fewest_moves(room: Room) -> int | None:
    """The length of a shortest solution by plain breadth-first search."""
    layer, seen, num = [(room.player, room.boxes)], {(room.player, room.boxes)}, 0
    while layer:
        if any(boxes == room.goals for _, boxes in layer):
            return num
        reached = {moved(room, *position, delta) for position in layer for delta in room.deltas} - {None}
        layer = [position for position in reached if position is not None and position not in seen]
        seen.update(layer)
        num += 1
    return None


def played(player: str, world: str = "sokoban", seed: int = 0, level: str = "") -> Trial:
    def make(task: Task, sibling: int) -> Agent:
        return seat_agent(load_world(task.world), player, task)

    return asyncio.run(play_trial(load_world(world), task(world, seed, level), 0, make))


@pytest.mark.parametrize(
    ("before", "move", "after"),
    [
        ("#@$-.#", 3, "#-@$.#"),
        ("#-@$.#", 3, "#--@*#"),
        ("#--@*#", 3, None),  # against a wall
        ("#@$$.#", 3, None),  # against another box
        ("#--@*#", 2, "#-@-*#"),  # a box is not pulled
        ("#-@$.#", 0, None),
        ("#$@-.#", 3, "#$-@.#"),
        ("#$-@.#", 3, "#$--+#"),
    ],
)
def test_the_rules(before: str, move: int, after: str | None) -> None:
    symbols = "######" + before + "######"
    walls, goals, boxes = (
        sum(1 << at for at, symbol in enumerate(symbols) if symbol in kind) for kind in ("#", ".*+", "$*")
    )
    room = Room(3, 6, walls, goals, boxes, next(at for at, symbol in enumerate(symbols) if symbol in "@+"))
    found = moved(room, room.player, room.boxes, room.deltas[move])
    assert (None if found is None else to_board(room, *found)[1]) == after


@pytest.mark.parametrize("boxes", [1, 2, 3, 4])
def test_rooms_are_solved_in_the_promised_number_of_moves_and_not_in_fewer(boxes: int) -> None:
    for seed in range(25):
        room = generate(RoomWish(6, 6, boxes, 5, 21), seed)
        plan = solve(room, room.player, room.boxes)
        assert plan is not None
        assert 5 <= len(plan) <= 21
        assert walked(room, plan)[1] == room.goals
        assert len(plan) == fewest_moves(room)
        assert room.boxes.bit_count() == boxes
        assert not room.boxes & room.goals, "no box begins on a goal"


@pytest.mark.parametrize("wish", [RoomWish(6, 6, 2, 12, 12), RoomWish(5, 8, 1, 3, 30), RoomWish(9, 9, 3, 15, 18)])
def test_rooms_of_other_sizes_and_lengths(wish: RoomWish) -> None:
    for seed in range(4):
        room = generate(wish, seed)
        plan = solve(room, room.player, room.boxes)
        assert plan is not None
        assert wish.shortest <= len(plan) <= wish.longest
        assert (room.rows, room.columns) == (wish.rows, wish.columns)


def test_all_lengths_are_drawn_and_seeds_give_other_rooms() -> None:
    rooms = [generate(RoomWish(6, 6, 2, 5, 21), seed) for seed in range(300)]
    lengths = {len(solve(room, room.player, room.boxes) or ()) for room in rooms}
    assert lengths == set(range(5, 22))
    assert len(set(rooms)) > 290
    assert rooms[:5] == [generate(RoomWish(6, 6, 2, 5, 21), seed) for seed in range(5)]


def test_the_solver_knows_when_there_is_no_solution() -> None:
    stuck = from_board(["######", "#$--@#", "#--$-#", "#.--.#", "######"])
    assert stuck.boxes & ~sum(1 << square for square in push_distances(stuck)), "a box in a corner is lost"
    assert solve(stuck, stuck.player, stuck.boxes) is None
    blocked = from_board(["########", "#-@$$..#", "########"])
    assert solve(blocked, blocked.player, blocked.boxes) is None
    corridor = parse_level(CORRIDOR)
    assert solve(corridor, corridor.player, corridor.boxes) == (3, 3)
    assert solve(corridor, corridor.player, corridor.boxes, 1) is None


def test_a_search_that_grows_too_large_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "MOST_POSITIONS", 10)
    solve.cache_clear()
    room = room_of()
    with pytest.raises(InexactError, match="too large to solve"):
        solve(room, room.player, room.boxes)
    assert len(played("expert").episodes) == 3, "the expert then plays at random"
    solve.cache_clear()


@pytest.mark.parametrize("spec", SPECS)
def test_the_contract_of_worlds(spec: str) -> None:
    report = check_world(spec, range(3), levels=[str(room_of("sokoban(boxes=3)", 5))])
    assert (report.info.lowest, report.info.highest, report.info.num_seats) == (0.0, 1.0, 1)


def test_offered_are_all_possible_series_without_a_step_straight_back() -> None:
    world = load_world("sokoban")
    for seed in range(30):
        room = room_of(seed=seed)
        expected = []
        for moves in (moves for num in (1, 2, 3) for moves in product(range(4), repeat=num)):
            player, boxes, before = room.player, room.boxes, None
            for number, move in enumerate(moves):
                after = moved(room, player, boxes, room.deltas[move])
                undone = before is not None and after == before
                if after is None or undone or boxes == room.goals:
                    break
                before, (player, boxes) = (player, boxes), after
                if number == len(moves) - 1:
                    expected.append(" ".join(("up", "down", "left", "right")[move] for move in moves))
        assert sorted(world.new_env(task(seed=seed), 0).observe(0).actions) == sorted(expected)


def test_where_all_moves_are_offered_an_impossible_one_does_nothing() -> None:
    spec = "sokoban(admissible=false)"
    env = load_world(spec).new_env(task(spec, level=CORRIDOR), 0)
    assert len(env.observe(0).actions) == 4 + 16 + 64
    board = env.observe(0).facts["board"]
    env.step("up left down")
    seen = env.observe(0)
    assert (seen.facts["board"], seen.facts["turns_left"]) == (board, 6)
    env.step("right right left")
    assert env.result().returns == (1.0,), "a room that is solved within a turn is solved"


@pytest.mark.parametrize("spec", SPECS)
def test_text_reads_back_as_the_action_that_was_meant(spec: str) -> None:
    env = load_world(spec).new_env(task(spec, 4), 0)
    rng = stream(4, "choices")
    while env.to_move() is not None:
        actions = env.observe(0).actions
        for action in actions:
            assert parse_action(f"I go. <action> {action.upper()} </action>", actions).action == action
        env.step(rng.choice(actions))


@pytest.mark.parametrize("spec", SPECS)
def test_a_room_is_the_same_in_every_episode_and_for_every_seed_of_its_level(spec: str) -> None:
    world = load_world(spec)
    for seed in range(5):
        first = world.new_env(task(spec, seed), 0).observe(0)
        later = world.new_env(task(spec, seed), 2).observe(0)
        level = str(room_of(spec, seed))
        other = world.new_env(task(spec, seed + 1000, level), 0).observe(0)
        assert (first.text, first.actions, first.facts) == (later.text, later.actions, later.facts)
        assert first == other


def test_observations_say_nothing_but_the_position() -> None:
    """Whether a room can still be solved, how and in how many moves is in no observation."""
    alive, dead = (f"7#|#5-#|#{row}#|#-.-@-#|#5-#|7#" for row in ("--$--", "$----"))
    for world in ("sokoban", "sokoban(partial=0.5)", "sokoban(reworded=3)"):
        first, second = (load_world(world).new_env(task(world, level=level), 0).observe(0) for level in (alive, dead))
        solvable = [solve(room, room.player, room.boxes) is not None for room in map(parse_level, (alive, dead))]
        assert solvable == [True, False]
        assert set(first.facts) == {"board", "turns_left"} == set(second.facts)
        lines = [seen.text.splitlines() for seen in (first, second)]
        assert [number for number, pair in enumerate(zip(*lines, strict=True)) if len(set(pair)) > 1] == [3]
        symbols = [sorted(seen.text) for seen in (first, second)]
        assert symbols[0] == symbols[1], "the same symbols at other places"


def test_success_and_score_are_apart() -> None:
    spec = "sokoban(partial=0.5,turns=2,longest=6)"
    level = "7#|#@$.$.#|7#"
    env = load_world(spec).new_env(task(spec, level=level), 0)
    assert env.step("right") == (0.25,)
    assert env.step("left") == (0.0,)
    result = env.result()
    assert (result.returns, result.successes) == ((0.25,), (False,))
    assert result.outcomes[0].startswith("Not solved: 1 of 2 on a goal, and no turns are left.\n")
    strict = load_world("sokoban").new_env(task(level=CORRIDOR), 0)
    assert strict.step("right right") == (1.0,)
    assert (strict.result().successes, strict.result().outcomes[0].splitlines()[0]) == ((True,), "Solved.")


def test_reworded_rooms_have_other_words_and_symbols_for_the_same_play() -> None:
    spec, rng = "sokoban(reworded=7)", stream(0, "moves")
    worlds = [load_world(name).new_env(task(name, 3), 0) for name in ("sokoban", spec)]
    plain = {"up", "down", "left", "right", "wall", "floor", "goal", "box"}
    rules = load_world(spec).rules(task(spec)).replace(",", " ").replace(".", " ").replace(":", " ")
    assert not plain & set(rules.split())
    assert not plain & set(load_world(spec).info.reflect.split())
    while worlds[0].to_move() is not None:
        usual, other = (env.observe(0) for env in worlds)
        assert usual.facts == other.facts
        assert {word for action in other.actions for word in action.split()} <= set(NEUTRAL)
        assert not set("#_.$*@+") & set(other.text.partition("\n")[2])
        index = rng.randrange(len(usual.actions))
        for env, seen in zip(worlds, (usual, other), strict=True):
            env.step(seen.actions[index])
    assert worlds[0].result().returns == worlds[1].result().returns


@pytest.mark.parametrize("boxes", [1, 2, 4])
def test_levels_and_files_read_back_equal(boxes: int, tmp_path: Path) -> None:
    rooms = tuple(generate(RoomWish(7, 6, boxes, 4, 15), seed) for seed in range(20))
    assert tuple(parse_level(str(room)) for room in rooms) == rooms
    assert not any(".." in str(room) or "/" in str(room) for room in rooms)
    path = tmp_path / "rooms.txt"
    path.write_text(to_xsb(rooms))
    assert read_rooms(path) == rooms


def test_files_with_titles_ragged_rows_and_spaces(tmp_path: Path) -> None:
    path = tmp_path / "rooms.xsb"
    path.write_text("Room one\n\n  ####\n###  #\n#@$ .#\n######\n\nTitle: two\n#####\n#@$.#\n#####\nAuthor: me\n")
    first, second = read_rooms(path)
    assert to_board(first, first.player, first.boxes) == ("######", "###--#", "#@$-.#", "######")
    assert str(second) == "5#|#@$.#|5#"
    spec = f'sokoban(file="{path}")'
    drawn = {str(room_of(spec, seed)) for seed in range(20)}
    assert drawn == {str(first), str(second)}
    assert played("expert", spec).scores == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("level", "why"),
    [
        ("nothing has this name", "is no room; write its rows"),
        ("99#|#@$.#|5#", "a row has at most 40 squares"),
        ("5#|#@$-#|5#", "it has 1 boxes and 0 goals"),
        ("5#|#-$.#|5#", "0 players stand in it"),
        ("5#|#@*-#|5#", "all its boxes are on goals"),
        ("5#|#@$.-|5#", "its walls have a gap"),
        ("7#|#@-#$.#|7#", "lies where the player cannot walk to"),
        ("5#|#@$.#", "it has 2 rows"),
        ("7#|#@2$2.#|7#", "the player cannot move"),
    ],
)
def test_levels_that_are_no_rooms_are_refused_in_one_line(level: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_world("sokoban").check_level(level)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("sokoban(rows=3)", "rows must be a whole number from 4 to 16, not 3"),
        ("sokoban(boxes=5)", "boxes must be a whole number from 1 to 4, not 5"),
        ("sokoban(boxes=many)", "boxes must be a whole number from 1 to 4, not many"),
        ("sokoban(shortest=9,longest=8)", "longest must be a whole number from 9, not 8"),
        ("sokoban(longest=22)", "longest = 22: 7 turns of 3 moves are 21"),
        ("sokoban(moves=1)", "7 turns of 1 moves are 7"),
        ("sokoban(partial=1)", "partial must be a number from 0 to below 1, not 1"),
        ("sokoban(admissible=1)", "admissible must be true or false, not 1"),
        ("sokoban(reworded=x)", "reworded must be a whole number"),
        ("sokoban(size=6)", "unknown parameter 'size'"),
        ("sokoban(rows=4,columns=4,boxes=4)", "no room of 4 by 4 squares with 4 boxes was found"),
        ('sokoban(file="none.xsb")', "the rooms of 'none.xsb' cannot be read: No such file"),
    ],
)
def test_specs_that_cannot_be_played_are_refused_in_one_line(spec: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_world(spec)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rooms.xsb"
    for content, why in ((b"no room", "has no room"), (b"\xff\xfe", "it is no text"), (b"###\n#@#\n###", "room 1 of")):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=why):
            read_rooms(path)
