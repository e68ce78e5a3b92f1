"""The vocabulary of `nano`: the words of the worlds that it is made for, and of their prompts.

Each world is played at random with several seeds, and all that an agent may be told there, in every memory and reply
mode, is split into words. To save tokens, white space and closing punctuation are dropped, and a score such as `+0.33`
is one token. Other numbers are split into digits. An action that its words would not spell, such as `turn_left`, is one
token too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from mage.agents.briefing import Briefing, briefing_of
from mage.agents.messages import (
    episode_heading,
    notes_message,
    outcome_message,
    reflect_message,
    retry_message,
    system_message,
    turn_message,
)
from mage.agents.parsing import parse_action, parse_open_action
from mage.protocols import World
from mage.seeds import stream
from mage.types import Memory, Observation, ReplyMode, Task
from mage.worlds.registry import load_world

_PLAYS = 100
_MOST_OBSERVATIONS = 4000
"""Fewer plays are made of worlds whose episodes are long."""
_OPEN_TURNS = 20
"""Turns of an episode in which random words are played, because any text is an action."""
_SIGNS = ("+", "-", ".", *"0123456789")

DROPPED = r"(?<=[\w>])[.,:;?!](?=\s|\Z)"
"""Closing punctuation. A single point is an empty cell of a board and is kept."""
_NUMBER = r"(?<![\w.])(?:{})(?!\w|\.\d)"
_PIECE = r"[A-Za-z]+(?:['-][A-Za-z]+)*\d*|</?[a-z]+>|\d|\S"
_WORD = re.compile(f"{_NUMBER.format(r'[+-][0-9]+(?:[.][0-9]+)?')}|{_PIECE}")


@lru_cache(maxsize=8)
def vocabulary(worlds: tuple[str, ...], extra: tuple[str, ...] = ()) -> tuple[str, ...]:
    """All words of the worlds and of the prompts in alphabetical order, `extra` words included.

    >>> {"rock", "+0.33", "<action>", "opponent", "7"} <= set(vocabulary(("rps(rounds=3)",)))
    True
    """
    words = {*_SIGNS, *(word for text in extra for word in text.split())}
    texts = {*_prompts(Briefing(""), _NOTHING)}
    for world in worlds:
        seen = tuple(_observations(world, load_world(world)))
        texts.update(_texts_of(world, seen))
        words.update(filter(_needs_token, {action for observation in seen for action in observation.actions}))
    words.update(word for text in texts for word in words_of(text))
    return tuple(sorted(words))


def words_of(text: str) -> list[str]:
    """A text as words.

    >>> words_of("Round 2 of 12: you won, +0.33.")
    ['Round', '2', 'of', '1', '2', 'you', 'won', '+0.33']
    """
    return _WORD.findall(re.sub(DROPPED, "", text))


def _needs_token(action: str) -> bool:
    """Whether an action's words do not spell it, so that it needs a token of its own; closing punctuation has none.

    >>> list(map(_needs_token, ["bet 2", "turn_left", "wait!"]))
    [False, True, False]
    """
    return " ".join(words_of(action)) != action == re.sub(DROPPED, "", action)


def actions_of(spec: str) -> list[str]:
    """The actions that random play of a world comes across, sorted; none where any text is an action."""
    return sorted({action for observation in _observations(spec, load_world(spec)) for action in observation.actions})


def piece_pattern(words: Iterable[str]) -> str:
    """The regular expression that splits a text into words; known numbers and actions are one word.

    >>> re.findall(piece_pattern(["+0.33", "turn_left"]), "rock-paper a1 +0.33 +0.5 turn_left turn_right")
    ['rock-paper', 'a1', '+0.33', '+', '0', '.', '5', 'turn_left', 'turn', '_', 'right']
    """
    longest_first = sorted((word for word in words if not re.fullmatch(_PIECE, word)), key=lambda w: (-len(w), w))
    numbers = [re.escape(word) for word in longest_first if re.fullmatch(r"[+-]?\d+(?:\.\d+)?", word)]
    others = [re.escape(word) for word in longest_first if not re.fullmatch(r"[+-]?\d+(?:\.\d+)?", word)]
    patterns = {rf"(?<!\w)(?:{'|'.join(others)})(?!\w)": others, _NUMBER.format("|".join(numbers)): numbers}
    return "|".join([*(pattern for pattern, known in patterns.items() if known), _PIECE])


_NOTHING = Observation(0, 0, 0, "", (), (), "", {})


def _texts_of(spec: str, seen: Sequence[Observation]) -> Iterator[str]:
    """All prompts about a world, in every memory and reply mode."""
    world = load_world(spec)
    for observation in seen:
        yield turn_message(observation, ())
        yield outcome_message(observation)
    for seat in range(world.info.num_seats):
        yield from _prompts(briefing_of(world, _task(spec, world, seat, 0)), seen[0])


def _prompts(briefing: Briefing, some: Observation) -> Iterator[str]:
    """The prompts around the observations."""
    yield from (system_message(briefing, episodes, m, r) for episodes in (1, 2) for m in Memory for r in ReplyMode)
    yield episode_heading(0, 2, Memory.BOTH)
    yield reflect_message(some, briefing.reflect) + notes_message([(0, "a note")])
    for answer in ("", "<action>", "<action></action>", "<action>NAME</action>"):
        parsed = parse_open_action(answer) if briefing.has_open_actions else parse_action(answer, some.actions)
        yield retry_message(parsed.problem or "", some)


def _observations(spec: str, world: World) -> Iterator[Observation]:
    """What is observed in episodes of random play, and how these end."""
    return islice(
        (observation for play in range(_PLAYS) for observation in _random_episode(spec, world, play)),
        _MOST_OBSERVATIONS,
    )


def _random_episode(spec: str, world: World, play: int) -> Iterator[Observation]:
    """All observations of one episode of random moves; the first episode is truncated, the second forfeited."""
    env = world.new_env(_task(spec, world, 0, play), 0)
    rng = stream(play, "vocabulary", spec)
    while (seat := env.to_move()) is not None:
        observation = env.observe(seat)
        yield observation
        choices = observation.actions or words_of(observation.text) or ("nothing",)
        env.step(None if play == 1 else rng.choice(choices))
    for seat, outcome in enumerate(env.result().outcomes):
        yield Observation(seat, 0, 0, outcome, (), (), "", {})


def _task(spec: str, world: World, seat: int, play: int) -> Task:
    max_turns = 1 if play == 0 else _OPEN_TURNS if world.info.has_open_actions else 1000
    return Task(spec, ("uniform",) * (world.info.num_seats - 1), seat, play, 1, False, False, max_turns)
