"""How games read: right, short, and in other words where they are reworded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from mage.errors import ConfigError
from mage.seeds import uniform
from mage.spec import parse_spec
from mage.types import Observation, Result, Task
from mage.worlds.openspiel.game import OpenSpielEnv, load_game
from mage.worlds.openspiel.words.base import NEUTRAL, lexicon, signed

PLAIN_WORDS = {
    "rps": "rock paper scissors rock-paper-scissors",
    "rps(rounds=1)": "rock paper scissors",
    "pd": "prisoner prisoners prisoner's dilemma cooperate defect betray",
    "pennies": "matching pennies penny coin heads tails",
    'matrix([[2,0],[0,1]],moves=[stag,hare],name="the hunt")': "hunt stag hare",
    "kuhn_poker": "kuhn poker card cards chip chips bet bets betting pass call fold raise jack queen king pot",
    "kuhn_poker(players=4)": "kuhn poker card cards chip chips bet bets pass call fold nine ten jack queen king pot",
    "tic_tac_toe": "tic tac toe tic-tac-toe noughts crosses x o a1 a2 a3 b1 b2 b3 c1 c2 c3",
}


def reworded(spec: str, seed: int) -> str:
    """The same game in other words."""
    parsed = parse_spec(spec)
    return str(type(parsed)(parsed.name, parsed.args, tuple(sorted([*parsed.kwargs, ("reworded", seed)]))))


def play(spec: str, seed: int) -> tuple[list[Observation], Result]:
    """A game in which the choices depend on the seed and the turn alone, seen by everybody."""
    env = OpenSpielEnv(load_game(spec), Task(spec, (), 0, seed, 1, False, False, 100), 0)
    seen: list[Observation] = []
    while (mover := env.to_move()) is not None:
        seen += [env.observe(seat) for seat in range(load_game(spec).num_seats)]
        actions = env.observe(mover).actions
        env.step(actions[int(uniform(seed, "choice", len(seen)) * len(actions))])
    return seen, env.result()


def texts(spec: str, seed: int) -> Iterator[str]:
    """All that anybody reads in a game."""
    game = load_game(spec)
    yield from (game.words.rules(seat) for seat in range(game.num_seats))
    seen, result = play(spec, seed)
    for observation in seen:
        yield from (observation.text, *observation.actions)
    yield from result.outcomes


@pytest.mark.parametrize("spec", PLAIN_WORDS)
def test_a_reworded_game_shows_no_plain_word(spec: str) -> None:
    plain = "|".join(map(re.escape, PLAIN_WORDS[spec].split()))
    telltale = re.compile(rf"(?<![\w-])(?:{plain})(?![\w-])", re.IGNORECASE)
    assert any(telltale.search(text) for text in texts(spec, 1))
    for words_seed in range(5):
        for seed in range(10):
            for text in texts(reworded(spec, words_seed), seed):
                assert not telltale.search(text), text


@pytest.mark.parametrize("spec", PLAIN_WORDS)
def test_rewording_changes_the_words_and_nothing_else(spec: str) -> None:
    for seed in range(10):
        seen, result = play(spec, seed)
        other_seen, other_result = play(reworded(spec, 3), seed)
        assert result.returns == other_result.returns
        assert result.facts == other_result.facts
        assert [(o.seat, o.turn, o.ids, o.key, o.facts) for o in seen] == [
            (o.seat, o.turn, o.ids, o.key, o.facts) for o in other_seen
        ]
        assert all(o.actions != p.actions for o, p in zip(seen, other_seen, strict=True) if o.actions)


@pytest.mark.parametrize("spec", PLAIN_WORDS)
def test_new_words_are_fixed_by_their_seed(spec: str) -> None:
    assert list(texts(reworded(spec, 1), 5)) == list(texts(reworded(spec, 1), 5))
    different = {load_game(reworded(spec, seed)).words.rules(0) for seed in range(20)}
    assert len(different) >= 19


def test_neutral_names_differ_from_the_first_letter_on() -> None:
    assert len({name[0] for name in NEUTRAL}) == len(NEUTRAL)
    plain = {word for words in PLAIN_WORDS.values() for word in words.split()}
    assert not plain & {*NEUTRAL}


def test_a_game_of_too_many_terms_cannot_be_reworded() -> None:
    terms = [f"t{i}" for i in range(len(NEUTRAL) + 1)]
    assert lexicon("g", terms, None) == dict(zip(terms, terms, strict=True))
    with pytest.raises(ConfigError, match="cannot reword 25 terms of g; at most 24"):
        lexicon("g", terms, 1)


LONGEST_RULES = 90
"""Words; every word costs tokens in every trial."""


@pytest.mark.parametrize("spec", [*PLAIN_WORDS, "kuhn_poker(players=3)"])
def test_rules_and_observations_are_short(spec: str) -> None:
    game = load_game(spec)
    assert all(len(game.words.rules(seat).split()) <= LONGEST_RULES for seat in range(game.num_seats))
    for observation in play(spec, 1)[0]:
        assert len(observation.text.split()) <= 20


def rules(spec: str, seat: int = 0) -> str:
    return load_game(spec).words.rules(seat)


def test_pay_offs_are_explained_from_the_seats_own_side() -> None:
    assert "rock beats scissors, paper beats rock, scissors beats paper. A win is +1, a loss -1, a draw 0." in rules(
        "rps"
    )
    assert "heads against heads +1, heads against tails -1" in rules("pennies", 0)
    assert "heads against heads -1, heads against tails +1" in rules("pennies", 1)
    assert "The opponent gets the opposite." in rules("pennies", 1)
    assert "cooperate against defect 0, defect against cooperate +5" in rules("pd", 1)
    assert "The opponent's points follow the same rule." in rules("pd")
    evening = "matrix([[2,0],[0,1]],columns=[[1,0],[0,3]],moves=[opera,football])"
    assert "opera against opera +2 and +1" in rules(evening, 0)
    assert "football against football +3 and +1" in rules(evening, 1)
    assert "The second number is the opponent's." in rules(evening, 1)
    lopsided = "matrix([[1,2],[3,4]],columns=[[5,6],[7,8]],moves=[a,b])"
    assert "a against a +1 and +5, a against b +2 and +6, b against a +3 and +7" in rules(lopsided, 0)
    assert "a against a +5 and +1, a against b +7 and +3, b against a +6 and +2" in rules(lopsided, 1)


def test_rounds_are_named_only_where_there_are_several() -> None:
    assert "An episode has 4 rounds. In each round both choose" in rules("rps(rounds=4)")
    assert "Your score is the mean over the rounds." in rules("rps(rounds=4)")
    assert "mean" not in rules("rps(rounds=1)")
    assert "Both choose at the same time: rock, paper or scissors." in rules("rps(rounds=1)")


def test_a_matrix_game_tells_each_seat_the_last_round_from_its_side() -> None:
    seen, result = play("matrix([[1,2],[3,4]],columns=[[5,6],[7,8]],moves=[a,b],rounds=2)", 3)
    first: Any = seen[4].facts["rounds"]
    assert seen[5].facts["rounds"] == tuple((theirs, mine) for mine, theirs in first)
    mine, theirs = ("ab"[move] for move in first[0])
    assert seen[4].text == f"Round 2 of 2. Last round: you {mine}, opponent {theirs}."
    assert seen[5].text == f"Round 2 of 2. Last round: you {theirs}, opponent {mine}."
    assert seen[0].text == "Round 1 of 2."
    assert result.outcomes[0].endswith(f"Your score: {signed(result.returns[0])}.")


def test_three_players_of_kuhn_poker_are_told_apart() -> None:
    game = load_game("kuhn_poker(players=3)")
    state = game.start(0)
    for action in (3, 0, 1, 0, 1, 1, 0):
        state.apply_action(action)
    assert game.words.rules(1).count("you are player 2 of 3") == 1
    assert game.words.outcome(state, 0) == (
        "Your card: king.\nPlay: you pass, player 2 bet, player 3 bet, you pass.\n"
        "Shown: player 2 ten, player 3 jack.\nYour score: -1."
    )
    assert game.words.outcome(state, 2).endswith("Shown: player 2 ten, you jack.\nYour score: +3.")


def test_a_board_shows_marks_and_free_cells() -> None:
    game = load_game("tic_tac_toe")
    state = game.start(0)
    for cell in (4, 0):
        state.apply_action(cell)
    assert game.words.observe(state, 0) == "You are X.\n  a b c\n1 O . .\n2 . X .\n3 . . ."
    view = game.view(state, 0)
    assert dict(zip(view.actions, view.ids, strict=True)) == {
        "b1": 1,
        "c1": 2,
        "a2": 3,
        "c2": 5,
        "a3": 6,
        "b3": 7,
        "c3": 8,
    }
    assert view.facts["board"] == (("o", None, None), (None, "x", None), (None, None, None))
    other = load_game("tic_tac_toe(reworded=1)").words
    shown = other.observe(state, 1).splitlines()
    assert shown[0] == "You are @."
    assert shown[1].split() == ["@", *(other.action(state, 1, cell) for cell in (1, 2))]


def test_generic_words_frame_what_openspiel_says() -> None:
    assert (
        rules("leduc_poker", 1)
        == "The game is Leduc Poker. You are player 1, one of 2 players. Scores go from -13 to +13."
    )
    assert "You are player 0, the only player." in rules("catch")
    game = load_game("oshi_zumo")
    assert game.words.observe(game.start(0), 0) == "Coins: 50 50, Field: #...W...#"
    empty = load_game("repeated_game(stage_game=matrix_pd,num_repetitions=2)")
    assert empty.words.observe(empty.start(0), 0) == "Nothing has happened yet."
