"""`hidden(TABLE)`: a world of one table, in which one of several types is hidden and an episode is one action.

`hidden(doors)`, `hidden(scout,look=-0.4)` and `hidden("my/table.toml")` read a table, `hidden(actions=…,types=…,pay=…)`
has it inline; `mage/worlds/table.py` says what a table has. `reworded=N` replaces names and words by neutral ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

from mage.errors import ConfigError, listing
from mage.seeds import stream
from mage.spec import Spec, show
from mage.types import Fact, Task
from mage.worlds.openspiel.words.base import lexicon, signed
from mage.worlds.solo import SoloWorld
from mage.worlds.table import FIELD, Table, make_table, read_table, shipped_tables

INLINE = tuple(Table.__struct_fields__)

Position = tuple[int, ...]
"""The actions so far, by number: none or one."""


class HiddenType(NamedTuple):
    """A type of the table with the names that its trial uses."""

    level: str
    """The type in the first names of the table."""
    number: int
    names: tuple[tuple[str, str], ...]
    """By slot, such as `door1`, its name."""

    def __str__(self) -> str:
        return self.level


class HiddenTable(SoloWorld[HiddenType, Position]):
    """One action is an episode. What it pays and tells depends on the hidden type, the same for a whole trial."""

    turns = 1

    def __init__(self, table: Spec | str | None = None, /, *, reworded: int | None = None, **values: Any) -> None:
        self._name = "" if table is None else str(table)
        self._content = self._read(values)
        own = self._content
        terms = [*own.words, *(name for pool in own.names.values() for name in pool)]
        self._words = lexicon(self._name, list(dict.fromkeys(terms)), reworded)
        self._parameters = {**own.parameters, **values}
        self._pays, self._tells = own.pays(self._parameters), own.tells()
        self._slots = {group: num for group, num in own.slots().items() if num}
        self._first = self._named({group: pool[: self._slots.get(group, 0)] for group, pool in own.names.items()})
        self.lowest, self.highest = min(map(min, self._pays)), max(map(max, self._pays))
        self._best = [max(pays) for pays in zip(*self._pays, strict=True)]
        self._rendered = lru_cache(maxsize=4096)(self._render)

    @classmethod
    def listed(cls) -> list[tuple[str, str, str]]:
        """The shipped tables as specs, with their parameters and what they are about."""
        tables = [(name, read_table(name)) for name in shipped_tables()]
        return [
            (f"hidden({name})", ", ".join(f"{key}={value:g}" for key, value in table.parameters.items()), table.about)
            for name, table in tables
        ]

    def _read(self, values: dict[str, Any]) -> Table:
        """The table; what is left in `values` are parameters of it."""
        inline = {key: _plain(values.pop(key)) for key in INLINE if key in values}
        if self._name and inline:
            raise ConfigError(f"hidden: give the table {self._name!r} or {', '.join(inline)}, not both")
        if not self._name and not inline:
            raise ConfigError("hidden: name a table, as in hidden(doors), or give actions, types and pay")
        table = read_table(self._name) if self._name else make_table(inline, "hidden(…)")
        for key, value in values.items():
            if key not in table.parameters:
                raise ConfigError(
                    f"hidden: unknown parameter {key!r}; known: {listing([*table.parameters, 'reworded'])}"
                )
            if type(value) not in (int, float) or not isfinite(value):
                raise ConfigError(f"hidden: {key} must be a number, not {show(value)}")
        return table

    def explain(self) -> str:
        return self._rules(self._first)

    def rules(self, task: Task) -> str:
        return self._rules(self.draw(task).names)

    def _rules(self, names: tuple[tuple[str, str], ...]) -> str:
        if self._content.rules:
            return self._rendered(" ".join(self._content.rules.split()), names)
        actions = [self._rendered(action, names) for action in self._content.actions]
        return (
            f"In each episode you choose once: {', '.join(actions[:-1])} or {actions[-1]}. What that pays depends on "
            "something hidden, which is the same in all episodes."
        )

    def hidden(self) -> Mapping[HiddenType, float]:
        table = self._content
        prior = table.prior or (1.0,) * len(table.types)
        levels = [self._rendered(kind, self._first) for kind in table.types]
        return {HiddenType(level, n, self._first): p for n, (level, p) in enumerate(zip(levels, prior, strict=True))}

    def draw(self, task: Task) -> HiddenType:
        drawn = super().draw(task)
        pools = self._content.names
        chosen = {
            group: stream(task.seed, "names", group).sample(pools[group], num) for group, num in self._slots.items()
        }
        return drawn._replace(names=self._named(chosen))

    def unshuffled(self, hidden: HiddenType) -> HiddenType:
        return hidden._replace(names=self._first)

    def reveal(self, hidden: HiddenType) -> str:
        return self._rendered(self._content.types[hidden.number], hidden.names)

    def actions(self, hidden: HiddenType, position: Position) -> Sequence[str]:
        return () if position else [self._rendered(action, hidden.names) for action in self._content.actions]

    def after(self, hidden: HiddenType, position: Position, action: str) -> Position:
        return (*position, list(self.actions(hidden, position)).index(action))

    def tell(self, hidden: HiddenType, position: Position) -> str:
        if not position:
            return "Choose."
        action = self._rendered(self._content.actions[position[0]], hidden.names)
        told = self._rendered(self._tells[position[0]][hidden.number], hidden.names)
        return f"{action} {signed(self.score(hidden, position))}" + (f": {told}." if told else ".")

    def score(self, hidden: HiddenType, position: Position) -> float:
        return self._pays[position[0]][hidden.number] if position else 0.0

    def is_success(self, hidden: HiddenType, position: Position) -> bool:
        return bool(self.score(hidden, position) >= self._best[hidden.number])

    def facts(self, hidden: HiddenType, position: Position) -> Mapping[str, Fact]:
        return {"names": hidden.names} if hidden.names else {}

    def _named(self, chosen: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
        """By slot the shown word of a drawn name."""
        return tuple(
            (f"{group}{number}", self._words[name])
            for group, names in chosen.items()
            for number, name in enumerate(names, start=1)
        )

    def _render(self, text: str, names: tuple[tuple[str, str], ...]) -> str:
        """A text of the table with its names, words and values."""
        shown = {**self._words, **dict(names)}
        numbers = {f"={key}": signed(value) for key, value in self._parameters.items()}
        return FIELD.sub(lambda match: (numbers if match[1].startswith("=") else shown)[match[1]], text)


def _plain(value: Any) -> Any:
    """A value of a spec as TOML would give it: names are texts."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Spec) else value
