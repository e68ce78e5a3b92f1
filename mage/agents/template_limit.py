"""Limits the work of a chat template: it is code that came with a model, and may loop or make a huge text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

MAX_LINES = 100_000
"""Lines of compiled code that a template may run; those in use run some hundred for the probe conversation."""
_COMPILED = "<template>"
"""The file name that jinja2 gives to the code of a template without a file."""


@contextmanager
def limited_template() -> Iterator[None]:
    """Raise a TimeoutError in a chat template that runs more than `MAX_LINES` lines, an OverflowError in a huge one.

    Lines are counted by tracing this thread, so the limit does not depend on how busy the machine is.
    """
    from transformers.utils import chat_template_utils

    from mage.agents.template_sandbox import LimitedEnvironment, check_locals

    num_lines = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal num_lines
        num_lines += event == "line"
        if num_lines > MAX_LINES:
            raise TimeoutError(f"it loops; it was stopped after {MAX_LINES:,} lines")
        check_locals(frame.f_locals.values())
        return count

    def enter(frame: FrameType, event: str, arg: Any) -> Any:
        return count if frame.f_code.co_filename == _COMPILED else None

    before = sys.gettrace()
    vars(chat_template_utils)["ImmutableSandboxedEnvironment"] = LimitedEnvironment  # of all templates from now on
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)
