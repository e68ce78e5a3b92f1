"""Reading actions and reflections out of free text. Never raises, whatever the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_DANGLING = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_OPEN, _CLOSE = "<action>", "</action>"
_SHOWN = 40


class Parsed(NamedTuple):
    """An action, or the reason why there is none."""

    action: str | None
    problem: str | None


def parse_action(text: str, actions: Sequence[str]) -> Parsed:
    """The action in the last closed tag, thoughts left aside.

    >>> parse_action("They like rock. <action>Paper</action>", ["rock", "paper"])
    Parsed(action='paper', problem=None)
    >>> parse_action("<think><action>rock</action></think> hm", ["rock", "paper"]).problem
    'it has no <action>…</action>'
    """
    spoken = strip_thoughts(text)
    lowered = spoken.lower()
    end = lowered.rfind(_CLOSE) if len(lowered) == len(spoken) else -1
    start = lowered.rfind(_OPEN, 0, end) if end >= 0 else -1
    if start < 0:
        return Parsed(None, f"it has no {_OPEN}…{_CLOSE}")
    wanted = _normal(spoken[start + len(_OPEN) : end])
    for candidate in (actions, [a for a in actions if _normal(a) == wanted]):
        exact = [a for a in candidate if a == spoken[start + len(_OPEN) : end].strip()]
        if len(exact) == 1:
            return Parsed(exact[0], None)
    matches = [a for a in actions if _normal(a) == wanted]
    if len(matches) == 1:
        return Parsed(matches[0], None)
    shown = wanted if len(wanted) <= _SHOWN else wanted[:_SHOWN] + "…"
    return Parsed(None, f"{shown!r} is not one of the actions")


def parse_reflection(text: str) -> str:
    """The note itself: thoughts left aside, white space trimmed."""
    return strip_thoughts(text).strip()


def strip_thoughts(text: str) -> str:
    """Remove thoughts, also those whose opening tag was part of the prompt or whose end was cut off.

    >>> strip_thoughts("a<think>b</think>c<think>d")
    'ac'
    >>> strip_thoughts("b</think>c")
    'c'
    """
    return _DANGLING.sub("", _THOUGHTS.sub("", text))


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()
