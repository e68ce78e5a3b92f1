"""Parses actions and reflections from free text; never raises, and takes linear time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

# ASCII because IGNORECASE would match the Kelvin sign as k; possessive to keep long runs of spaces linear.
_THOUGHT = re.compile(r"<\s*+(/?+)\s*+think(?:ing)?\s*+>", re.IGNORECASE | re.ASCII)
_ACTION = re.compile(r"<\s*+(/?+)\s*+action\s*+>", re.IGNORECASE | re.ASCII)
_SHOWN = 40
"""Most characters of an answer that the retry message quotes."""


class Parsed(NamedTuple):
    """An action, or the reason why there is none."""

    action: str | None
    problem: str | None


def parse_action(text: str, actions: Sequence[str]) -> Parsed:
    """The action in the last complete tag outside of thoughts.

    >>> parse_action("They like rock. <action>Paper</action>", ["rock", "paper"])
    Parsed(action='paper', problem=None)
    >>> parse_action("<think><action>rock</action></think> hm", ["rock", "paper"]).problem
    'it has no <action>NAME</action>'
    """
    found = _last_tag(text, "NAME")
    return match_action(found.action, actions) if found.action is not None else found


def parse_open_action(text: str) -> Parsed:
    """The trimmed text in the last complete tag outside of thoughts, where any text of one line is an action.

    >>> parse_open_action("I need shoes. <action> search[red shoes] </action>")
    Parsed(action='search[red shoes]', problem=None)
    >>> parse_open_action("<action> </action>").problem, parse_open_action("<action>a\\nb</action>").problem
    ('its <action> is empty', 'its <action> has 2 lines, not one')
    """
    found = _last_tag(text, "TEXT")
    if found.action is None:
        return found
    action = found.action.strip()
    lines = action.splitlines()
    if len(lines) != 1:
        return Parsed(None, f"its <action> has {len(lines)} lines, not one" if lines else "its <action> is empty")
    return Parsed(action, None)


def _last_tag(text: str, placeholder: str) -> Parsed:
    """What stands in the last complete tag outside of thoughts, as it is."""
    spoken = strip_thoughts(text)
    tags, is_open = _tags(spoken)
    if tags:
        _, start, stop = tags[-1]
        return Parsed(spoken[start:stop], None)
    return Parsed(None, "its <action> is not closed" if is_open else f"it has no <action>{placeholder}</action>")


def _tags(spoken: str) -> tuple[list[tuple[int, int, int]], bool]:
    """The complete tags, each as its place and the start and stop of what stands in it; whether one is left open."""
    found, opened = [], None
    for tag in _ACTION.finditer(spoken):
        if not tag[1]:
            opened = tag
        elif opened is not None:
            found.append((opened.start(), opened.end(), tag.start()))
            opened = None
    return found, opened is not None


def is_tag(text: str) -> bool:
    """Whether a text is one tag, of a thought or of an action, and nothing else.

    >>> is_tag("<think>"), is_tag("</action>"), is_tag("<|im_end|>")
    (True, True, False)
    """
    return (_THOUGHT.fullmatch(text) or _ACTION.fullmatch(text)) is not None


def opens_action(text: str) -> bool:
    """Whether text after `text` is an action: its last tag outside of thoughts is left open.

    >>> opens_action("<action>"), opens_action("Thought:")
    (True, False)
    """
    return _tags(strip_thoughts(text))[1]


def match_action(found: str, actions: Sequence[str]) -> Parsed:
    """The action that `found` names: exactly, else up to white space, else up to case, else among other words.

    It is a problem, and not a guess, if two actions match.

    >>> match_action(" BET ", ["bet", "Bet"]).problem
    "'BET' could be 'bet' or 'Bet'"
    >>> match_action("Bet", ["bet", "Bet"]).action
    'Bet'
    >>> match_action("I pass.", ["bet", "pass"]).action
    'pass'
    """
    for form in _FORMS:
        wanted = form(found)
        matches = [action for action in dict.fromkeys(actions) if form(action) == wanted]
        if len(matches) == 1:
            return Parsed(matches[0], None)
        if matches:
            return Parsed(None, f"{_shown(found)} could be {' or '.join(map(_shown, matches[:2]))}")
    words = _folded(found)
    matches = [action for action in dict.fromkeys(actions) if _names(words, _folded(action))]
    if len(matches) == 1:
        return Parsed(matches[0], None)
    if matches:
        return Parsed(None, f"{_shown(found)} could be {' or '.join(map(_shown, matches[:2]))}")
    return Parsed(None, f"{_shown(found)} is not one of the actions")


def parse_reflection(text: str) -> str:
    """The note without thoughts, trimmed."""
    return strip_thoughts(text).strip()


def strip_thoughts(text: str) -> str:
    """Remove thoughts, also those whose opening tag was in the prompt or whose closing tag was cut off.

    A thought ends at the first closing tag; further opening tags inside it are ignored.

    >>> strip_thoughts("a<think>b</think>c<think>d")
    'ac'
    >>> strip_thoughts("b</think>c")
    'c'
    """
    spoken: list[str] = []
    spoken_from: int | None = 0
    for tag in _THOUGHT.finditer(text):
        if tag[1]:
            if spoken_from is not None:
                spoken.clear()
            spoken_from = tag.end()
        elif spoken_from is not None:
            spoken.append(text[spoken_from : tag.start()])
            spoken_from = None
    if spoken_from is not None:
        spoken.append(text[spoken_from:])
    return "".join(spoken)


def strip_to_action(text: str) -> str:
    """Remove thoughts, and what stands before the last complete tag of an action.

    >>> strip_to_action("Thought: they like rock. <action>paper</action>"), strip_to_action("<think>a</think>paper")
    ('<action>paper</action>', 'paper')
    """
    spoken = strip_thoughts(text)
    tags, _ = _tags(spoken)
    return spoken[tags[-1][0] :] if tags else spoken


def opens_thought(text: str) -> bool:
    """Whether text after `text` is a thought: its last tag opens one.

    >>> opens_thought("go on <think>"), opens_thought("<think> </think>")
    (True, False)
    """
    tags = list(_THOUGHT.finditer(text))
    return bool(tags) and not tags[-1][1]


def _collapsed(text: str) -> str:
    return " ".join(text.split())


def _folded(text: str) -> str:
    return _collapsed(text).casefold()


def _names(words: str, action: str) -> bool:
    """Whether an action occurs as a whole word: rock is not in rocks, nor in rock-solid.

    >>> _names("i take rock.", "rock"), _names("rock-solid", "rock")
    (True, False)
    """
    return bool(action) and re.search(rf"(?<![\w-]){re.escape(action)}(?![\w-])", words) is not None


_FORMS: Sequence[Callable[[str], str]] = (str.strip, _collapsed, _folded)
"""Normalisations under which an answer is compared with the actions, strictest first."""


def _shown(text: str) -> str:
    """The start of a text in quotes, on one line, without characters of tags.

    >>> _shown("<|im_end|> it's ")
    "'[|im_end|] it`s'"
    """
    words = _collapsed(text.strip()[: 2 * _SHOWN])
    start = words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"
    return "'" + "".join(_SAFE.get(c, c if c.isprintable() else "?") for c in start) + "'"


_SAFE = {"<": "[", ">": "]", "'": "`"}
