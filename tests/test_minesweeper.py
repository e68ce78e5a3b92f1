"""MineSweeper: its rules, its promises, what it tells, its exact values and its players."""

from __future__ import annotations

from itertools import combinations, count
from random import Random

import pytest

from mage.agents.briefing import briefing_of
from mage.agents.byte_format import ByteFormat
from mage.agents.language import AgentSettings, LanguageAgent
from mage.agents.parsing import parse_action
from mage.aio import run_sync
from mage.checks.worlds import check_world
from mage.config.load import load_config
from mage.engines.scripted import ScriptedEngine, first
from mage.errors import ConfigError
from mage.evaluation.eval_agent import load_eval_agent
from mage.evaluation.held_out import avoid_held_out, refuse_held_out
from mage.evaluation.splits import load_split
from mage.opponents.agent_seat import check_seat_agent, seat_agent
from mage.protocols import Agent
from mage.rollout.trial import play_trial
from mage.seeds import derive
from mage.types import Memory, ReplyMode, Task, Trial
from mage.worlds.masks import cells_in
from mage.worlds.minesweeper.board import (
    all_boards,
    draw_board,
    grid_of,
    least_turns,
    numbers_of,
    opened_by,
    read_board,
    safe_cells,
    start_of,
)
from mage.worlds.minesweeper.mine_odds import Known, mine_odds, possible_mines
from mage.worlds.minesweeper.solver import needs_no_guess
from mage.worlds.minesweeper.world import MineSweeper
from mage.worlds.openspiel.words.base import NEUTRAL
from mage.worlds.registry import load_world

SMALL, STOP = "minesweeper(2,2,1,start=closed)", "minesweeper(2,2,1,start=closed,stop=0.5)"
SPECS = (
    "minesweeper",
    "minesweeper(4,5,4,turns=9,reworded=7)",
    "minesweeper(start=guess-free,list_actions=false)",
    "minesweeper(3,3,2,stop=0.7)",
    STOP,
)


def task(world: str, seed: int = 0, level: str = "", episodes: int = 3) -> Task:
    return Task(world, (), 0, seed, episodes, False, False, 1000, level)


def world_of(spec: str) -> MineSweeper:
    world = load_world(spec)
    assert isinstance(world, MineSweeper)
    return world


def trial_of(player: str, one: Task) -> Trial:
    def seated(task: Task, sibling: int) -> Agent:
        return seat_agent(load_world(task.world), player, task)

    return run_sync(play_trial(load_world(one.world), one, 0, seated))


@pytest.mark.parametrize("spec", SPECS)
def test_it_keeps_the_contract_of_worlds(spec: str) -> None:
    report = check_world(spec, range(3))
    assert ("agrees" in report.exact) == (world_of(spec).hidden() != {})


@pytest.mark.parametrize("seed", range(40))
def test_probabilities_are_those_of_all_boards_that_fit(seed: int) -> None:
    rng = Random(seed)
    grid, num_mines = grid_of(3, 5), rng.randint(1, 5)
    board = draw_board(grid, num_mines, True, rng)
    opened = start_of(board)
    for cell in rng.sample(list(cells_in(safe_cells(board))), 2):
        opened |= opened_by(grid, board.mines, cell)
    hit = rng.choice(list(cells_in(board.mines))) if seed % 2 else None
    numbers = numbers_of(grid, board.mines)
    known = Known({cell: numbers[cell] for cell in cells_in(opened)}, 0 if hit is None else 1 << hit)
    fits = [
        mines
        for mines in (sum(1 << c for c in chosen) for chosen in combinations(range(15), num_mines))
        if not mines & opened
        and mines & known.mines == known.mines
        and all(numbers_of(grid, mines)[cell] == number for cell, number in known.numbers.items())
    ]
    assert sorted(possible_mines(grid, num_mines, known, 5000) or []) == sorted(fits)
    expected = [sum(mines >> cell & 1 for mines in fits) / len(fits) for cell in range(15)]
    assert mine_odds(grid, num_mines, known) == pytest.approx(expected, abs=1e-12)


def test_least_turns_is_what_a_search_finds() -> None:
    for board in all_boards(grid_of(2, 4), 2, is_opened=True):
        grid, safe = grid_of(2, 4), safe_cells(board)
        reached, turns = {start_of(board)}, 0
        while safe not in reached:
            reached = {o | opened_by(grid, board.mines, c) for o in reached for c in cells_in(safe & ~o)}
            turns += 1
        assert least_turns(board) == turns


@pytest.mark.parametrize("spec", ["minesweeper", "minesweeper(start=guess-free)", "minesweeper(9,9,10,turns=40)"])
def test_boards_can_be_cleared_as_promised_and_a_seed_is_a_board(spec: str) -> None:
    world, turns = world_of(spec), 40 if "turns" in spec else 7
    boards = [world.draw(task(spec, seed)) for seed in range(60)]
    again = load_world.__wrapped__(spec)
    assert isinstance(again, MineSweeper)
    assert boards == [again.draw(task(spec, seed)) for seed in range(60)]
    assert len(set(boards)) == 60
    for board in boards:
        assert 1 <= least_turns(board) <= turns
        assert not board.mines >> board.first & 1
        assert read_board(str(board)) == board
    without_guess = [needs_no_guess(board, turns) for board in boards]
    assert all(without_guess) == ("guess-free" in spec)


def test_the_expert_clears_every_guess_free_board_in_every_episode() -> None:
    for seed in range(40):
        assert trial_of("expert", task("minesweeper(start=guess-free)", seed)).scores == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("spec", SPECS)
def test_a_board_that_was_not_looked_at_may_be_any_other(spec: str) -> None:
    """Mines that move without changing a number that was revealed change nothing that is told."""
    world, num_moved = world_of(spec), 0
    for seed in range(30):
        rng, board = Random(seed), world.draw(task(spec, seed))
        grid, num_mines = grid_of(board.rows, board.columns), board.mines.bit_count()
        position = world.start(board)
        for _ in range(seed % 3):
            closed_safe = list(cells_in(safe_cells(board) & ~position.opened))
            if len(closed_safe) > 1:
                position = world.after(board, position, grid.names[rng.choice(closed_safe)])
        numbers = numbers_of(grid, board.mines)
        known = Known({cell: numbers[cell] for cell in cells_in(position.opened)})
        for mines in (possible_mines(grid, num_mines, known, 10_000) or [])[:50]:
            other = board._replace(mines=mines)
            if other != board and not world.is_over(board, position):
                num_moved += 1
                assert world.tell(other, position) == world.tell(board, position)
                assert world.facts(other, position) == world.facts(board, position)
                assert world.actions(other, position) == world.actions(board, position)
                assert world.rules(task(spec, seed)) == world.explain()
    assert num_moved > 5


@pytest.mark.parametrize("spec", SPECS)
def test_texts_read_back_as_actions_and_boards(spec: str) -> None:
    world = world_of(spec)
    env = world.new_env(task(spec, 5), 0)
    seen = env.observe(0)
    for action in seen.actions:
        assert parse_action(f"I take <action> {action.upper()} </action>", seen.actions).action == action
    rows = seen.facts["board"]
    assert isinstance(rows, tuple)
    assert world._words.read(seen.text) == [cell for row in rows for cell in row]  # type: ignore[union-attr]


def test_every_episode_of_a_trial_is_the_same_board_from_the_start() -> None:
    trial = trial_of("uniform", task("minesweeper", 3, episodes=4))
    firsts = {episode.turns[0].observation.text for episode in trial.episodes}
    assert len(firsts) == 1
    assert len({episode.result.facts["hidden"] for episode in trial.episodes}) == 1


def test_stopping_scores_and_is_no_success() -> None:
    env = load_world(STOP).new_env(task(STOP), 0)
    env.step("stop")
    assert (env.result().returns, env.result().successes) == ((0.5,), (False,))
    assert env.result().outcomes[0].endswith("You chose stop: +0.5.")


def test_a_mine_ends_the_episode_and_only_that_one_is_shown() -> None:
    spec = "minesweeper(3,3,2,start=closed)"
    env = load_world(spec).new_env(task(spec, level="3x3::a1,c3"), 0)
    env.step("c3")
    assert env.result().outcomes == ("  a b c\n1 # # #\n2 # # #\n3 # # *\nYou opened a mine: 0.",)


def test_turns_run_out() -> None:
    spec = "minesweeper(3,3,1,start=closed,turns=2)"
    env = load_world(spec).new_env(task(spec, level="3x3::a1"), 0)
    for cell in ("b1", "b2"):
        env.step(cell)
    assert env.result().outcomes[0].endswith("No turns are left: 0.")
    assert env.result().returns == (0.0,)


def test_reworded_texts_have_none_of_the_usual_words() -> None:
    spec = "minesweeper(reworded=7,stop=0.5)"
    world = load_world(spec)
    said = " ".join([world.rules(task(spec)), world.info.trial, world.info.reflect]).lower()
    assert "mine" not in said
    assert "stop" not in said
    assert world.new_env(task(spec), 0).observe(0).actions[-1] in NEUTRAL


def test_players_learn_what_their_names_say() -> None:
    tasks = [task("minesweeper(mines=5)", seed, episodes=5) for seed in range(60)]
    scores = {
        player: [
            sum(column) / len(tasks) for column in zip(*(trial_of(player, one).scores for one in tasks), strict=True)
        ]
        for player in ("uniform", "expert", "expert(remember=true)", "learns-from-failure")
    }
    assert scores["uniform"][-1] < scores["learns-from-failure"][-1] - 0.1
    assert len(set(scores["expert"])) == 1, "it remembers nothing"
    assert scores["expert"][0] < 1.0
    assert scores["expert(remember=true)"][-1] > scores["expert"][-1]


def test_players_stop_where_it_pays() -> None:
    for seed in range(8):
        assert trial_of("expert", task(STOP, seed)).scores == (0.5, 0.5, 0.5)
        for player in ("expert(remember=true)", "learns-from-failure"):
            assert trial_of(player, task(STOP, seed)).scores[1:] == (1.0, 1.0)


def test_other_players_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="uniform, expert, learns-from-failure and models play"):
        check_seat_agent(load_world("minesweeper"), "copy", 0)
    with pytest.raises(ConfigError, match="unknown parameter 'depth'"):
        check_seat_agent(load_world("minesweeper"), "expert(depth=2)", 0)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("minesweeper(rows=0)", "rows must be a whole number from 1 to 26, not 0"),
        ("minesweeper(2,2,3)", "mines must be a whole number from 1 to 2, not 3"),
        ("minesweeper(1,2,1)", "rows = 1, columns = 2: the board needs at least 3 cells"),
        ("minesweeper(start=open)", "start must be one of closed, guess-free, opened, not open"),
        ("minesweeper(stop=much)", "stop must be a number, what stopping pays, not much"),
        ("minesweeper(list_actions=1)", "list_actions must be true or false, not 1"),
        ("minesweeper(9,9,30)", "can be cleared in 7 turns; give more turns or fewer mines"),
    ],
)
def test_settings_that_no_board_fits_are_refused_in_one_line(spec: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_world(spec)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "level", ["", "6x6", "6x6:a1:a1,b1,c1", "6x6:a1:z9,b1,c1", "6x6:a1:b1,b1,c1", "9x6:a1:b1,c1,d1"]
)
def test_a_level_that_is_no_board_of_the_world_is_refused(level: str) -> None:
    with pytest.raises(ConfigError):
        load_world("minesweeper").check_level(level)


def test_training_is_kept_from_held_out_boards_and_other_sizes_are_free() -> None:
    seen, unseen = load_split("minesweeper-seen"), load_split("minesweeper-unseen")
    refuse_held_out("minesweeper", seen.members)
    refuse_held_out("minesweeper(4,4,2)", ())
    with pytest.raises(ConfigError, match="is held out by the split 'minesweeper-unseen'"):
        refuse_held_out("minesweeper(stop=0.5)", unseen.members[:1])
    config = load_config("doors", ["world=minesweeper"])
    seeds = (derive(2603, "boards", number) for number in count())
    given = (Task("minesweeper", (), 0, seed, 3, False, False, 1) for seed in seeds)
    world = load_world("minesweeper")
    assert isinstance(world, MineSweeper)
    held_out = next(task for task in given if world.drawn_level(task) in unseen.members)
    other = avoid_held_out(config, held_out)
    assert world.drawn_level(other) not in unseen.members
    assert avoid_held_out(config, other) == other


def test_prompts_without_the_list_of_actions_hold_answers_to_it() -> None:
    prompts = {}
    for listed in ("true", "false"):
        spec = f"minesweeper(list_actions={listed})"
        how = AgentSettings("first", Memory.HISTORY, ReplyMode.CHOICE, 1.0, 100, 60, retries=1, context=8192)

        def seated(task: Task, sibling: int, how: AgentSettings = how) -> Agent:
            world = load_world(task.world)
            return LanguageAgent(ScriptedEngine(first), ByteFormat(), how, briefing_of(world, task), task, sibling)

        trial = run_sync(play_trial(load_world(spec), task(spec, 3), 0, seated))
        prompts[listed] = ByteFormat().decode(trial.streams[-1])
        assert trial.episodes[0].turns[0].action in trial.episodes[0].turns[0].observation.actions
    assert "Actions: a1, " in prompts["true"]
    assert "Actions:" not in prompts["false"]


def test_the_control_of_a_player_that_remembers_forgets() -> None:
    spec, player = "minesweeper(mines=4)", load_eval_agent("expert(remember=true)", worlds=["minesweeper"])
    for seed in range(12):
        control = run_sync(
            play_trial(load_world(spec), task(spec, seed), 0, player.make_agent(load_world(spec), Memory.NONE))
        )
        assert control.scores == trial_of("expert", task(spec, seed)).scores
