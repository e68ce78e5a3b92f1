"""Plugins of run directories: imported for the commands that go on with a run, never by readers of a folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mage.errors import ConfigError
from mage.plugins import import_recorded, keep_plugins, unknown_plugins
from mage.runs.console import say
from mage.runs.store import RUN, read_info, write_info


def import_plugins_of(run: Path) -> None:
    """Import the plugins of a run that the user named; this executes their code. Other directories have none."""
    if (run / RUN).is_file():
        import_recorded(run, read_info(run).plugins or (), say)


def record_plugins(run: Path) -> None:
    """Record the plugins of this process in a run that goes on: those that it lacks or that replace its own."""
    info = read_info(run)
    kept = {plugin.key: plugin for plugin in (*(info.plugins or ()), *keep_plugins(run))}
    if tuple(kept.values()) != (info.plugins or ()):
        write_info(run, msgspec.structs.replace(info, plugins=tuple(kept.values())))


def check_plugins_of(run: Path) -> None:
    """Raise a ConfigError where this process lacks plugins of a run; for readers that must not execute a run's code."""
    missing = unknown_plugins(read_info(run).plugins or ())
    if missing:
        given = " ".join(f"--import {name}" for name in missing)
        raise ConfigError(f"{run} has plugins, whose code is executed here only when named: start again with {given}")
