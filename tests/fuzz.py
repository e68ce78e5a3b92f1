"""A seeded mutation fuzzer for the parser: valid replies, broken in random places.

    python -m tests.fuzz 1000000

Every string must give a legal action or a problem of one short line. Where the truth is known it is compared:
a reply that was left whole parses to its action, and so does any string to which a whole answer is appended.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

from mage.agents.parsing import Parsed, parse_action

ACTIONS: Sequence[tuple[str, ...]] = (
    ("rock", "paper", "scissors"),
    ("pass", "bet", "Bet"),
    ("bet", "bet 2", "bet 20"),
    ("x(0,0)", "x(0,1)", "x(2,2)"),
    ("straße", "İzmir", "石 头", "a<b"),
)

FRAMES = (
    "<action>{}</action>",
    "They like rock, so I answer. <action>{}</action>",
    "<think>What if <action>rock</action>? No: 2 < 3.</think>\n<action>{}</action>",
    "my thoughts began in the prompt</think>\n<ACTION> {} </ACTION>",
    "<action>rock</action> no, rather <action>{}</action> <think>and then",
    "<thinking>\n\n</thinking>I choose: < action >\n{}\n</ action >.",
)

FRAGMENTS = (
    *("<action>", "</action>", "<ACTION>", "</Action>", "< action", "action>", "</", "<", ">", "/>", "<action/>"),
    *("<think>", "</think>", "<thinking>", "</thinking>", "<think", "<action><action>", "</action></action>"),
    *("<|im_end|>", "<|im_start|>assistant\n", "</s>", "<|eot_id|>", "<|endoftext|>", "[INST]", "\x00", "\x1b[31m"),
    *("\ud800", "\udfff", "\u202e", "\ufeff", "\u200b", "İ", "ſ", "ß", "石", "🂡", "\r\n", "\t", "\u2028", " " * 40),
    *("rock", "paper", "bet", "Bet", "bet 2", "PASS", "{}", "%s", "\\", "'", '"', "`", "&lt;action&gt;", "9" * 60),
)

Rng = Callable[[], float]
"""A number in [0, 1)."""


def _insert(text: str, rng: Rng) -> str:
    at = int(rng() * (len(text) + 1))
    return text[:at] + FRAGMENTS[int(rng() * len(FRAGMENTS))] + text[at:]


def _replace(text: str, rng: Rng) -> str:
    at = int(rng() * (len(text) + 1))
    return text[:at] + FRAGMENTS[int(rng() * len(FRAGMENTS))] + text[at + int(rng() * 8) :]


def _delete(text: str, rng: Rng) -> str:
    at = int(rng() * (len(text) + 1))
    return text[:at] + text[at + 1 + int(rng() * 8) :]


def _cut(text: str, rng: Rng) -> str:
    return text[: int(rng() * (len(text) + 1))]


def _repeat(text: str, rng: Rng) -> str:
    at = int(rng() * (len(text) + 1))
    return text[:at] + text[at : at + int(rng() * 20)] * int(rng() * 4) + text[at:]


def _swap_case(text: str, rng: Rng) -> str:
    at = int(rng() * (len(text) + 1))
    return text[:at] + text[at:].swapcase()


def _turn_round(text: str, rng: Rng) -> str:
    at = int(rng() * (len(text) + 1))
    return text[at:] + text[:at]


MUTATIONS = (_insert, _insert, _insert, _replace, _delete, _cut, _repeat, _swap_case, _turn_round)


def fuzz(num_strings: int, seed: int) -> Counter[str]:
    """Parse this many strings and count the results by kind. Any broken promise is an AssertionError."""
    rng = random.Random(seed).random
    whole = [(frame.format(a), a, actions) for actions in ACTIONS for a in actions for frame in FRAMES]
    counts: Counter[str] = Counter()
    for number in range(num_strings):
        text, action, actions = whole[int(rng() * len(whole))]
        num_mutations = int(rng() * 5)
        for _ in range(num_mutations):
            text = MUTATIONS[int(rng() * len(MUTATIONS))](text, rng)
        parsed = parse_action(text, actions)
        check(text, parsed, actions)
        assert num_mutations or parsed.action == action, f"{text!r} gives {parsed}"
        counts[kind(parsed)] += 1
        if number % 8 == 0:
            ended = parse_action(f"{text}</think><action>{action}</action>", actions)
            assert ended == Parsed(action, None), f"{text!r} hides what follows it: {ended}"
    return counts


def check(text: str, parsed: Parsed, actions: Sequence[str]) -> None:
    """A legal action, or a problem of one short line without tags; never both."""
    if parsed.problem is None:
        assert parsed.action in actions, f"{text!r} gives {parsed}, which is not legal"
    else:
        assert parsed.action is None, f"{text!r} gives both an action and a problem: {parsed}"
        assert len(parsed.problem) <= 160, f"{text!r} gives a long problem: {parsed.problem!r}"
        assert parsed.problem.isprintable(), f"{text!r} gives an unsafe problem: {parsed.problem!r}"


def kind(parsed: Parsed) -> str:
    """What became of a reply."""
    if parsed.problem is None:
        return "an action"
    for known in ("no <action>", "not closed", "not one of", "could be"):
        if known in parsed.problem:
            return known
    raise AssertionError(f"a problem of an unknown kind: {parsed.problem}")


def main() -> None:
    num_strings = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    start = time.perf_counter()
    counts = fuzz(num_strings, seed=0)
    elapsed_s = time.perf_counter() - start
    print(f"{num_strings:,} strings in {elapsed_s:.1f} s: {num_strings / elapsed_s:,.0f} strings/s, no exception")
    for name, count in counts.most_common():
        print(f"{count:>12,}  {name}")


if __name__ == "__main__":
    main()
