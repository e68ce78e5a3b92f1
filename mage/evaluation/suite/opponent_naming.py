"""How often reflections name the opponent's family, by regular expressions, compared with chance.

A reflection names a family if it contains one of the family's phrases, whatever else it says; this is crude, but every
match can be checked by reading. A reflection that mentions everything names every family, so the baseline matches the
same reflections with the opponents of the other trials.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from mage.evaluation.suite.averaging import Averaging
from mage.opponents.enumerate import active_spec
from mage.spec import parse_spec
from mage.stats import SHARES, Estimate
from mage.types import Task, Trial

_LAST = r"(?:my|your|the|its|their|our|own) (?:own )?(?:last|previous)"
_CELLS = r"(?:cent\w+|corner\w*|edge\w*|diagonal\w*)"

PHRASES: Mapping[str, tuple[str, ...]] = {
    "aggressive": (r"aggressive\w*", r"reckless\w*", r"loose", r"bluff\w*", r"bets? (?:a lot|often|with any\w*)"),
    "always": (
        *(r"always", r"constant\w*", r"every (?:time|round|turn)", r"never changes?", r"fixed"),
        *(r"(?:only|just|keeps?) (?:play|choos|bet|pass|us)\w*", r"the same (?:move|action|choice|thing)"),
    ),
    "automaton": (r"automat\w*", r"machine", r"states?"),
    "beat-last": (rf"(?:beats?|counters?|defeats?) {_LAST}", r"(?:beats?|counters?) what (?:i|you) (?:just )?played"),
    "cfr": (r"equilibrium", r"nash", r"gto", r"unexploitable", r"balanced", r"optimal\w*"),
    "conservative": (
        *(r"conservative\w*", r"cautious\w*", r"careful\w*", r"passive\w*", r"tight", r"timid\w*"),
        *(r"only bets? (?:with|when|if)", r"folds? (?:a lot|often|unless|almost)"),
    ),
    "copy": (
        *(r"cop(?:y|ies|ied|ying)", r"mimic\w*", r"mirror\w*", r"imitat\w*", r"tit.for.tat"),
        rf"(?:plays?|repeats?|follows?) {_LAST} (?:move|action|choice|play)",
    ),
    "cycle": (r"cycl\w*", r"rotat\w*", r"in (?:order|turn|sequence)", r"sequence", r"one after (?:the|an)other"),
    "grim": (r"grim\w*", r"unforgiving", r"never forgiv\w*", r"(?:punish|retaliat)\w* for ?ever", r"holds? a grudge"),
    "intermediate": (r"intermediate", r"moderate\w*", r"medium", r"in between", r"average"),
    "lose-to-last": (rf"loses? (?:to|against) {_LAST}", r"loses? to what (?:i|you) (?:just )?played"),
    "mcts": (r"search\w*", r"looks? ahead", r"monte carlo", r"plans? ahead"),
    "memory-one": (
        rf"(?:react|respond|repl|answer|depend|base)\w* (?:to|on) {_LAST}",
        r"(?:react|respond)s? to (?:me|my|you|your)",
    ),
    "minimax": (r"perfect\w*", r"optimal\w*", r"unbeatable", r"never (?:loses?|errs?)", r"minimax"),
    "mixture": (r"mix\w*", r"sometimes", r"varies", r"now and then"),
    "preferred": (
        rf"(?:prefers?|likes?|favou?rs?|takes?|goes for|starts? (?:in|with)) (?:the )?{_CELLS}",
        *(r"fixed order", r"first (?:free|empty|open) (?:cell|square|place)"),
    ),
    "uniform": (r"random\w*", r"unpredictable", r"uniform\w*", r"no (?:clear )?pattern"),
    "win-stay-lose-shift": (
        *(r"win.stay\w*", r"(?:stays?|repeats?|keeps?)\b.{0,30} (?:after|when|if)\b.{0,15} w[io]ns?"),
        r"(?:changes?|shifts?|switch\w*|moves? on)\b.{0,30} (?:after|when|if)\b.{0,15} los\w+",
    ),
}
"""By family, regular expressions for whole words in lower case; other families are not counted."""


class Naming(msgspec.Struct, frozen=True):
    """How often reflections name the family of their opponent."""

    num_reflections: int
    """Reflections on episodes against opponents whose family has phrases."""
    named: Estimate
    """Share of them that name it."""
    by_chance: Estimate
    """Share that match when a reflection is paired with another trial's opponent at the same episode."""
    over_chance: Estimate
    """The difference, paired by trial."""


def names_family(text: str, family: str) -> bool:
    """Whether a text contains one of a family's phrases.

    >>> names_family("They ALWAYS play rock.", "always"), names_family("They copied me.", "cycle")
    (True, False)
    """
    return _pattern(family).search(" ".join(text.lower().split())) is not None


def opponent_family(task: Task, episode: int) -> str | None:
    """The family of the opponent in an episode; None where it has no phrases or there are several opponents."""
    if len(task.opponents) != 1:
        return None
    name = _name(task.opponents[0], episode)
    return name if name in PHRASES else None


_OVER_TRIALS = Averaging()


def measure_naming(trials: Sequence[Trial], averaging: Averaging = _OVER_TRIALS) -> Naming | None:
    """How often reflections name the true family; None where it is defined in fewer than two trials."""
    shares: list[tuple[float, float]] = []
    noted: list[Trial] = []
    num_reflections = 0
    counts: dict[int, Counter[str]] = {}
    for episode in range(max((len(t.reflections) for t in trials), default=0)):
        counts[episode] = Counter(f for t in trials if (f := opponent_family(t.task, episode)) is not None)
    for trial in trials:
        pairs = [
            _match_rates(turn.action or "", family, counts[episode])
            for episode, turn in enumerate(trial.reflections)
            if (family := opponent_family(trial.task, episode)) is not None and counts[episode].total() > 1
        ]
        if pairs:
            num_reflections += len(pairs)
            noted.append(trial)
            shares.append((sum(hit for hit, _ in pairs) / len(pairs), sum(luck for _, luck in pairs) / len(pairs)))
    if len(shares) < 2:
        return None
    return Naming(
        num_reflections=num_reflections,
        named=averaging.share(noted, [hit for hit, _ in shares], num_reflections),
        by_chance=averaging.mean(noted, [luck for _, luck in shares], SHARES),
        over_chance=averaging.mean(noted, [hit - luck for hit, luck in shares], (-1.0, 1.0)),
    )


def _match_rates(text: str, family: str, counts: Counter[str]) -> tuple[float, float]:
    """Whether a text names its opponent's family, and the share of the other trials whose family it names."""
    own = float(names_family(text, family))
    num_matched = sum(count for other, count in counts.items() if names_family(text, other))
    return own, (num_matched - own) / (counts.total() - 1)


@lru_cache(maxsize=4096)
def _name(spec: str, episode: int) -> str:
    return active_spec(parse_spec(spec), episode).name


@lru_cache(maxsize=64)
def _pattern(family: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(PHRASES[family])})\b")
