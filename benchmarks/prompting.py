"""What a model reaches by prompting alone: zero-shot, history, notes, ReAct, Reflexion and two external memories.

    python benchmarks/prompting.py [rps kuhn doors] --out FOLDER [--model smollm2] [--trials 20] [KEY=VALUE …]

Actions are chosen among the legal ones; thoughts and notes are free text of up to 32 tokens. `KEY=VALUE` overrides
this, as `agent.reply=text` does; `agent.prefill` holds for the plain prompts alone, the others ask for thoughts. One
evaluation for each method and game, all on the same trials; those that are there already are left as they are. Writes
a comparison for each game beside them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import mage
from mage.config.load import load_config, parse_override

METHODS = {
    "zero-shot": ("plain", "none"),
    "history": ("plain", "history"),
    "notes": ("plain", "reflections"),
    "react": ("react", "history"),
    "reflexion": ("reflexion", "reflections"),
    "linked-notes": ("linked-notes", "reflections"),
    "cases": ("cases", "history"),
}
"""Each method and what it remembers of itself, the usual memory of it."""
GAMES = {"rps": "rps-llm-base", "kuhn": "kuhn-llm-base", "doors": "doors+smollm2"}
"""Each is judged as the methods that are trained by this recipe: on its splits, in its seats."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "words", nargs="*", metavar="GAME|KEY=VALUE", help=f"of {', '.join(GAMES)}; rps and kuhn unless named"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--trials", type=int, default=20, help="trials per member and seat")
    parser.add_argument("--tokens", type=int, default=32, help="most tokens of a thought or a note")
    parser.add_argument("--context", type=int, default=2048, help="most tokens of a prompt and its answer")
    parser.add_argument("--slots", type=int, default=0, help="most calls that run together, where the card is shared")
    parser.add_argument("--split", action="append", default=[], help="a split to play instead of the recipe's")
    parser.add_argument("--device", default="auto")
    args = parser.parse_intermixed_args()
    games = [word for word in args.words if "=" not in word] or ["rps", "kuhn"]
    overrides = dict(parse_override(word) for word in args.words if "=" in word)
    unknown = [name for name in games if name not in GAMES]
    if unknown:
        parser.error(f"unknown game {', '.join(unknown)}; known: {', '.join(GAMES)}")
    if args.split and "doors" in games:
        parser.error(f"--split {args.split[0]}: doors has no splits, its tasks are drawn by seed")
    for game in games:
        trained = load_config(GAMES[game])
        where = {"world": trained.world} if game == "doors" else {"opponents": args.split or trained.evaluation.splits}
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
            how |= {key: value for key, value in overrides.items() if method == "plain" or key != "agent.prefill"}
            mage.evaluate(args.model, how, **where, trials=args.trials, folder=folder)
            print(f"{game} {folder.name}: {time.perf_counter() - start:.0f} s", flush=True)
        compared = mage.compare(*(f"{folder.name}={folder}" for folder in folders))
        compared.write(args.out / f"{game}-compared", plots=False)
        print(compared, flush=True)


if __name__ == "__main__":
    main()
