"""What a model reaches by prompting alone: zero-shot, history, ReAct, Reflexion and two external memories.

    python benchmarks/prompting.py [rps kuhn] --out FOLDER [--model smollm2] [--trials 20] [--device cuda]

Actions are chosen among the legal ones; thoughts and notes are free text of up to 32 tokens. One evaluation for each
method and game, all on the same trials; those that are there already are left as they are. Writes a comparison for each
game beside them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import mage
from mage.config.load import load_config

METHODS = {
    "zero-shot": ("plain", "none"),
    "history": ("plain", "history"),
    "react": ("react", "history"),
    "reflexion": ("reflexion", "reflections"),
    "linked-notes": ("linked-notes", "reflections"),
    "cases": ("cases", "history"),
}
"""Each method and what it remembers of itself, the usual memory of it."""
GAMES = ("rps", "kuhn")
"""Each is judged as the trained methods are, by `rps-llm-base` and `kuhn-llm-base`: on their splits, in their seats."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", nargs="*", default=list(GAMES), metavar="GAME", help=f"of {', '.join(GAMES)}")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--trials", type=int, default=20, help="trials per member and seat")
    parser.add_argument("--tokens", type=int, default=32, help="most tokens of a thought or a note")
    parser.add_argument("--context", type=int, default=2048, help="most tokens of a prompt and its answer")
    parser.add_argument("--slots", type=int, default=0, help="most calls that run together, where the card is shared")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    unknown = [name for name in args.games if name not in GAMES]
    if unknown:
        parser.error(f"unknown game {', '.join(unknown)}; known: {', '.join(GAMES)}")
    for game in args.games:
        trained = load_config(f"{game}-llm-base")
        folders = [args.out / game / method for method in METHODS]
        for folder, (method, memory) in zip(folders, METHODS.values(), strict=True):
            if folder.exists():
                continue
            start = time.perf_counter()
            how = {
                "agent.method": method,
                "agent.memory": memory,
                "agent.reply": "choice",
                "agent.max_tokens": args.tokens,
                "agent.reflection_tokens": args.tokens,
                "agent.context": args.context,
                "agent.slots": args.slots,
                "trial.seats": trained.trial.seats,
                "device": args.device,
            }
            mage.evaluate(args.model, how, opponents=trained.evaluation.splits, trials=args.trials, folder=folder)
            print(f"{game} {folder.name}: {time.perf_counter() - start:.0f} s", flush=True)
        compared = mage.compare(*(f"{folder.name}={folder}" for folder in folders))
        compared.write(args.out / f"{game}-compared", plots=False)
        print(compared, flush=True)


if __name__ == "__main__":
    main()
