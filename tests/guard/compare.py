"""Two folders as flat tables of values, one translated by the rules, and where they differ.

What commands printed, `said-*.txt`, is compared by its numbers alone, in their order: words there may be renamed
without a rule. All other files are compared completely.
"""

from __future__ import annotations

import json
import re
import struct
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from tests.guard.renames import RULES, Key, Left, Merged, Rules, Text

_FENCE = re.compile(r"^```toml\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?[kMG%]?|\bn/a\b|\b(?:nan|inf)\b")
_PRINTED = "said*.txt"
_IGNORED = "(ignored)"
_MISSING = "(missing)"


@dataclass(frozen=True)
class Tensor:
    """A tensor as a file has it."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass
class Compared:
    """How much was compared, and what differs."""

    num_files: int = 0
    num_tensors: int = 0
    num_values: int = 0
    differences: list[str] = field(default_factory=list)


def compare_folders(base: Path, present: Path, rules: Rules = RULES) -> Compared:
    """Compare all files of two folders, the base's after translation."""
    old = {_renamed_file(path, rules): path for path in _files(base, rules.dropped)}
    new = {path: path for path in _files(present, rules.added)}
    result = Compared()
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            where = "the base" if name not in old else "the present tree"
            result.differences.append(f"{name}: missing in {where}")
            continue
        _compare_file(name, _Side(base, old[name], name, rules, True), _Side(present, name, name, rules, False), result)
    return result


def _compare_file(name: str, old: _Side, new: _Side, result: Compared) -> None:
    result.num_files += 1
    before, after = old.table(), new.table()
    for key in dict.fromkeys([*before, *after]):
        left, right = before.get(key, _MISSING), after.get(key, _MISSING)
        if isinstance(left, Tensor):
            result.num_tensors += 1
        else:
            result.num_values += 1
        if not _is_same(left, right):
            result.differences.append(f"{name}: {key}: {_shown(left)} became {_shown(right)}{_changed(left, right)}")


def _is_same(left: object, right: object) -> bool:
    """Equal to the last bit: 0.0 is not -0.0, 1 is not 1.0, and NaN is NaN."""
    if isinstance(left, Tensor):
        return left == right
    return type(left) is type(right) and repr(left) == repr(right)


def _changed(left: object, right: object) -> str:
    """How much of a tensor changed, where only its numbers did."""
    if not isinstance(left, Tensor) or not isinstance(right, Tensor) or len(left.data) != len(right.data):
        return ""
    places = [place for place, (old, new) in enumerate(zip(left.data, right.data, strict=True)) if old != new]
    return f" with {len(places)} of {len(left.data)} bytes changed, the first at {places[0]}" if places else ""


def _shown(value: object) -> str:
    text = str(value) if value in (_MISSING, _IGNORED) else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"


class _Side:
    """One file of one tree, in the names of the present tree."""

    def __init__(self, folder: Path, path: str, name: str, rules: Rules, is_base: bool) -> None:
        self._path = folder / path
        self._name = name
        self._is_base = is_base
        self._keys = [rule for rule in rules.keys if is_base and fnmatchcase(path, rule.file)]
        self._values = [rule for rule in rules.values if is_base and fnmatchcase(path, rule.file)]
        self._moved = [rule for rule in rules.moved if is_base and fnmatchcase(path, rule.file)]
        self._merged = [rule for rule in rules.merged if is_base and fnmatchcase(path, rule.file)]
        self._text = [*(rules.text if is_base else ()), *rules.masks]
        self._left_out = [rule.key for rule in _of(rules.dropped if is_base else rules.added, path)]
        self._ignored = [rule.key for rule in _of(rules.ignored, name)]
        # By dotted path; lists of many trials have the same few paths.
        self._is_left_out = cache(lambda path: _is_named(path, self._left_out))
        self._is_ignored = cache(lambda path: _is_named(path, self._ignored))
        self._renamed = cache(self._rename)

    def table(self) -> dict[str, object]:
        """Every value of the file by its place."""
        if "" in self._ignored:
            return {"": _IGNORED}
        data = self._path.read_bytes()
        if self._path.suffix == ".safetensors":
            return dict(self._tensors(data))
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return {"bytes": data}
        if fnmatchcase(self._path.name, _PRINTED):
            return dict(self._numbers(text))
        readers: dict[str, Callable[[str], Iterator[tuple[str, object]]]] = {
            ".json": lambda text: self._parsed(json.loads(text), ""),
            ".jsonl": self._json_lines,
            ".toml": lambda text: self._parsed(tomllib.loads(text), ""),
            ".md": self._markdown,
        }
        suffix = Path(self._path.name.removesuffix(".superseded")).suffix
        return dict(readers.get(suffix, self._lines)(text))

    def _tensors(self, data: bytes) -> Iterator[tuple[str, object]]:
        """The format is the length of a JSON header, the header, and the bytes it points into."""
        (length,) = struct.unpack("<Q", data[:8])
        header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
        yield from self._parsed(header.pop("__metadata__", {}), "__metadata__")
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            if not self._is_left_out(name):
                yield self._renamed(name, ""), Tensor(entry["dtype"], tuple(entry["shape"]), body[begin:end])

    def _json_lines(self, text: str) -> Iterator[tuple[str, object]]:
        for number, line in enumerate(text.splitlines()):
            yield from self._parsed(json.loads(line), f"[{number}]")

    def _markdown(self, text: str) -> Iterator[tuple[str, object]]:
        for block in _FENCE.findall(text):
            yield from self._parsed(tomllib.loads(block), "toml")
        yield from self._lines(_FENCE.sub("", text))

    def _lines(self, text: str) -> Iterator[tuple[str, object]]:
        """Lines without the width of columns, which follows the clock."""
        for number, line in enumerate(text.splitlines(), 1):
            for rule in self._rules_of_text:
                line = re.sub(rule.pattern, rule.new, line)
            yield f"line {number}", re.sub(r"[ ─]+", " ", line).rstrip()

    def _numbers(self, text: str) -> Iterator[tuple[str, object]]:
        numbers = (number for _, line in self._lines(text) for number in _NUMBER.findall(str(line)))
        yield from ((f"number {place}", number) for place, number in enumerate(numbers, 1))

    @property
    def _rules_of_text(self) -> Sequence[Text]:
        return [rule for rule in self._text if fnmatchcase(self._name, rule.file)]

    def _parsed(self, value: Any, place: str) -> Iterator[tuple[str, object]]:
        for rule in self._moved:
            _move(value, rule.old.split("."), rule.new.split("."))
        for merged in self._merged:
            _merge(value, merged)
        yield from self._walk(value, "", "", place)

    def _walk(self, value: object, old: str, new: str, place: str) -> Iterator[tuple[str, object]]:
        """Values by place; `old` and `new` are the dotted path in the names of this tree and of the present one."""
        if self._is_ignored(new):
            yield place, _IGNORED
        elif isinstance(value, dict) and value:
            for key, inner in value.items():
                before, name = _dotted(old, key), self._renamed(key, old)
                if not self._is_left_out(before):
                    yield from self._walk(inner, before, _dotted(new, name), _dotted(place, name))
        elif isinstance(value, list) and value:
            for index, inner in enumerate(value):
                yield from self._walk(inner, old, new, f"{place}[{index}]")
        else:
            yield place, self._translated(value, old)

    def _rename(self, key: str, parent: str) -> str:
        for rule in self._keys:
            if fnmatchcase(parent, rule.under) or _is_named(parent, [rule.under]):
                renamed = _applied(rule, key)
                if renamed is not None:
                    return renamed
        return key

    def _translated(self, value: object, path: str) -> object:
        for rule in self._values:
            if value == rule.old and _is_named(path, [rule.key]):
                return rule.new
        return value


def _applied(rule: Key, key: str) -> str | None:
    if rule.old.endswith("*") and key.startswith(rule.old[:-1]):
        return rule.new.removesuffix("*") + key[len(rule.old) - 1 :]
    return rule.new if key == rule.old else None


def _move(value: Any, old: Sequence[str], new: Sequence[str]) -> None:
    """Wherever the old path begins in a value, put what is there under the new path."""
    for inner in list(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()):
        _move(inner, old, new)
    holder = _inner(value, old[:-1])
    if isinstance(holder, dict) and old[-1] in holder:
        moved = holder.pop(old[-1])
        for part in new[:-1]:
            value = value.setdefault(part, {})
        value[new[-1]] = moved


def _merge(value: Any, rule: Merged) -> None:
    """Wherever all old keys stand together, with values that the rule knows, put the new one in their place."""
    for inner in list(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()):
        _merge(inner, rule)
    if isinstance(value, dict) and value.keys() >= set(rule.old):
        old = tuple(value[key] for key in rule.old)
        if old in rule.values:
            for key in rule.old:
                del value[key]
            value[rule.new] = rule.values[old]


def _inner(value: Any, path: Sequence[str]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _dotted(parent: str, key: str) -> str:
    return f"{parent}.{key}" if parent else key


def _is_named(path: str, patterns: Sequence[str]) -> bool:
    return any(p and (fnmatchcase(path, p) or fnmatchcase(path, f"*.{p}")) for p in patterns)


def _of(rules: Sequence[Left], path: str) -> list[Left]:
    return [rule for rule in rules if fnmatchcase(path, rule.file)]


def _files(folder: Path, left_out: Sequence[Left]) -> list[str]:
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return [path for path in found if not any(not rule.key for rule in _of(left_out, path))]


def _renamed_file(path: str, rules: Rules) -> str:
    for old, new in rules.files.items():
        path = re.sub(rf"(?<![^/]){re.escape(old)}(?![^/])", new, path)
    return path
