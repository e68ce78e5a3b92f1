"""Errors of the command line itself, such as an option that is none or a value that is no number, as one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Click's class, or Typer's own copy of it, by the version of Typer."""


def one_line(error: Any, given: Sequence[str]) -> str:
    """What is wrong, with the value that was given, and the command whose help says what is allowed.

    Where a command asks for no more than its help, that is what the error has to say.
    """
    said = error.format_message()
    if "\n" in said:
        return str(said)
    param = getattr(error, "param", None)
    if isinstance(error, typer.BadParameter) and param is not None and (found := _found(param.opts, given)):
        said = f"{found}: {error.message}"
    path = error.ctx.command_path if error.ctx is not None else "mage"
    return f"mage: {said.rstrip('.')} ({path} --help)"


def _found(names: Sequence[str], given: Sequence[str]) -> str:
    """An option and its value as they were given; empty where they were not.

    >>> _found(["--trials"], ["evaluate", "--trials", "x"]), _found(["--trials"], ["--trials=0"]), _found(["-t"], [])
    ('--trials x', '--trials 0', '')
    """
    for at, word in enumerate(given):
        name, is_one, value = word.partition("=")
        if name in names:
            return f"{name} {value if is_one else ' '.join(given[at + 1 : at + 2])}".strip()
    return ""
