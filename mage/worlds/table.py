"""Tables of hidden-type worlds: what each action pays and tells by hidden type, as a TOML file or inline in a spec.

    actions = ["{door1}", "{door2}", "{leave}"]        what can be done; one action is an episode
    types = ["{door1}", "{door2}"]                     what may be hidden, drawn once for a trial
    prior = [0.5, 0.5]                                 weights of the types; equal where left out
    pay = [[1, 0], [0, 1], "leave"]                    by action and type; one value for all types; or a parameter
    told = ["", "", ["left", "right"]]                 what is told besides the pay, likewise
    about = "…"                                        a line for `mage list worlds`
    rules = "…"                                        told to the agent; `{=leave}` is the value of a parameter
    words = ["leave"]                                  `{leave}` in texts; another word where the world is reworded
    [names]
    door = ["red", "green", "blue"]                    `{door1}`, `{door2}`: drawn from these, other ones in each trial
    [parameters]
    leave = 0.5                                        set by the spec: hidden(FILE,leave=0.3)

Names are drawn, so the table must be the same when two slots of a name change places; then no name tells anything.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from itertools import pairwise
from math import inf, isfinite
from pathlib import Path
from typing import Any

import msgspec

from mage.errors import ConfigError, did_you_mean, listing

ENDING = ".toml"
SLOT = re.compile(r"\{([A-Za-z_]+)([1-9][0-9]*)\}")
FIELD = re.compile(r"\{([^{}]*)\}")


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table as it is written; `make_table` checks it."""

    actions: tuple[str, ...]
    types: tuple[str, ...]
    pay: tuple[float | str | tuple[float | str, ...], ...]
    told: tuple[str | tuple[str, ...], ...] = ()
    prior: tuple[float, ...] = ()
    about: str = ""
    """One line for lists of worlds."""
    rules: str = ""
    words: tuple[str, ...] = ()
    names: dict[str, tuple[str, ...]] = {}
    parameters: dict[str, float] = {}

    def pays(self, parameters: Mapping[str, float]) -> tuple[tuple[float, ...], ...]:
        """The pay by action and type."""
        return tuple(
            tuple(parameters[cell] if isinstance(cell, str) else cell for cell in self._cells(row)) for row in self.pay
        )

    def tells(self) -> tuple[tuple[str, ...], ...]:
        """What is told besides the pay, by action and type."""
        rows = self.told or ("",) * len(self.actions)
        return tuple(self._cells(row) for row in rows)

    def texts(self) -> tuple[str, ...]:
        """All texts, in which names, words and parameters stand in braces."""
        return (*self.actions, *self.types, *(cell for row in self.tells() for cell in row), self.rules)

    def slots(self) -> dict[str, int]:
        """By group of names, how many slots the texts have."""
        found: dict[str, int] = dict.fromkeys(self.names, 0)
        for text in self.texts():
            for group, number in SLOT.findall(text):
                found[group] = max(found.get(group, 0), int(number))
        return found

    def _cells(self, row: Any) -> tuple[Any, ...]:
        return row if isinstance(row, tuple) else (row,) * len(self.types)


def shipped_tables() -> list[str]:
    """Names of the tables that come with the package."""
    folder = resources.files("mage") / "worlds" / "tables"
    return sorted(file.name.removesuffix(ENDING) for file in folder.iterdir() if file.name.endswith(ENDING))


def read_table(name: str) -> Table:
    """A shipped table by name, or one of the user's by the path of its file, which ends in .toml."""
    try:
        if name.endswith(ENDING):
            content = Path(name).read_text(encoding="utf-8")
        elif name in shipped_tables():
            content = (resources.files("mage") / "worlds" / "tables" / f"{name}{ENDING}").read_text(encoding="utf-8")
        else:
            names = f"{did_you_mean(name, shipped_tables())}known: {listing(shipped_tables())}"
            raise ConfigError(f"unknown table {name!r}; {names}; or the path of a {ENDING} file")
        given = tomllib.loads(content)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"the table {name!r} cannot be read: {said}") from None
    return make_table(given, name)


def make_table(given: Mapping[str, Any], name: str) -> Table:
    """A table from its keys, checked; errors call it `name`."""
    try:
        table = msgspec.convert(given, Table)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the table {name!r}: {error}") from None
    _check(table, name)
    return table


def _check(table: Table, name: str) -> None:
    for check in (_shape_problems, _pay_problems, _name_problems, _symmetry_problems):
        for problem in check(table):
            raise ConfigError(f"the table {name!r}: {problem}")


def _shape_problems(table: Table) -> Iterator[str]:
    num_actions, num_types = len(table.actions), len(table.types)
    for key, listed in (("actions", table.actions), ("types", table.types)):
        if not listed:
            yield f"{key} is empty"
        yield from (f"{key} has {text!r} twice" for text in _doubled(listed))
    if num_actions == 1:
        yield "there is one action, so that there is nothing to decide"
    for key, rows in (("pay", table.pay), ("told", table.told or ("",) * num_actions)):
        if len(rows) != num_actions:
            yield f"{key} has {len(rows)} rows for {num_actions} actions"
        for action, row in zip(table.actions, rows, strict=False):
            if isinstance(row, tuple) and len(row) != num_types:
                yield f"{key} of {action!r} has {len(row)} values for {num_types} types"
    if len(table.prior) not in (0, num_types):
        yield f"prior has {len(table.prior)} weights for {num_types} types"


def _pay_problems(table: Table) -> Iterator[str]:
    for cell in (cell for row in table.pay for cell in (row if isinstance(row, tuple) else (row,))):
        if not (cell in table.parameters if isinstance(cell, str) else isfinite(cell)):
            yield f"pay has {cell!r}, which is no finite number and no parameter; known: {listing(table.parameters)}"
    yield from (f"prior has {weight}, which is not above 0" for weight in table.prior if not 0 < weight < inf)
    yield from (
        f"parameters.{key} = {value} is not finite" for key, value in table.parameters.items() if not isfinite(value)
    )


def _name_problems(table: Table) -> Iterator[str]:
    """Every `{…}` in a text is a slot, a word or a parameter; pools have a name for every slot."""
    for group, num in table.slots().items():
        pool = table.names.get(group, ())
        if num > len(pool):
            yield f"names.{group} has {len(pool)} names for {num} slots, {{{group}1}} to {{{group}{num}}}"
        yield from (f"names.{group} has {text!r} twice" for text in _doubled(pool))
    slots = [f"{group}{number}" for group, num in table.slots().items() for number in range(1, num + 1)]
    known = [*slots, *table.words, *(f"={parameter}" for parameter in table.parameters)]
    for text in table.texts():
        for field in FIELD.findall(text):
            if field not in known:
                yield f"{{{field}}} in {text.strip()[:40]!r} is no name, word or parameter; known: {listing(known)}"


def _symmetry_problems(table: Table) -> Iterator[str]:
    """The table is the same when two neighbouring slots of a name change places."""
    for group, num in table.slots().items():
        for one, other in pairwise(f"{{{group}{number}}}" for number in range(1, num + 1)):
            if not _is_same(table, {one: other, other: one}):
                yield f"it is another one when {one} and {other} change places, so that names would tell something"


def _is_same(table: Table, swap: Mapping[str, str]) -> bool:
    """Whether actions and types that differ by the swap alone pay, tell and weigh the same."""
    actions = {_form(action): place for place, action in enumerate(table.actions)}
    types = {_form(kind): place for place, kind in enumerate(table.types)}
    moved_actions = [actions.get(_form(_swapped(action, swap))) for action in table.actions]
    moved_types = [types.get(_form(_swapped(kind, swap))) for kind in table.types]
    pays, tells = table.pays(table.parameters), table.tells()
    prior = table.prior or (1.0,) * len(table.types)
    return all(
        a is not None
        and t is not None
        and pays[action][kind] == pays[a][t]
        and _form(_swapped(tells[action][kind], swap)) == _form(tells[a][t])
        and prior[kind] == prior[t]
        for action, a in enumerate(moved_actions)
        for kind, t in enumerate(moved_types)
    )


def _form(text: str) -> tuple[str, tuple[str, ...]]:
    """A text up to the order of its slots: `{herb2} and {herb1}` is `{herb1} and {herb2}`."""
    return SLOT.sub("{}", text), tuple(sorted(match[0] for match in SLOT.finditer(text)))


def _swapped(text: str, swap: Mapping[str, str]) -> str:
    return SLOT.sub(lambda match: swap.get(match[0], match[0]), text)


def _doubled(listed: Sequence[str]) -> list[str]:
    return [text for number, text in enumerate(listed) if text in listed[:number]]
