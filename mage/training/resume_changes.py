"""Changes of settings when a run is resumed: what may change, and how it is recorded.

`run.json` has both the settings that the run continues with and the list of changes, so that a kill at any moment
leaves the old state or the new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from mage.config.load import recorded, replaced
from mage.config.schema import Config
from mage.errors import ConfigError, RecordError
from mage.evaluation.config_splits import split_names_of
from mage.evaluation.splits import is_path, split_files
from mage.files import write_atomically
from mage.runs.run_plugins import import_plugins_of
from mage.runs.store import RUN, Change, note_edit, read_info, write_info
from mage.training.checkpoint import newest_checkpoint, read_state
from mage.training.config_paths import MODEL, absolute_values, is_moved

MAY_CHANGE = (
    "steps",
    "trackers",
    "alarms.*",
    "checkpoint.*",
    "evaluation.*",
    "learner.lr",
    "learner.ranks",
    "learner.token_budget",
    "learner.entropy_*",
    "learner.divergence_weight",
    "tokens",
    "agent.server",
    "agent.slots",
    "rollout.*",
    "schedule.*",
)
"""Settings that may change: past steps do not depend on them, or they are commonly adjusted during a run."""
_SPLITS = "splits"
_FINAL = Path("evaluations") / "final.json"


def config_of(folder: Path) -> Config:
    """The config that a run continues with; its plugins are imported, and its splits are the run's own copies."""
    import_plugins_of(folder)
    return _with_own_splits(_recorded(folder), folder)


def keep_splits(folder: Path, config: Config) -> None:
    """Copy the user's split files into the run, so that later changes of the files do not affect it."""
    for name, content in split_files(split_names_of(config)).items():
        (folder / _SPLITS).mkdir(exist_ok=True)
        if not (folder / _SPLITS / name).is_file():
            write_atomically(folder / _SPLITS / name, content)


def changed_config(folder: Path, values: Mapping[str, object]) -> tuple[Config, tuple[Change, ...]]:
    """The config of a run with some values replaced, its plugins imported, and the differences; nothing is written."""
    import_plugins_of(folder)
    before = _recorded(folder)
    after = replaced(before, absolute_values(values), str(folder))
    old, new = _flat(before), _flat(after)
    keys = dict.fromkeys((*new, *old))
    changes = tuple(Change(0, key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key))
    for change in changes:
        if change.key == MODEL and is_moved(change.old, change.new):
            continue
        if not any(fnmatchcase(change.key, pattern) for pattern in MAY_CHANGE):
            raise ConfigError(f"{change.key} cannot change in a run that has begun; {', '.join(MAY_CHANGE)} can")
    _refuse_less(folder, before, after)
    if changes and (folder / _FINAL).exists():
        _refuse_done(folder, after)
    _refuse_other_splits(folder, set(after.evaluation.splits) - set(before.evaluation.splits))
    return _with_own_splits(after, folder), changes


def record_changes(folder: Path, changes: Sequence[Change], step: int) -> tuple[Change, ...]:
    """Record changes at the step where a run continues; return all changes ever recorded at this step."""
    note_edit(folder, step)
    info = read_info(folder)
    if changes:
        config = _with_changes(_recorded(folder), changes, str(folder))
        keep_splits(folder, _with_own_splits(config, folder))
        made = (*info.changes, *(msgspec.structs.replace(change, step=step) for change in changes))
        info = msgspec.structs.replace(info, config=config.model_dump(mode="json"), changes=made)
        write_info(folder, info)
    return tuple(change for change in info.changes if change.step == step)


def change_text(change: Change) -> str:
    """A change in words."""
    if change.key == RUN:
        return f"{RUN} as it was edited by hand, not as mage wrote it"
    return f"{change.key} = {change.new}, not {change.old}"


def _recorded(folder: Path) -> Config:
    info = read_info(folder)
    if info.kind != "train":
        raise RecordError(f"{folder} is a {info.kind} run; only train runs have weights")
    return recorded(info.config, str(folder / "run.json"))


def _with_changes(config: Config, changes: Sequence[Change], source: str) -> Config:
    """The config with changes; only a parameter of the world that `schedule` has no more is without a new value."""
    values = {change.key: change.new for change in changes if change.new is not None}
    gone = {change.key for change in changes} - set(values)
    schedule = {name: points for name, points in config.schedule.items() if f"schedule.{name}" not in gone}
    return replaced(config, {"schedule": schedule, **values}, source)


def _with_own_splits(config: Config, folder: Path) -> Config:
    """The config with paths of splits replaced by the run's own copies, where they exist."""

    def own_copy(name: str) -> str:
        copy = folder / _SPLITS / Path(name).name
        return str(copy) if is_path(name) and copy.is_file() else name

    splits = tuple(map(own_copy, config.evaluation.splits))
    return config.model_copy(
        update={
            "evaluation": config.evaluation.model_copy(update={"splits": splits}),
            "population": config.population.model_copy(update={"split": own_copy(config.population.split)}),
        }
    )


def _refuse_less(folder: Path, before: Config, after: Config) -> None:
    """Refuse fewer steps or tokens than before."""
    if after.steps < before.steps:
        raise ConfigError(f"steps = {after.steps}: {folder} has {before.steps} already, and can only get more")
    old, new = before.tokens, after.tokens
    if new not in (0, old) and (old == 0 or new < old):
        has = old if old else "no limit"
        raise ConfigError(f"tokens = {new}: {folder} has {has}, and can only get more, or 0 for no limit")


def _refuse_done(folder: Path, after: Config) -> None:
    """Refuse changes of a finished run that would still be finished."""
    saved = newest_checkpoint(folder)
    assert saved is not None  # it is refused where it is gone
    state = read_state(saved)
    num_tokens = int(state.learner.get("num_tokens", 0))
    if after.is_over(state.step, num_tokens):
        after_what = f"{state.step} steps" + (f" and {num_tokens} tokens" if after.tokens else "")
        raise ConfigError(f"{folder} is done after {after_what}; give it more to change how it goes on")


def _refuse_other_splits(folder: Path, names: set[str]) -> None:
    """Refuse a new split with the name of a different one that the run has."""
    for name, content in split_files(names).items():
        copy = folder / _SPLITS / name
        if copy.is_file() and copy.read_bytes() != content:
            raise ConfigError(f"{folder} has another split called {copy.stem!r}; give the new one another name")


def _flat(config: Config) -> dict[str, Any]:
    """All settings by their dotted keys."""
    values = config.model_dump(mode="json")
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    return plain | {f"{k}.{n}": v for k, table in values.items() if isinstance(table, dict) for n, v in table.items()}
