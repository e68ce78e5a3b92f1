"""Spec strings: names of worlds and opponents, with their parameters.

    kuhn_poker                       a name
    mcts:100                         a name and one value, short for mcts(100)
    rps(rounds=5, reworded=7)        a name and parameters
    best-response:conservative       values may be specs themselves
    mixture(uniform, always(bet), weights=[0.3, 0.7])

One grammar for both; OpenSpiel's own game strings are valid specs once values with spaces are quoted, as in
`universal_poker(blind="50 100")`; a quote inside quotes is doubled. `str(spec)` is canonical: it reads back
equal, and specs are equal when they print alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature
from typing import Any, NoReturn, Union

import msgspec

from mage.errors import ConfigError

Value = Union[str, int, float, bool, "Spec", tuple["Value", ...]]

_CONTEXT = {
    "opponent": "(game, seat, rng, …parameters)",
    "model": "(request, …parameters)",
    "player": "(task, …parameters)",
}
"""How mage calls what users register."""
_TOKEN = re.compile(r"\s*(?:(?P<string>\"(?:[^\"]|\"\")*\")|(?P<word>[^\s\"()\[\],=:]+)|(?P<mark>[()\[\],=:]))")
_INT = re.compile(r"[+-]?\d{1,1000}\Z", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)(e[+-]?\d+)?\Z", re.ASCII | re.IGNORECASE)
_PLAIN = re.compile(r"[^\s\"()\[\],=:]+\Z")


class Spec(msgspec.Struct, frozen=True):
    """A name with positional and named values."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    """Sorted by name."""

    def __str__(self) -> str:
        parts = [show(v) for v in self.args] + [f"{k}={show(v)}" for k, v in self.kwargs]
        is_name = isinstance(_literal(self.name), Spec)
        return self.name if is_name and not parts else f"{self.name}({','.join(parts)})"

    def __eq__(self, other: object) -> bool:
        # By what is printed: field by field, 1 would equal true and 1.0.
        return str(self) == str(other) if isinstance(other, Spec) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def named(self) -> Mapping[str, Any]:
        """The named values as a mapping."""
        return dict(self.kwargs)


def parse_spec(text: str) -> Spec:
    """Read a spec string.

    >>> parse_spec("mcts:100") == parse_spec("mcts(100)")
    True
    >>> str(parse_spec(" rps( rounds = 5 , reworded=7 ) "))
    'rps(reworded=7,rounds=5)'
    >>> str(parse_spec("switch(rock, always(paper), at=1)"))
    'switch(rock,always(paper),at=1)'
    """
    return _Reader(text).whole()


def make_spec(name: str, /, *args: Value, **kwargs: Value) -> Spec:
    """Build a spec in code.

    >>> str(make_spec("automaton", seed=3, states=2))
    'automaton(seed=3,states=2)'
    """
    named = sorted((key, _canonical(value)) for key, value in kwargs.items())
    return Spec(name, tuple(_canonical(value) for value in args), tuple(named))


def with_parameters(text: str, values: Mapping[str, Value]) -> str:
    """A spec with some of its named values replaced or added, in canonical form.

    >>> with_parameters("rps( rounds=3, reworded=7 )", {"rounds": 5})
    'rps(reworded=7,rounds=5)'
    """
    spec = parse_spec(text)
    return str(make_spec(spec.name, *spec.args, **{**spec.named, **values}))


def without_defaults(spec: Spec, function: Callable[..., Any], num_context: int) -> Spec:
    """The spec with its values by name, without those that are the function's defaults; as given where it takes any.

    >>> str(without_defaults(parse_spec("cycle(2, by=1)"), lambda length=3, by=1: None, 0))
    'cycle(length=2)'
    """
    known = _parameters_of(function)[num_context:]
    if any(p.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) for p in known) or len(spec.args) > len(known):
        return spec
    named = {p.name: value for p, value in zip(known, spec.args, strict=False)} | dict(spec.kwargs)
    defaults = {p.name: p.default for p in known if isinstance(p.default, str | int | float | tuple)}
    kept = {k: v for k, v in named.items() if k not in defaults or show(_canonical(defaults[k])) != show(v)}
    return Spec(spec.name, (), tuple(sorted(kept.items())))


def call_with(kind: str, spec: Spec, function: Callable[..., Any], *context: Any) -> Any:
    """Call `function(*context, ...)` with the spec's values; where they do not fit, a ConfigError lists what does."""
    check_call(kind, spec, function, len(context))
    return function(*context, *spec.args, **spec.named)


def check_call(kind: str, spec: Spec, function: Callable[..., Any], num_context: int) -> None:
    """Raise a ConfigError where the spec's values do not fit `function`, after its first `num_context` parameters."""
    _check_context(kind, spec.name, _parameters_of(function), num_context)
    known = _parameters_of(function)[num_context:]
    names = [p.name for p in known if p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]
    takes_any_name = any(p.kind is Parameter.VAR_KEYWORD for p in known)
    takes_any = any(p.kind is Parameter.VAR_POSITIONAL for p in known)
    positional = [p for p in known if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    allowed = f"{kind} {spec.name!r} takes {_parameters(known)}"
    for name, _ in spec.kwargs:
        if name not in names and not takes_any_name:
            raise ConfigError(f"unknown parameter {name!r} in {str(spec)!r}; {allowed}")
    if len(spec.args) > len(positional) and not takes_any:
        raise ConfigError(f"too many values in {str(spec)!r}; {allowed}")
    given = {p.name for p in positional[: len(spec.args)]} | {name for name, _ in spec.kwargs}
    missing = [p.name for p in known if p.default is Parameter.empty and p.name in names and p.name not in given]
    if missing or (doubled := [n for n, _ in spec.kwargs if n in {p.name for p in positional[: len(spec.args)]}]):
        problem = f"missing {missing[0]!r}" if missing else f"two values for {doubled[0]!r}"
        raise ConfigError(f"{problem} in {str(spec)!r}; {allowed}")


def _check_context(kind: str, name: str, known: list[Parameter], num_context: int) -> None:
    """Raise a ConfigError where a function does not take what mage calls it with before the spec's values."""
    places = [p for p in known if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    if len(places) < num_context and not any(p.kind is Parameter.VAR_POSITIONAL for p in known):
        raise ConfigError(f"{kind} {name!r} is called with {_CONTEXT[kind]}, but takes {_parameters(known)}")


def show(value: Value) -> str:
    """A value as a spec writes it.

    >>> show((1, "a b", True))
    '[1,"a b",true]'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{','.join(show(v) for v in value)}]"
    if isinstance(value, str):
        doubled = value.replace('"', '""')
        return f'"{doubled}"'
    return repr(value) if isinstance(value, float) else str(value)


def whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """A parameter that must be a whole number within bounds.

    >>> whole("rounds", 3, 1)
    3
    """
    if type(value) is not int or value < low or (high is not None and value > high):
        bounds = f"from {low}" if high is None else f"from {low} to {high}"
        raise ConfigError(f"{name} must be a whole number {bounds}, not {show(value)}")
    return value


def show_parameters(function: Callable[..., Any], num_context: int) -> str:
    """The parameters of a function as a spec may give them; the first `num_context` come from elsewhere.

    >>> show_parameters(lambda game, rounds=3, first=None: game, 1)
    'rounds=3, first'
    """
    return _parameters(_parameters_of(function)[num_context:])


@cache
def _parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    return list(signature(function).parameters.values())


def _parameters(known: list[Parameter]) -> str:
    shown = [
        f"{p.name}…"
        if p.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        else p.name
        if p.default in (Parameter.empty, None)
        else f"{p.name}={p.default}"
        for p in known
    ]
    return ", ".join(shown) or "no parameters"


def _canonical(value: Value) -> Value:
    """The one way to hold a value: a text that could be a name is one."""
    if isinstance(value, tuple):
        return tuple(_canonical(item) for item in value)
    if isinstance(value, str):
        return _literal(value) if _PLAIN.match(value) and isinstance(_literal(value), Spec) else value
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"a spec cannot hold the number {value}; write a finite one")
    return value


def _literal(word: str) -> Value:
    if word in ("true", "True", "false", "False"):
        return word in ("true", "True")
    if _INT.match(word):
        return int(word)
    if _FLOAT.match(word):
        return float(word)
    return Spec(word)


class _Reader:
    """A recursive-descent reader over the tokens of one spec string."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                self.fail(f"unexpected {text[position:].strip()[0]!r}")
            assert match.lastgroup is not None
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()

    def whole(self) -> Spec:
        if len(self.tokens) == 1 and self.tokens[0][0] == "word":
            return Spec(self.tokens[0][1])  # a name on its own may look like a number, as OpenSpiel's 2048 does
        value = self.value(depth=0)
        if self.at < len(self.tokens):
            self.fail(f"unexpected {self.tokens[self.at][1]!r}")
        if not isinstance(value, Spec):
            self.fail("a spec starts with a name")
        return value

    def value(self, depth: int) -> Value:
        if depth > 20:
            self.fail("nested too deeply")
        kind, token = self.take()
        if kind == "string":
            return _canonical(token[1:-1].replace('""', '"'))
        if token == "[":
            return tuple(item for _, item in self.items("]", depth))
        if kind == "mark":
            self.fail(f"unexpected {token!r}")
        if self.peek() == ":":
            self.take()
            return self.named(token, [(None, self.value(depth + 1))])
        if self.peek() == "(":
            self.take()
            return self.named(token, self.items(")", depth))
        value = _literal(token)
        if isinstance(value, float) and not math.isfinite(value):
            self.fail(f"{token} is too large a number")
        return value

    def named(self, name: str, items: list[tuple[str | None, Value]]) -> Spec:
        named = [(key, value) for key, value in items if key is not None]
        for key, _ in named:
            if sum(other == key for other, _ in named) > 1:
                self.fail(f"two values for {key!r}")
        return Spec(name, tuple(v for k, v in items if k is None), tuple(sorted(named, key=lambda item: item[0])))

    def items(self, close: str, depth: int) -> list[tuple[str | None, Value]]:
        items: list[tuple[str | None, Value]] = []
        while self.peek() != close:
            key = None
            if close == ")" and self.peek(1) == "=" and self.tokens[self.at][0] == "word":
                key = self.take()[1]
                self.take()
            items.append((key, self.value(depth + 1)))
            if self.peek() not in (",", close):
                self.fail(f"expected ',' or {close!r}")
            if self.peek() == ",":
                self.take()
        self.take()
        return items

    def peek(self, ahead: int = 0) -> str | None:
        index = self.at + ahead
        return self.tokens[index][1] if index < len(self.tokens) else None

    def take(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            self.fail("it ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def fail(self, why: str) -> NoReturn:
        raise ConfigError(f"cannot read the spec {self.text!r}: {why}; write name, name:value or name(key=value,…)")
