"""The words that games and prompts use: the vocabulary of `nano`.

Games with words of their own are played at random, in plain and in neutral words, and everything an agent could
be told about them is cut into words. Every token costs time on a small machine, so white space and the marks
that close a clause cost none, and a score such as `+0.33` is one token. A number that was never seen is read
digit by digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from mage.agents.messages import (
    episode_heading,
    notes_message,
    outcome_message,
    reflect_message,
    retry_message,
    system_message,
    turn_message,
)
from mage.agents.parsing import parse_action
from mage.seeds import stream
from mage.types import Memory, Observation, ReplyMode, Task
from mage.worlds.openspiel.game import OpenSpielEnv, load_game
from mage.worlds.openspiel.words.base import NEUTRAL

GAMES = (
    *("rps", "pennies", "pd", "kuhn_poker", "kuhn_poker(players=3)", "tic_tac_toe"),
    *("rps(reworded=0)", "pennies(reworded=0)", "pd(reworded=0)", "kuhn_poker(reworded=0)", "tic_tac_toe(reworded=0)"),
    *("rps(rounds=1)", "matrix([[1,0],[0,1]])", "matrix([[1,0],[0,1]],columns=[[1,0],[0,2]])"),
)
"""What is played to hear all words; reworded games share the neutral names, all of which are known."""
_PLAYS = 24
_SIGNS = ("+", "-", ".", *"0123456789")

DROPPED = r"(?<=[\w>])[.,:;?!](?=\s|\Z)"
"""Marks that close a clause. A point that stands alone is an empty cell and is kept."""
_NUMBER = r"(?<![\w.])(?:{})(?!\w|\.\d)"
_PIECE = r"[A-Za-z]+(?:['-][A-Za-z]+)*\d*|</?[a-z]+>|\d|\S"


@lru_cache(maxsize=8)
def vocabulary(extra: tuple[str, ...] = ()) -> tuple[str, ...]:
    """All words in alphabetical order, with `extra` ones.

    >>> {"rock", "bet", "b2", "+0.33", "<action>", "opponent", "7"} <= set(vocabulary())
    True
    """
    heard = re.compile(f"{_NUMBER.format(r'[+-][0-9]+(?:[.][0-9]+)?')}|{_PIECE}")
    words = {*_SIGNS, *NEUTRAL, *(word for text in extra for word in text.split())}
    for text in {text for game in GAMES for text in _heard(game)}:
        words.update(heard.findall(re.sub(DROPPED, "", text)))
    return tuple(sorted(word for word in words if word.isascii()))


def piece_pattern(words: Iterable[str]) -> str:
    """The regular expression that cuts a text into words; known numbers are whole.

    >>> re.findall(piece_pattern(["+0.33"]), "rock-paper a1 +0.33 +0.5")
    ['rock-paper', 'a1', '+0.33', '+', '0', '.', '5']
    """
    numbers = [word for word in words if len(word) > 1 and re.fullmatch(r"[+-]?\d+(?:\.\d+)?", word)]
    known = "|".join(map(re.escape, sorted(numbers, key=lambda word: (-len(word), word))))
    return f"{_NUMBER.format(known)}|{_PIECE}" if known else _PIECE


def _heard(spec: str) -> Iterator[str]:
    """All that an agent may be told about a game, in any mode."""
    game = load_game(spec)
    for seat in range(game.num_seats):
        rules = game.rules_for(seat)
        yield from (system_message(rules, episodes, m, r) for episodes in (1, 2) for m in Memory for r in ReplyMode)
    seen: dict[str, Observation] = {}
    for play in range(_PLAYS):
        for observation in _played(spec, play):
            seen.setdefault(observation.text + ",".join(observation.actions), observation)
    for observation in seen.values():
        yield turn_message(observation, ())
        yield outcome_message(observation)
    some = next(iter(seen.values()))
    yield episode_heading(0, 2, Memory.BOTH) + reflect_message(some) + notes_message([(0, "a note")])
    for answer in ("", "<action>", "<action>NAME</action>"):
        yield retry_message(parse_action(answer, some.actions).problem or "", some)


def _played(spec: str, play: int) -> Iterator[Observation]:
    """What every seat sees in one game of random moves; a few are cut short or given up."""
    game = load_game(spec)
    max_turns = 1 if play == 0 else 1000
    task = Task(spec, ("uniform",) * (game.num_seats - 1), 0, play, 1, False, False, max_turns)
    env, rng = OpenSpielEnv(game, task, 0), stream(play, "vocabulary", spec)
    while (seat := env.to_move()) is not None:
        observation = env.observe(seat)
        yield observation
        env.step(None if play == 1 else rng.choice(observation.actions))
    for seat, outcome in enumerate(env.result().outcomes):
        yield Observation(seat, 0, 0, outcome, (), (), "", {})
