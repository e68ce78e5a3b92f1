"""Drawn first moves: who shares them, where they show, what exact figures make of them, and where they are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from io import StringIO
from itertools import islice
from typing import Any

import pytest
from rich.console import Console

from mage.aio import run_sync
from mage.checks.worlds import check_world
from mage.config.load import load_config
from mage.errors import ConfigError
from mage.evaluation.config_splits import members_of
from mage.evaluation.exact import best_memoryless, best_response
from mage.evaluation.exploitability.policy_table import information_states
from mage.evaluation.splits import load_split
from mage.opponents.policy import Policy
from mage.opponents.registry import make_policy
from mage.rollout.group import play_groups
from mage.runs.render import transcript
from mage.seeds import stream
from mage.spec import parse_spec
from mage.training.build import check, check_splits, draw_tasks
from mage.training.teacher import teacher_of
from mage.types import Observation
from mage.worlds.openspiel.game import OpenSpielEnv, load_game
from mage.worlds.openspiel.security import security_value
from tests.exhaustive import expected_returns
from tests.seated import WORLD, RandomEngine, make_settings, make_task, play

ONE = "tic_tac_toe(opening=1)"
TWO = "tic_tac_toe(opening=2)"


def opened(game: str, seed: int, episode: int, *, replay_deal: bool = False) -> OpenSpielEnv:
    return OpenSpielEnv(load_game(game), make_task(game, seed=seed, replay_deal=replay_deal), episode)


def first_seen(env: OpenSpielEnv) -> Observation:
    seat = env.to_move()
    assert seat is not None
    return env.observe(seat)


def history(observation: Observation) -> tuple[int, ...]:
    moves = observation.facts["history"]
    assert isinstance(moves, tuple)
    return tuple(int(str(move)) for move in moves)


@pytest.mark.parametrize(
    "game", [ONE, TWO, "tic_tac_toe(opening=3)", "tic_tac_toe(opening=1,reworded=7)", "nim(opening=1)"]
)
def test_an_opened_game_keeps_the_contract_of_games(game: str) -> None:
    check_world(game, seeds=range(20))


def test_the_task_and_the_episode_fix_the_opening() -> None:
    drawn = {(seed, k): history(first_seen(opened(TWO, seed, k))) for seed in range(40) for k in range(3)}
    again = {(seed, k): history(first_seen(opened(TWO, seed, k))) for seed in range(40) for k in range(3)}
    assert drawn == again, "siblings share it"
    assert all(len(moves) == 2 for moves in drawn.values())
    assert sum(drawn[seed, 0] != drawn[seed, 1] for seed in range(40)) > 30, "episodes differ"
    replayed = [history(first_seen(opened(TWO, 3, k, replay_deal=True))) for k in range(3)]
    assert replayed == [drawn[3, 0]] * 3


def test_every_cell_is_drawn_about_equally_often() -> None:
    counts = Counter(history(first_seen(opened(ONE, seed, 0)))[0] for seed in range(900))
    assert sorted(counts) == list(range(9))
    assert min(counts.values()) > 65
    assert max(counts.values()) < 135


def test_drawn_moves_are_nobodys_turns_and_everybody_sees_them() -> None:
    env = opened(ONE, 5, 0)
    assert env.to_move() == 1, "the first seat's move was drawn"
    seen = first_seen(env)
    (cell,) = history(seen)
    name = f"{'abc'[cell % 3]}{cell // 3 + 1}"
    assert (seen.turn, seen.facts["opening"]) == (0, ((0, name),))
    assert seen.text.count("X") == 1
    assert name not in seen.actions
    assert len(seen.actions) == 8
    rules = WORLD.rules(make_task(ONE, seat=1))
    assert rules.startswith(WORLD.rules(make_task("tic_tac_toe", seat=1)))
    assert rules.endswith(" The first move of each episode is drawn at random.")
    assert load_game(TWO).rules_for(0).endswith(" The first 2 moves of each episode are drawn at random.")


def test_a_transcript_says_what_was_drawn() -> None:
    trial = play(make_task(TWO, seat=1, opponents=("minimax",)), RandomEngine(), make_settings())
    console = Console(width=100, file=StringIO())
    console.print(transcript(trial, "t", None))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for episode in trial.episodes:
        drawn: Any = episode.result.facts["opening"]
        for seat, name in drawn:
            assert f"drawn for seat {seat}: {name}" in text
        turns = [turn.observation.seat for turn in episode.turns]
        assert turns == [k % 2 for k in range(len(turns))], "after two moves the first seat decides"
        assert [turn.observation.turn for turn in episode.turns if turn.observation.seat == 0] == list(
            range(turns.count(0))
        )


@pytest.mark.parametrize(
    ("game", "says"),
    [
        ("rps(opening=1)", "only where moves are made in turn and nothing is hidden"),
        ("kuhn_poker(opening=1)", "only where moves are made in turn and nothing is hidden"),
        ("leduc_poker(opening=2)", "only where moves are made in turn and nothing is hidden"),
        ("tic_tac_toe(opening=0)", "opening must be a whole number from 1, not 0"),
        ("tic_tac_toe(opening=half)", "opening must be a whole number from 1, not half"),
        ("tic_tac_toe(opening=4)", "could be over before every player has decided something"),
        ("connect_four(opening=5)", "more than 20000 openings would have to be looked at; draw fewer moves"),
    ],
)
def test_openings_that_make_no_sense_are_refused(game: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        load_game(game)
    assert "\n" not in str(caught.value)


def test_any_open_game_takes_an_opening() -> None:
    game = load_game("connect_four(opening=2)")
    seen = first_seen(OpenSpielEnv(game, make_task("connect_four(opening=2)", seed=3), 0))
    assert seen.seat == 0
    assert len(history(seen)) == 2
    assert (seen.text.count("x"), seen.text.count("o")) == (1, 1)


def policy_of(spec: str, game: str, seat: int) -> Policy:
    return make_policy(parse_spec(spec), load_game(game), seat, stream(0, "member"))


def drawing(policy: Policy, num_moves: int) -> Policy:
    """The same policy in the usual game, with the first moves of an episode at random."""

    def play_on(observation: Observation) -> Sequence[float]:
        if len(history(observation)) < num_moves:
            return [1 / len(observation.ids)] * len(observation.ids)
        return policy(observation)

    return play_on


@pytest.mark.parametrize(("game", "num_moves"), [(ONE, 1), (TWO, 2)])
def test_expected_scores_are_those_of_players_who_begin_at_random(game: str, num_moves: int) -> None:
    specs = ("preferred:corners", "preferred:edges")
    found = expected_returns(load_game(game), [policy_of(spec, game, seat) for seat, spec in enumerate(specs)])
    usual = [drawing(policy_of(spec, "tic_tac_toe", seat), num_moves) for seat, spec in enumerate(specs)]
    assert found == pytest.approx(expected_returns(load_game("tic_tac_toe"), usual))
    assert found[0] not in (-1.0, 0.0, 1.0), "openings must matter, or this shows nothing"


def test_what_a_seat_can_guarantee_counts_the_openings() -> None:
    """After one move perfect play draws. After two X wins 48 of 72: O has four wrong answers to the centre, seven to
    each corner and four to each edge."""
    assert [security_value(ONE, seat) for seat in (0, 1)] == [0.0, 0.0]
    assert security_value(TWO, 0) == pytest.approx(48 / 72)
    assert security_value(TWO, 1) == pytest.approx(-48 / 72)


@pytest.mark.parametrize("seat", [0, 1])
def test_exact_references_are_reached_by_the_best_reply(seat: int) -> None:
    other = "preferred:edges"
    players = [policy_of(f"best-response:{other}" if s == seat else other, TWO, s) for s in (0, 1)]
    best = expected_returns(load_game(TWO), players)[seat]
    assert best_response(TWO, other, seat, 1) == pytest.approx(best)
    assert best_memoryless(TWO, [(other, 1.0)], seat, 1) == pytest.approx(best)
    assert best_response("tic_tac_toe", other, seat, 1) == pytest.approx(1.0)
    assert best < 1.0, "some pairs of first moves cannot be won from"


def test_minimax_draws_from_every_opening_and_never_errs() -> None:
    both = [policy_of("minimax", ONE, seat) for seat in (0, 1)]
    assert expected_returns(load_game(ONE), both) == pytest.approx((0.0, 0.0))


def test_a_policy_is_not_read_where_moves_are_drawn() -> None:
    with pytest.raises(ConfigError, match="OpenSpiel has no drawn first moves"):
        information_states(load_game("nim(opening=1)"))


def test_members_of_a_split_may_be_trained_against_from_drawn_moves_but_not_in_other_words() -> None:
    config = load_config("tictactoe-llm", ())
    assert config.world == ONE
    assert members_of(config) == (*load_split("tictactoe-weak").members, "minimax")
    check(config)
    check_splits(config)
    assert next(draw_tasks(config, "tasks")).world == ONE
    with pytest.raises(ConfigError, match="'tictactoe-weak' is made for tic_tac_toe, not for"):
        members_of(load_config("tictactoe-llm", ("world=tic_tac_toe(opening=1,reworded=3)",)))
    with pytest.raises(ConfigError, match="its wording is held out"):
        check_splits(load_config("tictactoe-llm", ("world=tic_tac_toe(opening=1,reworded=2603)", "population.split=")))


def test_tasks_are_of_the_game_as_it_is_named() -> None:
    config = load_config("tictactoe-llm", ())
    assert {task.world for task in islice(draw_tasks(config, "tasks"), 50)} == {ONE}


@pytest.mark.parametrize("teacher", ["minimax", "preferred:corners"])
def test_a_teacher_plays_from_drawn_moves(teacher: str) -> None:
    given = (f"world={TWO}", "credit.estimator=cloning", f"credit.options={{teacher={teacher!r}}}")
    config = load_config("tictactoe-llm", given)
    make_agent = teacher_of(config, teacher)
    for task in islice(draw_tasks(config, "tasks"), 4):
        (group,) = run_sync(play_groups(WORLD, [task], 1, make_agent))
        assert not group.failures
        for episode in group.trials[0].episodes:
            drawn: Any = episode.result.facts["opening"]
            assert len(drawn) == 2


def test_a_teacher_that_plans_has_a_plan_for_every_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[tuple[str, int]] = []

    def plan(game: str, pool: object, seat: int, *_: object) -> None:
        planned.append((game, seat))

    monkeypatch.setattr("mage.training.teacher.bayes_optimal", plan)
    others = (
        "population.split=",
        'population.members=["preferred:edges"]',
        "population.weights=[]",
        "trial.episodes=1",
    )
    teacher_of(load_config("tictactoe-llm", others), "bayes-optimal")
    assert planned == [(ONE, 0), (ONE, 1)]


def test_shipped_splits_from_drawn_moves_have_the_same_players() -> None:
    for name, usual in (("tictactoe-openings", "tictactoe-weak"), ("tictactoe-minimax-openings", "tictactoe-minimax")):
        assert load_split(name).members == load_split(usual).members
        assert (load_split(name).world, load_split(usual).world) == (ONE, "tic_tac_toe")
