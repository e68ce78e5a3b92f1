"""Tables of names that scripts and installed packages can extend: worlds, opponents, models, engines, …

A script extends a table with `add`; a package by an entry point of the table's group, which is imported only when its
name is used, so a broken package is an error only there. A name keeps its meaning as long as the process runs, because
objects made by name are cached.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Generic, TypeVar

from mage.errors import ConfigError
from mage.plugin_errors import shown_value
from mage.spec import Spec, parse_spec

T = TypeVar("T")

IMPORT_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError),
    *(OSError, RuntimeError, SyntaxError, TypeError, ValueError),
)
"""What importing a plugin's module may raise."""


class Registry(Mapping[str, T], Generic[T]):
    """A mapping of names that plugins can extend."""

    def __init__(
        self, kind: str, builtin: Mapping[str, T], accept: Callable[[object], T], is_reserved: Callable[[str], bool]
    ) -> None:
        self._kind = kind
        self._builtin = builtin
        self._accept = accept
        """Turns a plugin's object into an entry, or raises a TypeError that says what is expected."""
        self._is_reserved = is_reserved
        """Whether a name has a meaning already without being in the table."""
        self._added: dict[str, T] = {}

    @property
    def group(self) -> str:
        """The group of entry points."""
        return f"mage.{self._kind}s"

    def add(self, name: str, given: object) -> None:
        """Register an object under a name, for this process."""
        if not isinstance(name, str) or _spec_name(name) != name:
            raise ConfigError(
                f"{shown_value(name)} cannot be the name of a {self._kind}; take one without spaces and brackets"
            )
        if self._is_builtin(name):
            raise ConfigError(f"the {self._kind} {name!r} comes with mage; register yours under another name")
        if name in self._entry_points:
            raise ConfigError(
                f"the {self._kind} {name!r} comes with {_origin(self._entry_points[name])}; take another name"
            )
        try:
            entry = self._accept(given)
        except TypeError as error:
            raise ConfigError(f"the {self._kind} {name!r} cannot be registered: {error}") from None
        known = self._added.setdefault(name, entry)
        if known != entry and not _is_same_definition(known, entry):
            raise ConfigError(f"the {self._kind} {name!r} is registered already; take another name")

    def loaded(self, name: str) -> T | None:
        """The entry of a name, or None where that is unknown without importing a plugin."""
        return self._builtin[name] if name in self._builtin else self._added.get(name)

    def is_ours(self, name: str) -> bool:
        """Whether what a name stands for comes with mage."""
        return name in self._builtin

    def is_registered(self, name: str) -> bool:
        """Whether a name was registered in this process; installed packages and mage itself have it in every one."""
        return name in self._added and name not in self._entry_points

    def trouble(self, name: str) -> str | None:
        """Why a name cannot be used, or None."""
        try:
            self[name]
        except ConfigError as error:
            return str(error)
        return None

    def __getitem__(self, name: str) -> T:
        entry = self.loaded(name)
        point = self._entry_points.get(name)
        if point is not None and (self._is_builtin(name) or name in self._conflicting):
            raise ConfigError(
                f"the {self._kind} {name!r} of {_origin(point)} has a name that is taken; rename or remove it"
            )
        if entry is not None:
            return entry
        if point is None:
            raise KeyError(name)
        return self._added.setdefault(name, self._load(point))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._builtin, *self._added, *self._entry_points}))

    def __len__(self) -> int:
        return len(set(self))

    def __contains__(self, name: object) -> bool:
        return name in self._builtin or name in self._added or name in self._entry_points

    def _is_builtin(self, name: str) -> bool:
        return name in self._builtin or self._is_reserved(name)

    def _load(self, point: EntryPoint) -> T:
        try:
            return self._accept(point.load())
        except IMPORT_ERRORS as error:
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(
                f"the {self._kind} {point.name!r} of {_origin(point)} cannot be loaded from {point.value}: {why}"
            ) from None

    @cached_property
    def _points(self) -> tuple[EntryPoint, ...]:
        return tuple(entry_points(group=self.group))

    @cached_property
    def _entry_points(self) -> Mapping[str, EntryPoint]:
        return {point.name: point for point in self._points}

    @cached_property
    def _conflicting(self) -> frozenset[str]:
        """Names that several packages define differently."""
        return frozenset(p.name for p in self._points if self._entry_points[p.name].value != p.value)


def _is_same_definition(one: object, other: object) -> bool:
    """Whether two entries are one definition in a file that was run twice, as a module and as a plugin."""
    first, second = _definition(one), _definition(other)
    return first is not None and second is not None and first[0] != second[0] and first[1:] == second[1:]


def _definition(entry: object) -> tuple[str, str, bytes] | None:
    """The module in which an entry's function or class was defined, its name there, and the content of the file."""
    made = entry[0] if isinstance(entry, tuple) else entry
    module = sys.modules.get(getattr(made, "__module__", None) or "")
    file, name = getattr(module, "__file__", None), getattr(made, "__qualname__", None)
    if module is None or file is None or name is None or not Path(file).is_file():
        return None
    return module.__name__, name, Path(file).read_bytes()


def require_methods(kind: str, name: str, made: object, methods: Iterable[str], protocol: str) -> None:
    """Raise a ConfigError where what a plugin made lacks methods of its protocol."""
    lacking = [method for method in methods if not callable(getattr(made, method, None))]
    if lacking:
        raise ConfigError(f"the {kind} {name!r} lacks {', '.join(lacking)}; {protocol} has what it needs")


def _spec_name(text: str) -> str | None:
    """The name, where the text is a spec without parameters; else None."""
    try:
        spec = parse_spec(text)
    except ConfigError:
        return None
    return spec.name if spec == Spec(spec.name) else None


def _origin(point: EntryPoint) -> str:
    return f"the package {point.dist.name!r}" if point.dist is not None else f"the entry point {point.value}"
