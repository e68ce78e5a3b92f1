"""Every game keeps the contract, bad specs are refused in words, and episodes pay and end as they should."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mage.checks.worlds import check_world
from mage.errors import ConfigError, PlayError
from mage.types import Ending, Task
from mage.worlds.openspiel import positions
from mage.worlds.openspiel.game import OpenSpielEnv, distinct, known_games, load_game
from mage.worlds.openspiel.game_builders import GAMES
from mage.worlds.openspiel.positions import Position
from tests.forced import play_forced
from tests.worlds import AnyWorld

_FOOTBALL = 'matrix([[2,0],[0,1]],columns=[[1,0],[0,2]],moves=[opera,football],name="the evening",rounds=2)'

WITH_WORDS = [
    *(f"kuhn_poker(players={n})" for n in (2, 3, 4, 5, 10)),
    "kuhn_poker(reworded=1)",
    "kuhn_poker(players=4,reworded=2)",
    *(f"rps(rounds={n})" for n in range(1, 11)),
    "rps(rounds=4,reworded=3)",
    "pd",
    "pd(rounds=2,reworded=4)",
    "pennies",
    "pennies(rounds=1,reworded=5)",
    "matrix([[0,1,-1],[-1,0,1],[1,-1,0]])",
    "matrix([[1,2.5],[-3,4]],moves=[up,down],rounds=4,reworded=6)",
    _FOOTBALL,
    "tic_tac_toe",
    "tic_tac_toe(reworded=7)",
    "tic_tac_toe(opening=2)",
]

WITHOUT_WORDS = [
    "2048",  # one seat, chance
    "backgammon",
    "bargaining",
    "battleship(board_width=3,board_height=3,ship_sizes=[2],ship_values=[1],num_shots=3)",
    "blackjack",
    "blotto(players=3,coins=4)",
    "breakthrough(rows=5,columns=4)",
    "catch",
    "cliff_walking",
    "coin_game(episode_length=6)",  # pays midway
    "connect_four",
    "coop_box_pushing(horizon=8)",  # simultaneous, pays midway, equal interests
    "crazy_eights(players=3)",
    "cribbage",
    "dark_hex(board_size=3)",
    "dots_and_boxes",
    "euchre",  # four seats
    "first_sealed_auction(players=4)",
    "go_fish(players=3)",
    "goofspiel(num_cards=4,imp_info=true,players=3)",
    "hearts",
    "laser_tag(horizon=10)",
    "leduc_poker(players=3)",
    "lewis_signaling",
    "liars_dice(numdice=2)",
    "markov_soccer(horizon=8)",
    "matching_pennies_3p",
    "matrix_shapleys_game",
    "misere(game=tic_tac_toe)",
    "negotiation",  # draws chance by itself
    "nim",
    "oh_hell(players=5)",
    "oshi_zumo(coins=6)",
    "pentago",
    "phantom_ttt",
    "pig(players=4)",
    "repeated_game(stage_game=matrix_pd,num_repetitions=3)",
    "sheriff",
    "skat",
    "spades",
    "tarok",
    "tiny_bridge_2p",
    "trade_comm",
    'universal_poker(numPlayers=3,blind="100 100 100",stack="900 900 900",firstPlayer="1 1")',
]

SLOW = {"bridge", "bridge_uncontested_bidding"}
"""Every end of a hand is solved, a second each."""
VAGUE = {"dou_dizhu", "einstein_wurfelt_nicht"}
"""OpenSpiel's strings do not tell the bids of the one and the die of the other."""


@pytest.mark.parametrize("spec", WITH_WORDS)
def test_games_with_words_keep_the_contract(spec: str) -> None:
    check_world(spec, range(8))


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 4), marks=pytest.mark.slow)], ids=["one", "more"])
@pytest.mark.parametrize("spec", WITHOUT_WORDS)
def test_games_without_words_keep_the_contract(spec: str, seeds: range) -> None:
    check_world(spec, seeds, max_turns=60)


@pytest.mark.parametrize("name", sorted(VAGUE))
def test_a_game_whose_strings_leave_something_out_is_found(name: str) -> None:
    with pytest.raises(PlayError, match="one key stands for the actions"):
        check_world(name, range(2), max_turns=8, chance_shows=False)


@pytest.mark.parametrize("name", sorted({*known_games()} - {*GAMES} - SLOW - VAGUE))
def test_every_game_of_openspiel_keeps_the_contract_for_a_few_turns(name: str) -> None:
    check_world(name, range(2), max_turns=8, chance_shows=False)


@pytest.mark.parametrize("name", sorted(SLOW))
def test_slow_games_can_be_played(name: str) -> None:
    game = load_game(name)
    env = OpenSpielEnv(game, Task(name, (), 0, 1, 1, False, False, 3), 0)
    while (seat := env.to_move()) is not None:
        env.step(env.observe(seat).actions[-1])
    assert len(env.result().returns) == game.num_seats


def test_all_of_openspiel_that_has_players_and_moves_is_known() -> None:
    names = known_games()
    assert len(names) >= 110
    assert {*GAMES, "chess", "2048", "negotiation"} <= {*names}
    assert not {"crossword", "mfg_garnet", "repeated_game"} & {*names}


REFUSED = {
    "nosuch": "unknown game 'nosuch'; with words: kuhn_poker, matrix, pd",
    "crossword": "'crossword' cannot be played: its moves are free words",
    "mfg_garnet": "'mfg_garnet' cannot be played: it is a mean-field game",
    "leduc_poker(nope=3)": "unknown parameter 'nope' of 'leduc_poker'; known: action_mapping, players",
    "leduc_poker(3)": "parameters of 'leduc_poker' need names",
    "leduc_poker(players=abc)": "players in 'leduc_poker\\(players=abc\\)' must be a whole number, not abc",
    "leduc_poker(players=2.0)": "must be a whole number, not 2.0",
    "leduc_poker(players=true)": "must be a whole number, not true",
    "leduc_poker(reworded=3)": "'leduc_poker' cannot be reworded",
    "goofspiel(imp_info=maybe)": "imp_info in .* must be true or false, not maybe",
    "pathfinding(step_reward=[1])": "step_reward in .* must be a number, not \\[1\\]",
    "repeated_game": "'repeated_game' needs parameters: num_repetitions, recall, stage_game",
    "repeated_game(stage_game=3)": "stage_game in .* must be a game, not 3",
    "misere(game=nosuch)": "unknown game 'nosuch'",
    "misere(game=mfg_garnet)": "'mfg_garnet' cannot be played",
    "misere(game=leduc_poker(players=x))": "players in 'leduc_poker\\(players=x\\)' must be a whole number",
    "kuhn_poker(players=abc)": "players must be a whole number from 2 to 10, not abc",
    "kuhn_poker(players=1)": "players must be a whole number from 2 to 10, not 1",
    "kuhn_poker(seats=3)": "unknown parameter 'seats' in .*; world 'kuhn_poker' takes players=2, reworded",
    "rps(rounds=-1)": "rounds must be a whole number from 1 to 1000, not -1",
    "rps(rounds=true)": "rounds must be a whole number from 1 to 1000, not true",
    "rps(reworded=abc)": "reworded must be a whole number, the seed of the new words, not abc",
    "tic_tac_toe(reworded=true)": "reworded must be a whole number",
    "matrix": "missing 'payoffs'",
    "matrix(3)": "payoffs of a matrix game must be a square of numbers, 2 or more a side, not 3",
    "matrix([[1]])": "payoffs of a matrix game must be a square",
    "matrix([[1,2],[3]])": "payoffs of a matrix game must be a square",
    "matrix([[1,a],[2,3]])": "payoffs of a matrix game must be a square of numbers",
    "matrix([[1,2],[3,4]],columns=[[1]])": "columns of a matrix game must be a square of numbers, 2 a side",
    "matrix([[1,2],[3,4]],moves=abc)": "moves of a matrix game of size 2 must be a list of 2, not abc",
    "matrix([[1,2],[3,4]],moves=[a,A])": "moves of a matrix game must be different, not \\[a,A\\]",
    "matrix([[1,2],[3,4]],moves=[a,[b]])": "a move of a matrix game must be a word, not \\[b\\]",
    "matrix([[1,2],[3,4]],name=1.5)": "name of a matrix game must be a word, not 1.5",
    # What only a try-out can tell: OpenSpiel refuses, crashes or cannot be played on.
    "leduc_poker(players=99)": "'leduc_poker\\(players=99\\)' cannot be played: num_players_ <= ",
    "repeated_game(stage_game=tic_tac_toe,num_repetitions=2)": "cannot be played: stage_game.MaxGameLength",
    "hanabi(players=7)": "OpenSpiel crashes on these parameters \\(SIGABRT\\)",
    "universal_poker(numPlayers=3)": "OpenSpiel crashes on these parameters \\(SIGSEGV\\)",
    "crazy_eights(max_draw_cards=0)": "cannot be played: seat . has no legal action",
}


@pytest.mark.parametrize("spec", REFUSED)
def test_bad_specs_are_refused_in_one_line_and_in_silence(spec: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=REFUSED[spec]) as caught:
        load_game(spec)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_parameters_get_the_types_that_openspiel_wants() -> None:
    assert load_game("pathfinding(step_reward=-1)").lowest < -1000
    assert load_game("goofspiel(points_order=descending)").rules.num_players() == 2
    assert load_game("misere(game=kuhn_poker(players=3))").num_seats == 3
    assert load_game("turn_based_simultaneous_game(game=goofspiel(num_cards=3))").num_seats == 2


def test_actions_that_read_alike_get_their_numbers() -> None:
    assert distinct(["up", "down"], [0, 1]) == ("up", "down")
    assert distinct(["up", "up", ""], [3, 4, 5]) == ("up (3)", "up (4)", "(5)")
    with pytest.raises(PlayError, match="cannot be told apart"):
        distinct(["up (4)", "up", "up"], [3, 4, 5])


def test_rewards_are_what_a_seat_gains_until_its_next_turn() -> None:
    episode = play_forced("rps(rounds=2)", {0: ["rock", "rock"], 1: ["scissors", "paper"]}, seed=1)
    assert [(t.observation.seat, t.reward) for t in episode.turns] == [(0, 0.5), (1, -0.5), (0, -0.5), (1, 0.5)]
    assert episode.result.returns == (0.0, 0.0)


def test_a_forfeit_costs_the_minimum_whatever_was_won_before() -> None:
    episode = play_forced("rps(rounds=2)", {0: ["rock", None], 1: ["scissors"]}, seed=1)
    assert [(t.observation.seat, t.action, t.reward) for t in episode.turns] == [
        (0, "rock", 0.5),
        (1, "scissors", 0.0),
        (0, None, -1.5),
    ]
    assert episode.result.returns == (-1.0, 0.0)
    assert (episode.result.ending, episode.result.forfeited_by) == (Ending.FORFEITED, 0)


def test_an_episode_that_is_too_long_is_cut() -> None:
    episode = play_forced("rps(rounds=3)", {0: ["rock"] * 3, 1: ["scissors"] * 3}, seed=1, max_turns=3)
    assert [t.reward for t in episode.turns] == [1 / 3, -1 / 3, 0.0]
    assert episode.result.ending is Ending.TRUNCATED
    assert episode.result.returns == (1 / 3, -1 / 3)


def test_equal_tasks_deal_alike_and_episodes_deal_afresh() -> None:
    def deals(seed: int, replay: bool) -> list[Any]:
        task = Task("kuhn_poker(players=5)", ("uniform",) * 4, 0, seed, 3, replay, False, 100)
        return [AnyWorld().new_env(task, episode).observe(0).facts["card"] for episode in range(12)]

    assert deals(1, replay=False) == deals(1, replay=False)
    assert deals(1, replay=False) != deals(2, replay=False)
    assert len({*deals(1, replay=False)}) > 2
    assert len({*deals(1, replay=True)}) == 1


def test_chance_follows_its_odds() -> None:
    task = Task("kuhn_poker", ("uniform",), 0, 1, 1, False, False, 100)
    new_env = AnyWorld().new_env
    cards = [new_env(task, episode).observe(0).facts["card"] for episode in range(3000)]
    assert all(abs(cards.count(card) - 1000) < 130 for card in range(3))  # five standard deviations


@pytest.mark.parametrize("spec", ["kuhn_poker", "rps(rounds=2)", "tic_tac_toe"])
def test_positions_that_are_kept_say_what_fresh_states_say(spec: str) -> None:
    game = load_game(spec)
    for seed in range(30):
        rng = random.Random(seed)
        position, state = game.positions.start(seed), game.start(seed)
        while not state.is_terminal():
            action = rng.choice([a for a, _ in position.chance] or state.legal_actions())
            position = game.positions.after(position, action)
            state.apply_action(action)
            assert position.mover == (None if state.current_player() < 0 else state.current_player())
            assert position.scores == game.scores(state)
            for seat in range(2):
                if not state.is_chance_node():
                    assert position.view(seat) == game.view(state, seat)
        assert position.result == game.finished(state)


def num_kept(position: Position) -> int:
    return 1 + sum(map(num_kept, position.after.values()))


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "_KEPT", 5)
    game = load_game("rps(rounds=2,reworded=99)")
    for seed in range(50):
        task = Task(game.spec, ("uniform",), 0, seed, 1, False, False, 100)
        env = OpenSpielEnv(game, task, 0)
        while (seat := env.to_move()) is not None:
            seen = env.observe(seat)
            env.step(seen.actions[seed % 3])
        assert env.result().facts["rounds"] == ((seed % 3, seed % 3),) * 2
        assert num_kept(game.positions.start(0)) <= 1 + 5 + 4, "a game that has begun may still add its four moves"
