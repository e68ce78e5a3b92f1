"""The vocabulary of `nano`: all words of the games and prompts.

Games with their own words are played at random, in original and in neutral words, and all resulting prompts are split
into words. To save tokens, white space and closing punctuation are dropped, and a score such as `+0.33` is one token.
Other numbers are split into digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from mage.agents.briefing import Briefing
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
from mage.types import REFLECT_REQUEST, Memory, Observation, ReplyMode, Task
from mage.worlds.openspiel.game import OpenSpielEnv, load_game
from mage.worlds.openspiel.words.base import NEUTRAL

GAMES = (
    *("rps", "pennies", "pd", "kuhn_poker", "kuhn_poker(players=3)", "tic_tac_toe"),
    *("rps(reworded=0)", "pennies(reworded=0)", "pd(reworded=0)", "kuhn_poker(reworded=0)", "tic_tac_toe(reworded=0)"),
    *("rps(rounds=1)", "matrix([[1,0],[0,1]])", "matrix([[1,0],[0,1]],columns=[[1,0],[0,2]])"),
)
"""Games played to collect all words; reworded games share the neutral names, which are all in the vocabulary."""
_PLAYS = 24
_SIGNS = ("+", "-", ".", *"0123456789")

DROPPED = r"(?<=[\w>])[.,:;?!](?=\s|\Z)"
"""Closing punctuation. A single point is an empty cell of a board and is kept."""
_NUMBER = r"(?<![\w.])(?:{})(?!\w|\.\d)"
_PIECE = r"[A-Za-z]+(?:['-][A-Za-z]+)*\d*|</?[a-z]+>|\d|\S"


@lru_cache(maxsize=8)
def vocabulary(extra: tuple[str, ...] = ()) -> tuple[str, ...]:
    """All words in alphabetical order, `extra` words included.

    >>> {"rock", "bet", "b2", "+0.33", "<action>", "opponent", "7"} <= set(vocabulary())
    True
    """
    pattern = re.compile(f"{_NUMBER.format(r'[+-][0-9]+(?:[.][0-9]+)?')}|{_PIECE}")
    words = {*_SIGNS, *NEUTRAL, *(word for text in extra for word in text.split())}
    for text in {text for game in GAMES for text in _texts_of(game)}:
        words.update(pattern.findall(re.sub(DROPPED, "", text)))
    return tuple(sorted(word for word in words if word.isascii()))


def piece_pattern(words: Iterable[str]) -> str:
    """The regular expression that splits a text into words; known numbers are one word.

    >>> re.findall(piece_pattern(["+0.33"]), "rock-paper a1 +0.33 +0.5")
    ['rock-paper', 'a1', '+0.33', '+', '0', '.', '5']
    """
    numbers = [word for word in words if len(word) > 1 and re.fullmatch(r"[+-]?\d+(?:\.\d+)?", word)]
    known = "|".join(map(re.escape, sorted(numbers, key=lambda word: (-len(word), word))))
    return f"{_NUMBER.format(known)}|{_PIECE}" if known else _PIECE


def _texts_of(spec: str) -> Iterator[str]:
    """All prompts about a game, in every memory and reply mode."""
    game = load_game(spec)
    for seat in range(game.num_seats):
        briefing = Briefing(game.rules_for(seat))
        yield from (system_message(briefing, episodes, m, r) for episodes in (1, 2) for m in Memory for r in ReplyMode)
    seen: dict[str, Observation] = {}
    for play in range(_PLAYS):
        for observation in _random_episode(spec, play):
            seen.setdefault(observation.text + ",".join(observation.actions), observation)
    for observation in seen.values():
        yield turn_message(observation, ())
        yield outcome_message(observation)
    some = next(iter(seen.values()))
    yield episode_heading(0, 2, Memory.BOTH) + reflect_message(some, REFLECT_REQUEST) + notes_message([(0, "a note")])
    for answer in ("", "<action>", "<action>NAME</action>"):
        yield retry_message(parse_action(answer, some.actions).problem or "", some)


def _random_episode(spec: str, play: int) -> Iterator[Observation]:
    """All observations of one episode of random moves; a few episodes are truncated or forfeited."""
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
