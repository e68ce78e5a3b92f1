"""Plugins: modules and Python files that register names when they are imported, and are recorded in runs.

A plugin is named by its module, `my_package.worlds`, or by a file that ends in `.py`. In one process a file's name
stands for one content: importing it again does nothing, and another file of that name is refused. All plugins of a
process are recorded in every run that it makes, files with their SHA-256 and a copy. A script or module that registers
names without being imported as a plugin is recorded in the same way; a notebook's cells are not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mage.errors import ConfigError, MageError, RecordError
from mage.files import write_atomically
from mage.registry import IMPORT_ERRORS

PLUGINS = "plugins"
"""Folder of the copies, in runs and sweeps."""
_ENDING = ".py"
_COPY = re.compile(r".*-[0-9a-f]{8}\.py")


class Plugin(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plugin as a run records it."""

    name: str
    """The name of a module, or the absolute path of a file."""
    sha256: str = ""
    """Of a file's content."""
    copy: str = ""
    """The path of a file's copy, relative to the run."""

    @property
    def key(self) -> str:
        """What it is called in one process: a file by its name without folders."""
        return Path(self.name).name if self.sha256 else self.name


class PluginSource(msgspec.Struct, frozen=True):
    """A plugin with what is needed to import it in another process, which may be on another machine."""

    plugin: Plugin
    content: bytes
    """Of a file; empty for a module, which must be installed there."""


class _Known(NamedTuple):
    plugin: Plugin
    content: bytes
    run: Path | None
    """The run that it was imported for; None where the user named it."""


_known: dict[str, _Known] = {}
"""The plugins of this process by their keys, in the order of import."""
_under_way: list[str] = []
"""Plugins that are being imported."""


def is_file(entry: str) -> bool:
    """Whether a plugin is named by its file.

    >>> is_file("worlds/number.py"), is_file("my_package.worlds")
    (True, False)
    """
    return entry.endswith(_ENDING)


def resolved_entry(entry: str, folder: Path | None = None) -> str:
    """An entry with a file's path made absolute: in `folder` where it lies there, else in the working directory."""
    if not is_file(entry):
        return entry
    beside = None if folder is None else folder / entry
    return str((beside if beside is not None and beside.is_file() else Path(entry)).resolve())


def import_plugins(entries: Iterable[str]) -> None:
    """Import plugins that the user named; an error names the plugin and says in one line what is wrong."""
    for entry in entries:
        if not is_file(entry):
            _import_module(entry, None)
            continue
        path = Path(resolved_entry(entry))
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(f"the plugin {entry!r} cannot be read: {error.strerror or error}") from None
        plugin = _plugin_of(str(path), content)
        known = _known.get(plugin.key)
        if known is None:
            _execute(plugin, content, path, None)
        elif known.plugin.sha256 != plugin.sha256:
            what = "has changed since it was imported" if known.plugin.name == plugin.name else "has that name too"
            raise ConfigError(
                f"the plugin {entry!r} cannot be imported beside {known.plugin.name}: {path} {what}; "
                "one process has one file of a name"
            )


def import_recorded(run: Path, plugins: Sequence[Plugin], say: Callable[[str], None]) -> None:
    """Import the plugins that a run records.

    A file is imported from its place where it is as it was, else the run's copy is imported, and `say` is told. A file
    of the same name that the user named before takes precedence, which `say` is told where the two differ.
    """
    for plugin in plugins:
        known = _known.get(plugin.key)
        if known is None and not plugin.sha256:
            _import_module(plugin.name, run)
        elif known is None:
            _import_recorded_file(run, plugin, say)
        elif known.plugin.sha256 != plugin.sha256 and known.run is not None:
            raise ConfigError(
                f"{run} was made with another {plugin.key} than {known.run}; name the one for both with --import"
            )
        elif known.plugin.sha256 != plugin.sha256:
            say(f"{run} was made with another {plugin.key} than {known.plugin.name}, which is used")


def named_plugins() -> list[str]:
    """The names of the plugins that the user named or a script registered, for a process that is to have them too."""
    return [known.plugin.name for known in _known.values() if known.run is None]


def plugin_sources() -> tuple[PluginSource, ...]:
    """All plugins of this process, for `import_sources` in another one."""
    return tuple(PluginSource(known.plugin, known.content) for known in _known.values())


def import_sources(sources: Iterable[PluginSource]) -> None:
    """Import the plugins of another process that this one does not have."""
    for plugin, content in ((source.plugin, source.content) for source in sources):
        if plugin.key in _known:
            continue
        if plugin.sha256:
            _execute(plugin, content, Path(plugin.name), None)
        else:
            _import_module(plugin.name, None)


def unknown_plugins(plugins: Iterable[Plugin]) -> list[str]:
    """The names of those plugins that are not imported in this process."""
    return [plugin.name for plugin in plugins if plugin.key not in _known]


def keep_plugins(folder: Path) -> tuple[Plugin, ...]:
    """Copy this process's plugin files into a run or sweep and return what is recorded there."""
    for known in _known.values():
        if known.plugin.sha256:
            (folder / PLUGINS).mkdir(exist_ok=True)
            write_atomically(folder / known.plugin.copy, known.content)
    return tuple(known.plugin for known in _known.values())


def is_plugin_copy(path: Path) -> bool:
    """Whether a file is named as the copies in runs are."""
    return _COPY.fullmatch(path.name) is not None


def remove_copies(folder: Path) -> None:
    """Delete the copies in a run that is discarded."""
    if (folder / PLUGINS).is_dir():
        for path in (folder / PLUGINS).iterdir():
            path.unlink()
        (folder / PLUGINS).rmdir()


def note_registration(caller: Mapping[str, Any]) -> None:
    """Note the module with the globals `caller` as a plugin of this process, because it registers a name.

    A script, or a module outside any package, is noted by its file. What a plugin registers needs no note.
    """
    name, file = str(caller.get("__name__", "")), caller.get("__file__")
    if _under_way or not name:
        return
    if caller.get("__package__") and name != "__main__":
        _known.setdefault(name, _Known(Plugin(name), b"", None))
    elif file is not None and is_file(str(file)) and Path(str(file)).is_file():
        path = Path(str(file)).resolve()
        content = path.read_bytes()
        plugin = _plugin_of(str(path), content)
        _known.setdefault(plugin.key, _Known(plugin, content, None))


def refuse_while_importing(verb: str) -> None:
    """Raise a ConfigError where a plugin runs `verb` while it is imported."""
    if _under_way:
        raise ConfigError(
            f'it calls {verb} when it is imported; put what a script does under if __name__ == "__main__":'
        )


def _plugin_of(name: str, content: bytes) -> Plugin:
    digest = sha256(content).hexdigest()
    return Plugin(name, digest, f"{PLUGINS}/{Path(name).stem}-{digest[:8]}{_ENDING}")


def _import_recorded_file(run: Path, plugin: Plugin, say: Callable[[str], None]) -> None:
    path, copy = Path(plugin.name), run / plugin.copy
    content = path.read_bytes() if path.is_file() else None
    if content is not None and sha256(content).hexdigest() == plugin.sha256:
        _execute(plugin, content, path, run)
        return
    if not copy.is_file() or sha256(copy.read_bytes()).hexdigest() != plugin.sha256:
        raise RecordError(
            f"{run} needs the plugin {plugin.name}; its copy {copy} is gone or changed: give --import FILE"
        )
    change = "is gone" if content is None else "has changed"
    say(f"{run}: {path} {change}; the run's copy of it is used; --import FILE takes another")
    _execute(plugin, copy.read_bytes(), copy, run)


def _import_module(name: str, run: Path | None) -> None:
    if name in _known:
        return
    _under_way.append(name)
    try:
        import_module(name)
    except (*IMPORT_ERRORS, MageError, SystemExit) as error:
        raise _failure(name, run, error) from None
    finally:
        _under_way.pop()
    _known[name] = _Known(Plugin(name), b"", run)


def _execute(plugin: Plugin, content: bytes, path: Path, run: Path | None) -> None:
    """Run a file's content as a module, which `path` says to be at."""
    name = f"mage_plugin_{Path(plugin.name).stem}"
    spec = spec_from_loader(name, loader=None, origin=str(path))
    assert spec is not None
    module = module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[name] = module
    _under_way.append(plugin.name)
    try:
        exec(compile(content, str(path), "exec"), module.__dict__)
    except (*IMPORT_ERRORS, MageError, SystemExit) as error:
        del sys.modules[name]
        raise _failure(str(path), run, error) from None
    finally:
        _under_way.pop()
    _known[plugin.key] = _Known(plugin, content, run)


def _failure(name: str, run: Path | None, error: BaseException) -> ConfigError:
    said = " ".join(str(error).split())
    why = said if isinstance(error, MageError) else f"{type(error).__name__}: {said}"
    of = "" if run is None else f" of {run}"
    return ConfigError(f"the plugin {name!r}{of} cannot be imported: {why}")
