"""Whole trials as text, one file per game and memory mode. `python -m tests.goldens` writes them anew.

They are read by people: a change of wording shows as a change of these files.
"""

from __future__ import annotations

from pathlib import Path

from mage.agents.byte_format import ByteFormat
from mage.seeds import stream
from mage.types import Memory, Task, Trial
from tests.seated import make_settings, play_scripted

FOLDER = Path(__file__).parent / "golden"

GAMES = {
    "rps": ("rps", 0),
    "rps-reworded": ("rps(reworded=1)", 1),
    "pd": ("pd(rounds=2)", 0),
    "pennies": ("pennies(rounds=2)", 1),
    "matrix": ('matrix([[2,0],[0,1]],columns=[[1,0],[0,2]],moves=[opera,football],name="a night out",rounds=1)', 1),
    "kuhn_poker": ("kuhn_poker", 0),
    "kuhn_poker-reworded": ("kuhn_poker(reworded=1)", 1),
    "kuhn_poker-3": ("kuhn_poker(players=3)", 1),
    "tic_tac_toe": ("tic_tac_toe", 0),
    "tic_tac_toe-reworded": ("tic_tac_toe(reworded=1)", 1),
    "tic_tac_toe-opening": ("tic_tac_toe(opening=2)", 0),
    "leduc_poker": ("leduc_poker", 0),
}
"""Game and seat by the name of the file."""


def golden_path(name: str, memory: Memory) -> Path:
    """Where a golden transcript is kept."""
    return FOLDER / f"{name}-{memory.value}.txt"


def play_golden(name: str, memory: Memory) -> Trial:
    """Three episodes of a model that answers at random, against uniform opponents."""
    spec, seat = GAMES[name]
    opponents = ("uniform",) * (2 if name.endswith("-3") else 1)
    task = Task(spec, opponents, seat, seed=4, episodes=3, replay_deal=False, early_stop=False, max_turns=100)
    return play_scripted(task, _drawn, make_settings(memory=memory))


def shown(trial: Trial) -> str:
    """A trial as a person reads it: every stream, then how each episode ended."""
    chat_format = ByteFormat()
    streams = [f"=== stream {i + 1} ===\n{chat_format.transcript(ids)}\n" for i, ids in enumerate(trial.streams)]
    scores = ", ".join(f"{score:+.2f}" for score in trial.scores)
    return "\n".join([*streams, f"=== scores ===\n{scores}\n"])


def _drawn(prompt: str, choices: tuple[str, ...]) -> str:
    """One of the choices, by the prompt alone; notes have a number instead of a thought."""
    rng = stream(0, "golden", prompt)
    return rng.choice(choices) if choices else f"Note {rng.randrange(100)}."


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in GAMES:
        for memory in Memory:
            golden_path(name, memory).write_text(shown(play_golden(name, memory)), encoding="utf-8")
