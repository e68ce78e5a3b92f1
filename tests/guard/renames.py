"""What the present tree calls by another name than the base commit. A refactoring that renames adds its lines here.

The base's output is translated by these rules, then everything must be equal. A rule's `file` is a pattern for paths
as the base has them, `*/run.json` for instance. A key is named by its dotted path without list indices, or by the end
of that path: `versions` is that key at any depth, `config.seed` only where `seed` stands in a `config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Key:
    """A renamed key of JSON or TOML, or a renamed tensor. `*` at the end of both names stands for the same rest."""

    old: str
    new: str
    file: str = "*"
    under: str = "*"
    """The dotted path of the parent, in the base's names; `*` is any parent."""


@dataclass(frozen=True)
class Value:
    """A renamed value: what stands under a key, or in a list under it."""

    key: str
    old: object
    new: object
    file: str = "*"


@dataclass(frozen=True)
class Moved:
    """A key that stands in another section: dotted paths from a common parent, in the base's names."""

    old: str
    new: str
    file: str = "*"


@dataclass(frozen=True)
class Merged:
    """Keys of one section that became one key: the new value for each combination of the old ones."""

    old: tuple[str, ...]
    new: str
    values: Mapping[tuple[object, ...], object]
    file: str = "*"


@dataclass(frozen=True)
class Text:
    """A regular expression for lines of text, and what replaces its matches."""

    pattern: str
    new: str
    reason: str
    file: str = "*"


@dataclass(frozen=True)
class Left:
    """A key, or with an empty key a whole file, that is left out of the comparison, and why."""

    file: str
    key: str
    reason: str


@dataclass(frozen=True)
class Rules:
    """How the base's output is translated, and what is not compared."""

    keys: tuple[Key, ...] = ()
    values: tuple[Value, ...] = ()
    moved: tuple[Moved, ...] = ()
    merged: tuple[Merged, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    text: tuple[Text, ...] = ()
    masks: tuple[Text, ...] = ()
    dropped: tuple[Left, ...] = ()
    added: tuple[Left, ...] = ()
    ignored: tuple[Left, ...] = ()


COMMANDS: Mapping[str, str] = {}
"""Parts of commands, old to new, such as "game=": "world=" or "train rps-notes": "train rps-reflections"."""

KEYS: tuple[Key, ...] = ()

VALUES: tuple[Value, ...] = ()

MOVED: tuple[Moved, ...] = ()
"""Such as Moved("batch.revisit", "population.revisit")."""

MERGED: tuple[Merged, ...] = ()

FILES: Mapping[str, str] = {}
"""Names of files or folders, or several parts of a path, such as "league.json": "population.json".
Where a file's name is also a key, as in `lines` of state.json, KEYS needs it too."""

TEXT: tuple[Text, ...] = ()
"""Renamed words in model cards and in tables. Applied to the base alone."""

DROPPED: tuple[Left, ...] = ()
"""In the base alone. Files and keys by their old names."""

ADDED: tuple[Left, ...] = (
    Left("*chosen_trial.json", "", "the trial that a finished run ends on"),
    Left("*run.json", "checksum", "the checksum of the file itself"),
    Left("*checksums.json", "", "checksums of the tensors beside it, which are compared"),
    Left("*", "learner.ranks", "how many processes share the learner"),
    Left("*saved.json", "", "the step of the newest checkpoint"),
    Left("*", "rollout.*", "settings of workers"),
    Left("*", "alarms.distinct", "an alarm about texts"),
    Left("*", "alarms.truncated", "an alarm about importance weights, for rollout.lag"),
)
"""In the present tree alone. Files and keys by their new names."""

MASKS: tuple[Text, ...] = (
    Text(r"tokens/s +\d+ +left [\d:]+", "tokens/s …", "the clock"),
    Text(r"^created \S+ with .*", "created …", "the clock and versions"),
    Text(r"^seconds .*", "seconds …", "the clock"),
    Text(r"(?<=[\dkMG], )[\d.e-]+k?( (±|\$\\pm\$)[\d.e-]+k?)? s\b", "… s", "the clock: seconds in mage compare"),
    Text(r"(?<=,training_seconds,).*", "…", "the clock"),
    Text(r"(?<=\d of \d) +\d+\.\d\b", " …", "the clock: minutes in tables of mage sweep"),
    Text(r"^(- |% )?(mage (compare|evaluate|train) |.*, mage [0-9a-f]+\+?: ).*", "…", "commands, versions and commits"),
    Text(r"\bmage \d+\.\d+\.\d+", "mage …", "the version"),
    Text(r"^ +\d+ +[a-z].*", "", "moves of trials at the end of a run; trials.jsonl is compared", "said-*.txt"),
    Text(r"^(The (opponent: |trial of the final evaluation )|memory-one\().*", "", "what a run ends on", "said-*.txt"),
    Text(r"(before training|after \d steps), against .*", r"\1", "opponents are told in words", "said-*.txt"),
    Text(r"(?<=\d\.\d\d)0\b", "", "three decimals", "said-*.txt"),
    Text(r"(?<![\d.])[+-]?0\.0+(?![\d])", "0", "zero is shown as 0"),
    Text(r"^(Mean scores with|  \S.*: episode 1: ).*", "", "three decimals"),
)
"""What depends on the clock or on versions in text. Applied to both trees."""

IGNORED: tuple[Left, ...] = (
    Left("*timings.jsonl", "?*", "the clock"),
    Left("*", "created", "the clock"),
    Left("*", "seconds", "the clock"),
    Left("*/summary.json", "runs.minutes", "the clock"),
    Left("*/arms.jsonl", "took_s", "the clock"),
    Left("*", "versions.*", "the version and the commit"),
    Left("*", "machine", "the machine"),
    Left("*README.md", "threads", "the number of cores; the bits of a small model do not depend on it"),
    Left("*", "config.threads", "the number of cores; the bits of a small model do not depend on it"),
    Left("*", "config.description", "text for people: a composed recipe joins those of its parts"),
    Left("*README.md", "description", "text for people: a composed recipe joins those of its parts"),
    Left("*", "command", "commands may differ; scenarios.py has them side by side"),
    Left("*/sources.json", "sources.sha256", "the hash of a file that has the clock and the commit in it"),
    Left("*/index.jsonl", "offset", "bytes of trials.jsonl, which change with a key's name; its lines are compared"),
    Left("*/index.jsonl", "length", "bytes of trials.jsonl, which change with a key's name; its lines are compared"),
)
"""Must be there in both trees; what it is is not compared. Files and keys by their new names."""

RULES = Rules(KEYS, VALUES, MOVED, MERGED, FILES, TEXT, MASKS, DROPPED, ADDED, IGNORED)
