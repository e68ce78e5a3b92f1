"""Errors of the command line itself, such as an option that is none or a value that is no number, as one line."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import typer

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""Click's class, or Typer's own copy of it, by the version of Typer."""


def one_line(error: Any, given: Sequence[str], commands: Collection[str]) -> str:
    """What is wrong, with the value that was given, and the command whose help says what is allowed.

    Where no command was given, the error has the help of all of them to say.
    """
    said = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":
        return str(said)
    param = getattr(error, "param", None)
    if isinstance(error, typer.BadParameter) and param is not None and (found := _found(param.opts, given)):
        said = f"{found}: {error.message}"
    name = next((word for word in given if word in commands), "")
    path = error.ctx.command_path if error.ctx is not None else f"mage {name}".strip()
    return f"mage: {' '.join(said.split()).rstrip('.')} ({path} --help)"


def _found(names: Sequence[str], given: Sequence[str]) -> str:
    """An option and its value as they were given last; empty where they were not.

    >>> _found(["--trials"], ["evaluate", "--trials", "1", "--trials", "x"]), _found(["--trials"], ["--trials=0"])
    ('--trials x', '--trials 0')
    >>> _found(["--trials"], ["evaluate"])
    ''
    """
    for at in reversed(range(len(given))):
        name, is_one, value = given[at].partition("=")
        if name in names:
            return f"{name} {value if is_one else ' '.join(given[at + 1 : at + 2])}".strip()
    return ""
