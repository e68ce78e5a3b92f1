"""Plays a few random turns of a game in a subprocess that may crash: `python -m mage.worlds.openspiel.tryout SPEC`."""

from __future__ import annotations

import sys
from types import TracebackType

from mage.errors import PlayError
from mage.seeds import uniform
from mage.spec import parse_spec
from mage.types import Task
from mage.worlds.openspiel.game import OpenSpielEnv, generic_game
from mage.worlds.openspiel.rules import load_untried

NUM_TURNS = 100


def play_random_turns(text: str) -> None:
    """Play random moves to the end or for `NUM_TURNS`; errors are raised."""
    spec = parse_spec(text)
    env = OpenSpielEnv(generic_game(spec, load_untried(spec)), Task(text, (), 0, 1, 1, False, False, NUM_TURNS), 0)
    turn = 0
    while (seat := env.to_move()) is not None:
        actions = env.observe(seat).actions
        if not actions:
            raise PlayError(f"seat {seat} has no legal action in turn {turn + 1}")
        env.step(actions[int(uniform(1, turn) * len(actions))])
        turn += 1
    env.result()


def _say_why(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    print(" ".join(str(error).split()) or kind.__name__)


if __name__ == "__main__":
    sys.excepthook = _say_why
    play_random_turns(sys.argv[1])
