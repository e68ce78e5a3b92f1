"""Damage to files: the ways in which a JSON file, a log, weights or a chat template can be broken."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from mage.seeds import stream

Damage = Callable[[Random, bytes], bytes]
"""Other content in place of the content of a file."""

_DEEP = 100_000
_VALUES: tuple[str, ...] = (
    "null",
    "true",
    "-1",
    "0",
    "7",
    "0.5",
    '""',
    '"text"',
    '"../../etc/passwd"',
    '"\\ud800"',
    "[]",
    "{}",
    '[1,"a",null]',
    '{"a":[{}]}',
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "1e308",
    "1000000000",
    "9" * 20,
    "9" * 400,
    "9" * 5000,
    "-" + "9" * 400,
    "[" * _DEEP + "]" * _DEEP,
    '{"a":' * _DEEP + "1" + "}" * _DEEP,
    "[" * 300 + "]" * 300,
    '"' + "x" * 100_000 + '"',
)
"""Values as they are written in a file, most of them wrong wherever they stand."""


def truncated(rng: Random, content: bytes) -> bytes:
    """The beginning."""
    return content[: rng.randrange(len(content) or 1)]


def flipped(rng: Random, content: bytes) -> bytes:
    """A few bytes with one bit changed in each."""
    changed = bytearray(content or b"\0")
    for _ in range(rng.choice((1, 1, 3, 20))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwritten(rng: Random, content: bytes) -> bytes:
    """A stretch of zeros, of random bytes or of bytes that are not UTF-8."""
    start, size = rng.randrange(len(content) or 1), rng.choice((1, 4, 64))
    piece = rng.choice((bytes(size), rng.randbytes(size), b"\xff\xfe\xc3\x28" * size))
    return content[:start] + piece + content[start + size :]


def inserted(rng: Random, content: bytes) -> bytes:
    """A value, a line break or a part of the file itself, at any place."""
    start = rng.randrange(len(content) + 1)
    piece = rng.choice((rng.choice(_VALUES).encode(), b"\n", b"\r\n\x00", content[:200], content))
    return content[:start] + piece + content[start:]


def replaced(rng: Random, content: bytes) -> bytes:
    """Nothing, or one value, in place of the whole file."""
    value = rng.choice(_VALUES).encode()
    return rng.choice((b"", b"\n", value, value + b"\n", b"\xff" * 40, b"PK\x03\x04", b"\xef\xbb\xbf" + content))


_ANYWHERE: tuple[Damage, ...] = (truncated, flipped, overwritten, inserted, replaced)


def changed_json(rng: Random, content: bytes) -> bytes:
    """Another value, or a key less, somewhere in a file that stays JSON."""
    value = json.loads(content)
    return _with_change(rng, value)


def changed_line(rng: Random, content: bytes) -> bytes:
    """Another value in one line of a log; or that line twice, not at all, or elsewhere."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return rng.choice(_VALUES).encode() + b"\n"
    at = rng.randrange(len(lines))
    what = rng.randrange(6)
    if what == 0:
        lines.insert(rng.randrange(len(lines)), lines[at])
    elif what == 1:
        del lines[at]
    else:
        lines[at] = _with_change(rng, json.loads(lines[at])) + b"\n"
    return b"".join(lines)


def _with_change(rng: Random, value: Any) -> bytes:
    places = list(_places(value))
    marker = "@@here@@"
    if not places:
        return rng.choice(_VALUES).encode()
    holder, key = rng.choice(places)
    if rng.randrange(6) == 0:
        del holder[key]
    else:
        holder[key] = marker
    return json.dumps(value).replace(f'"{marker}"', rng.choice(_VALUES), 1).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def changed_tensors(rng: Random, content: bytes) -> bytes:
    """Another header of a safetensors file: shapes, types, places, names and its length."""
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    what = rng.randrange(9)
    if what == 0:
        return struct.pack("<Q", rng.choice((0, 1, size - 1, size + 1, 2**40, 2**64 - 1))) + content[8:]
    if what == 1:
        return _packed(_with_change(rng, header), data)
    name = rng.choice([name for name in header if name != "__metadata__"])
    tensor = header[name]
    if what == 2:
        tensor["shape"] = list(reversed(tensor["shape"]))
    elif what == 3:
        tensor["shape"] = [*tensor["shape"], 1]
    elif what == 4:
        tensor["dtype"] = rng.choice(("I32", "F64", "BF16", "U8", "BOOL", "F8_E4M3", "none"))
    elif what == 5:
        header[rng.choice(("x", name + ".more", ""))] = header.pop(name)
    elif what == 6:
        return _packed(json.dumps(header).encode(), rng.choice((bytes(len(data)), b"\xff" * len(data), data + b"0000")))
    elif what == 7:
        return _one_tensor(name, rng.choice(([0], [2, 2], [1, 1, 1], [])))
    else:
        del header[name]
    return _packed(json.dumps(header).encode(), data)


def _packed(header: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def _one_tensor(name: str, shape: list[int]) -> bytes:
    num = 4
    for size in shape:
        num *= size
    return _packed(json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, num]}}).encode(), bytes(num))


TEMPLATES: Mapping[str, str] = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a loop that writes": "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}",
    "a macro that calls itself": "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "macros that call each other": (
        "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}"
    ),
    "a macro that calls itself twice": (
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}"
    ),
    "recursive loops": "{% for a in [[[]]] recursive %}{{ loop([a]) }}{% endfor %}",
    "a division by zero": "{{ 1 // 0 }}",
    "text plus number": "{{ messages[0]['content'] + 1 }}",
    "no such message": "{{ messages[99]['content'].x.y }}",
    "a call of text": "{{ messages[0]['content']() }}",
    "an unknown filter": "{{ messages | nothing }}",
    "an open block": "{% for m in messages %}",
    "a forbidden attribute": "{{ ''.__class__.__mro__ }}",
    "an endless range": "{{ range(10**12) | list }}",
    "an exception": "{{ raise_exception('no') }}",
    "a number": "{{ 7 }}",
    "a huge text": '{{ "a" * 10**10 }}',
    "a huge number": "{{ 10**10**9 }}",
    "a wide text": "{{ 'a'.ljust(10**9 * 9) }}",
    "a wide filter": "{{ 'a' | center(99999999999) }}",
    "a wide format": "{{ '%99999999999d' | format(1) }}",
    "a text for every letter": "{% set a = 'a' * 1000000 %}{{ a | replace('a', a) }}",
    "a text that doubles": "{% set a = 'aaaa' %}" + "{% set a = a ~ a %}" * 40,
    "a text in a namespace that doubles": "{% set n = namespace(a='aaaa') %}" + "{% set n.a = n.a ~ n.a %}" * 40,
    "deep brackets": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "an inclusion": "{% include '/etc/passwd' %}",
}
"""Chat templates that cannot be used."""


def changed_template(rng: Random, content: bytes) -> bytes:
    """A template that loops or fails, alone or before the one that was there."""
    added = rng.choice(list(TEMPLATES.values())).encode()
    return rng.choice((added, added + content, content + added))


def damaged(name: str, content: bytes, seed: int, number: int) -> bytes:
    """The content of a file after the damage with this number; `name` says what kind of file it is."""
    rng = stream(seed, "damage", name, number)
    ending = name.rpartition(".")[2]
    own: Mapping[str, Damage] = {
        "json": changed_json,
        "jsonl": changed_line,
        "safetensors": changed_tensors,
        "jinja": changed_template,
    }
    if ending in own and rng.random() < 0.6:
        return own[ending](rng, content)
    return rng.choice(_ANYWHERE)(rng, content)


@contextmanager
def damaged_file(path: Path, seed: int, number: int) -> Iterator[None]:
    """A file with damage, or no file, a directory or a link in its place; whole again afterwards."""
    content = path.read_bytes()
    path.unlink()
    what = stream(seed, "what", path.name, number).randrange(40)
    if what == 0:
        path.mkdir()
    elif what == 1:
        path.symlink_to(path.name)
    elif what > 2:
        path.write_bytes(damaged(path.name, content, seed, number))
    try:
        yield
    finally:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.write_bytes(content)
