"""Reads the inputs of a comparison: train runs, sweeps, evaluations and reports."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mage.config.schema import Config
from mage.errors import ConfigError, RecordError
from mage.evaluation.compare.comparison import EvaluatedSplit, MethodRun
from mage.evaluation.compare.cost import read_history
from mage.evaluation.crossplay import CrossPlayReport
from mage.evaluation.suite.evaluate import SplitReport
from mage.evaluation.suite.report import (
    CROSS_PLAY,
    REPORT,
    EvaluationReport,
    WorldReport,
    read_report,
    read_world_report,
)
from mage.files import BAD_JSON
from mage.runs.store import RUN, RunInfo, read_info
from mage.runs.sweep_plan import SWEEP, read_plan

_EVALUATIONS = "evaluations"
_LABELLED = re.compile(r"([^=/]+)=(.+)", re.DOTALL)
_STAMP = re.compile(r"^\d{8}-\d{6}-(?:train|evaluate)-")
_SEED = re.compile(r"-seed\d+(?=/|$)")
_HUGE = 1e100
_IGNORED_KEYS = {"seed", "description", "world", "trial", "evaluation", "checkpoint", "alarms", "trackers"}
_IGNORED_KEYS |= {"threads", "device", "dtype"}
"""Config keys that may differ within one method: evaluation, checkpoints, tracking and hardware."""


class Source(msgspec.Struct, frozen=True):
    """Where metrics come from, with all that is needed to reproduce them."""

    path: str
    sha256: str
    """Of the file."""
    method: str
    seed: int | None
    """Of training; null for untrained agents."""
    step: int
    task_seed: int
    """Of the evaluation."""
    splits: Mapping[str, str]
    """Hash by split."""
    command: str
    versions: Mapping[str, str]
    machine: str


class ComparisonInputs(msgspec.Struct, frozen=True):
    """Everything read from the inputs."""

    entries: tuple[MethodRun, ...]
    sources: tuple[Source, ...]
    crossplays: tuple[CrossPlayReport, ...]
    left_out: tuple[str, ...]
    """Runs of sweeps that have not been evaluated yet."""


class _NamedRun(msgspec.Struct, frozen=True):
    entry: MethodRun
    sources: tuple[Source, ...]
    is_named: bool
    """Whether the user chose the name of the method."""


def read_inputs(arguments: Sequence[str]) -> ComparisonInputs:
    """Read all inputs, each `PATH` or `NAME=PATH`; runs that differ in their seed alone get one name."""
    if not arguments:
        raise ConfigError("name something to compare: a train run, a sweep, an evaluation or a report")
    left_out: list[str] = []
    crossplays: list[CrossPlayReport] = []
    sources: list[Source] = []
    found: list[_NamedRun] = []
    for label, path in map(_labelled, arguments):
        if (file := _cross_play_file(path)) is not None:
            report = read_world_report(file, CrossPlayReport)
            crossplays.append(report.found)
            sources.append(_source(file, report, ", ".join(report.found.agents), None))
        else:
            found += _read(label, path, left_out)
    names: dict[Hashable, str] = {}
    for one in found:
        if not one.is_named:
            names.setdefault(one.entry.recipe, one.entry.method)
    entries: list[MethodRun] = []
    for one in found:
        method = one.entry.method if one.is_named else names[one.entry.recipe]
        entries.append(msgspec.structs.replace(one.entry, method=method))
        sources += [msgspec.structs.replace(source, method=method) for source in one.sources]
    return ComparisonInputs(tuple(entries), tuple(sources), tuple(crossplays), tuple(left_out))


def method_name(name: str) -> str:
    """A run's name without its time stamp and seed.

    >>> method_name("20260131-235959-train-rps"), method_name("rps-seed3"), method_name("rps-seed3/step-000100")
    ('rps', 'rps', 'rps/step-000100')
    """
    return _SEED.sub("", _STAMP.sub("", name))


def _labelled(argument: str) -> tuple[str, Path]:
    """The given name, or an empty one, and the path."""
    match = _LABELLED.fullmatch(argument)
    if match is None or Path(argument).exists():
        return "", Path(argument)
    return match[1].strip(), Path(match[2])


def _read(label: str, path: Path, left_out: list[str]) -> Iterator[_NamedRun]:
    if (path / SWEEP).is_file():
        yield from _from_sweep(label, path, left_out)
    elif (path / RUN).is_file():
        info = read_info(path)
        if info.kind == "train":
            yield _from_run(label or method_name(path.resolve().name), path, info, is_named=bool(label))
        elif (path / REPORT).is_file():
            yield _from_report(label, path / REPORT)
        else:
            raise RecordError(
                f"{path} is a {info.kind} run without a {REPORT}; train runs and evaluations are compared"
            )
    elif path.is_file():
        yield _from_report(label, path)
    else:
        what = "is no train run, sweep, evaluation or report" if path.exists() else "does not exist"
        raise RecordError(f"{path} {what}")


def _cross_play_file(path: Path) -> Path | None:
    """The cross-play report at a path, if there is one."""
    file = path / CROSS_PLAY if path.is_dir() else path
    if not file.is_file():
        return None
    try:
        content = msgspec.json.decode(file.read_bytes())
    except (OSError, *BAD_JSON) as error:
        raise RecordError(f"{file} cannot be read: {error}") from None
    return file if isinstance(content, dict) and "found" in content else None


def _from_sweep(label: str, folder: Path, left_out: list[str]) -> Iterator[_NamedRun]:
    """All evaluated runs of a sweep; the label of a sweep of several recipes is a prefix of their names."""
    plan = read_plan(folder)
    is_one = len({planned.label for planned in plan.runs}) == 1
    for planned in plan.runs:
        path = folder / planned.name
        if any((path / _EVALUATIONS).glob("*.json")):
            method = label if label and is_one else f"{label} {planned.label}".strip()
            yield _from_run(method, path, read_info(path), is_named=True)
        else:
            left_out.append(str(path))


def _from_run(method: str, folder: Path, info: RunInfo, *, is_named: bool) -> _NamedRun:
    """A train run: evaluations of its newest weights with its own settings, and its training history."""
    _check_config(info.config, folder / RUN)
    recipe = _recipe(info.config)
    reports = [(path, _read_checked(path)) for path in _report_files(folder)]
    own = [(path, report) for path, report in reports if report.reports and _recipe(report.config) == recipe]
    if not own:
        raise RecordError(f"{folder} was not evaluated yet; run mage evaluate {folder}")
    newest = max(report.step for _, report in own)
    best: dict[tuple[str, int, tuple[int, ...]], EvaluatedSplit] = {}
    for path, report in own:
        for evaluated in _evaluated(path, report) if report.step == newest else ():
            setup = (evaluated.report.split, evaluated.report.episodes, evaluated.report.seats)
            if setup not in best or evaluated.report.num_trials > best[setup].report.num_trials:
                best[setup] = evaluated
    kept = {evaluated.path for evaluated in best.values()}
    sources = [_source(path, report, method, info.seed) for path, report in own if str(path) in kept]
    history = read_history(folder, trained_on=_trained_on(info.config), pool=_pool(info.config))
    entry = MethodRun(method, info.seed, (None, recipe), tuple(best.values()), history)
    return _NamedRun(entry, tuple(sources), is_named)


def _report_files(folder: Path) -> list[Path]:
    """All score reports of a run."""
    named = (folder / _EVALUATIONS).glob("*.json")
    own = [path for path in named if not path.name.startswith("reflections")]
    return sorted([*own, *(folder / _EVALUATIONS).glob(f"*/{REPORT}")])


def _from_report(label: str, path: Path) -> _NamedRun:
    report = _read_checked(path)
    kind, name = report.eval_agent.get("kind"), str(report.eval_agent["name"])
    is_trained = kind in (None, "run")  # a run does not describe itself
    seed = int(report.config["seed"]) if is_trained else None
    method = label or _method_label(path, report)
    checkpoint = name.partition("/")[2] if kind == "run" else ""
    identity = checkpoint or (None if is_trained else name)  # a checkpoint is another agent than its run
    entry = MethodRun(method, seed, (identity, _recipe(report.config)), tuple(_evaluated(path, report)), None)
    return _NamedRun(entry, (_source(path, report, method, seed),), bool(label))


def _read_checked(path: Path) -> EvaluationReport[SplitReport]:
    """Read a report and check that it is consistent; raises `RecordError`."""
    report = read_report(path, SplitReport)
    _check_config(report.config, path)
    if _has_huge(msgspec.to_builtins(report.reports)):
        raise RecordError(f"{path} is not a report that can be read: it has a number over {_HUGE:g}")
    if "name" not in report.eval_agent:
        raise RecordError(f"{path} is not a report that can be read: it does not name the evaluated agent")
    for split in report.reports:
        both = (split.agent, split.control)
        nums = {split.num_trials, len(split.tasks), *(len(metrics.scores_by_trial) for metrics in both)}
        lengths = {len(scores) for metrics in both for scores in (metrics.scores, *metrics.scores_by_trial)}
        if len(nums) > 1 or 0 in nums or lengths != {split.episodes}:
            raise RecordError(f"{path} is not a report that can be read: its trials on {split.split!r} do not add up")
    return report


def _method_label(path: Path, report: EvaluationReport[SplitReport]) -> str:
    """The default name of a method: a run by its directory, a model with its method and memory."""
    eval_agent = report.eval_agent
    run = path.resolve().parent.parent
    if "kind" not in eval_agent and (run / RUN).is_file():
        return method_name(run.name)
    if eval_agent.get("kind") in ("model", "scripted", "remote"):
        how = (eval_agent[key] for key in ("method", "memory") if key in eval_agent)
        return ", ".join([str(eval_agent["name"]), *map(str, how)])
    return method_name(str(eval_agent["name"]))


def _evaluated(path: Path, report: EvaluationReport[SplitReport]) -> list[EvaluatedSplit]:
    return [
        EvaluatedSplit(split, report.seed, report.seconds.get(split.split, {}).get("agent"), str(path))
        for split in report.reports
    ]


def _source(
    path: Path, report: EvaluationReport[SplitReport] | WorldReport[CrossPlayReport], method: str, seed: int | None
) -> Source:
    step, reports = (report.step, report.reports) if isinstance(report, EvaluationReport) else (0, ())
    return Source(
        path=str(path),
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        method=method,
        seed=seed,
        step=step,
        task_seed=report.seed,
        splits={split.split: split.sha256 for split in reports},
        command=report.command,
        versions=report.versions,
        machine=report.machine,
    )


def _has_huge(value: Any) -> bool:
    """Whether plain values hold a number whose square has no place in a float."""
    if isinstance(value, dict | list | tuple):
        return any(map(_has_huge, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float) and abs(value) > _HUGE


class _Population(msgspec.Struct):
    split: str = ""
    members: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()


class _ReadConfig(msgspec.Struct):
    """The parts of a config that are read here."""

    population: _Population
    world: str
    seed: int


def _check_config(config: Mapping[str, Any], path: Path) -> None:
    """Raise a RecordError where parts of a config are missing or have another type."""
    try:
        msgspec.convert(config, _ReadConfig)
    except msgspec.ValidationError as error:
        raise RecordError(f"{path} cannot be read, in its config: {error}") from None
    for key, value in Config().model_dump(mode="json").items():
        if isinstance(value, dict) and not isinstance(config.get(key, {}), dict):
            raise RecordError(f"{path} cannot be read: {key} of its config is no section")


def _recipe(config: Mapping[str, Any]) -> str:
    """Equal for configs that differ only in `_IGNORED_KEYS`; missing keys have their defaults."""
    usual = Config().model_dump(mode="json")
    sections = {key: {**value, **config.get(key, {})} for key, value in usual.items() if isinstance(value, dict)}
    kept = {key: value for key, value in {**usual, **config, **sections}.items() if key not in _IGNORED_KEYS}
    kept["population"]["split"] = _trained_split(config)
    del kept["agent"]["slots"]  # batching, not behaviour
    return msgspec.json.encode(kept, order="sorted").decode()


def _trained_split(config: Mapping[str, Any]) -> str:
    """The name of a run's training split, without the path of its file."""
    return Path(config["population"].get("split", "")).stem


def _trained_on(config: Mapping[str, Any]) -> str:
    """The split that a run drew all its opponents from with equal weights; empty where there is none."""
    population = config["population"]
    return "" if population.get("members") or population.get("weights") else _trained_split(config)


def _pool(config: Mapping[str, Any]) -> str:
    """World and opponents or levels of training as text."""
    population = config["population"]
    words = [_trained_split(config), *population.get("members", ()), *map(str, population.get("weights", ()))]
    members = ", ".join(filter(None, words))
    return f"{config['world']} against {members}" if members else str(config["world"])
