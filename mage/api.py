"""The verbs of `mage`: what a script or a notebook calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, Unpack

from mage.agents.methods.registry import ALL_METHODS
from mage.arguments import WORLD, as_list, as_path, as_settings, as_texts, check_kind
from mage.config.compose import label_of
from mage.config.load import load_config
from mage.config.vary import one_setting
from mage.credit.estimators import ALL
from mage.engines.registry import ENGINES, EngineFactory
from mage.errors import ConfigError, RecordError
from mage.evaluation.compare.comparison import compare as comparison_of
from mage.evaluation.compare.sources import read_inputs
from mage.evaluation.crossplay import CrossPlayReport
from mage.evaluation.exploitability.nashconv import NashConvReport
from mage.evaluation.exploitability.responders import LowerBound
from mage.evaluation.game_reports import CrossPlay, NashConv, NashConvOptions, run_cross_play, run_nash_conv
from mage.evaluation.game_tables import cross_play_table, nash_conv_table
from mage.evaluation.plan import EvaluationRequest
from mage.evaluation.resource_limits import ResourceLimits
from mage.evaluation.run import begin_evaluation
from mage.evaluation.splits import write_split as write_split
from mage.evaluation.value.report import ValueRequest
from mage.evaluation.value.value_file import make_value_file
from mage.extras import require
from mage.learners.registry import LEARNERS, LearnerFactory
from mage.models.hosts import allow_hosts as hosts_allowed
from mage.models.load import MODELS
from mage.opponents.registry import OPPONENTS, Opponent, Supports
from mage.plugins import note_registration, refuse_while_importing
from mage.protocols import World
from mage.results import ComparisonResult, Report, Run, SavedReport, Sweep, ValueResult
from mage.results import open_run as open_run
from mage.results import open_sweep as open_sweep
from mage.runs.console import as_text, plain_console
from mage.training.start import check_new_run
from mage.training.without_effect import refuse_without_effect
from mage.worlds.registry import WORLDS, add_game

Agent: TypeAlias = Run | str | Path
"""A run, or what `mage evaluate` takes."""


def allow_hosts(*hosts: str) -> AbstractContextManager[None]:
    """A context in which remote models on these hosts may be asked: `with mage.allow_hosts("api.example.org"): …`.

    An entry is `HOST`, `HOST:PORT`, or either with `=VARIABLE`, the environment variable of that host's key, as for
    `--allow-host`. The environment variable `MAGE_API_HOSTS` has entries for the whole process.
    """
    refuse_while_importing("mage.allow_hosts")
    return hosts_allowed(*hosts)


def train(
    recipe: str,
    overrides: Mapping[str, object] | None = None,
    *,
    folder: str | Path | None = None,
    max_minutes: float | None = None,
    quiet: bool = False,
) -> Run:
    """Train by a recipe, shipped or the path of a TOML file, or by several as in `rps+grpo`, and return the run.

    `overrides` are dotted keys and values. `folder` is a new directory, under `runs/` by default. `max_minutes` ends
    the run cleanly after the step that passes it; `open_run(folder).resume()` goes on.
    """
    refuse_while_importing("mage.train")
    config = load_config(recipe, overrides)
    refuse_without_effect(config)
    check_new_run(_path(folder), config)
    from mage.training.run import create_run, train_run

    path, parts = create_run(config, _path(folder), label_of(recipe))
    train_run(path, plain_console(quiet=quiet), max_minutes, parts=parts)
    return open_run(path)


def evaluate(
    agent: Agent,
    overrides: Mapping[str, object] | None = None,
    *,
    world: str | None = None,
    opponents: str | Sequence[str] = (),
    trials: int | None = None,
    folder: str | Path | None = None,
) -> Report:
    """Evaluate an agent on splits, beside the no-memory control and the exact references.

    `agent` is a run, whose newest weights are evaluated on its own splits, or a text that `mage evaluate` takes: a
    checkpoint, a model, `scripted:NAME`, `remote:URL#model` or an opponent spec. `opponents` are splits, or opponent
    specs at `world`, to evaluate on instead. `overrides` are dotted keys and values, such as `trial.episodes`.
    `folder` is a new directory for all trials, by default in the run, or under `runs/` where there is none.
    """
    refuse_while_importing("mage.evaluate")
    if isinstance(agent, Path) and not agent.exists():
        raise RecordError(f"{agent} does not exist, so there is no agent to evaluate")
    check_kind("world", world, str | None, WORLD)
    values, splits = as_settings("overrides", overrides), as_texts("opponents", opponents)
    request = EvaluationRequest(_text("agent", agent), world, splits, trials, values)
    found = begin_evaluation(request, _path(folder), ResourceLimits()).scores()
    return Report(found.step, {report.split: report for report in found.reports})


def cross_play(
    agents: Sequence[Agent],
    world: str,
    overrides: Mapping[str, object] | None = None,
    *,
    episodes: int = 3,
    trials: int = 100,
    seed: int = 0,
    folder: str | Path | None = None,
) -> SavedReport[CrossPlayReport]:
    """Let agents meet each other in both seats, and find the pay-off matrix and ratings; agents as for `evaluate`.

    `overrides` go for the models among them. `folder` is a directory for all trials, under `runs/` by default; the same
    call with the same folder goes on where it was stopped.
    """
    refuse_while_importing("mage.cross_play")
    check_kind("world", world, str, WORLD)
    values = as_settings("overrides", overrides)
    plan = CrossPlay(_texts("agents", agents), world, episodes, trials, seed, values=values)
    path, made = run_cross_play(plan, _path(folder), ResourceLimits())
    return SavedReport(path, made.found, as_text(cross_play_table(made.found)))


def nashconv(
    agent: Agent,
    world: str,
    overrides: Mapping[str, object] | None = None,
    *,
    after: Agent | None = None,
    responders: Sequence[Agent] = (),
    folder: str | Path | None = None,
    **options: Unpack[NashConvOptions],
) -> SavedReport[NashConvReport | LowerBound]:
    """Read an agent's policy at every information state of a world, and find what best replies to it gain.

    It is read in the first episode of a trial and, with `after`, in the last, when the others were played against that
    agent. `samples` answers are drawn at each information state where probabilities are not exact. With `responders`,
    or `learn` episodes to make one, a lower bound is found by play instead: that is for large worlds.
    """
    refuse_while_importing("mage.nashconv")
    check_kind("world", world, str, WORLD)
    before, others = None if after is None else _text("after", after), _texts("responders", responders)
    values = as_settings("overrides", overrides)
    plan = NashConv(_text("agent", agent), world, before, responders=others, values=values, **options)
    path, made = run_nash_conv(plan, _path(folder), ResourceLimits())
    return SavedReport(path, made.found, as_text(nash_conv_table(made.found)))


def sweep(
    recipes: str | Sequence[str],
    overrides: Mapping[str, object] | None = None,
    *,
    vary: Mapping[str, Sequence[object]] | None = None,
    seeds: int = 3,
    folder: str | Path | None = None,
    max_minutes: float | None = None,
    jobs: int = 1,
    quiet: bool = False,
) -> Sweep:
    """Train several recipes with several seeds and summarise them.

    `overrides` go for all recipes. `vary` is one key with its values, as in `{"world.look": [0.1, -0.4]}`: every recipe
    is trained at each. Seeds are counted from each recipe's own. `folder` is a new directory, under `runs/` by default,
    with one for each run. `max_minutes` limits the training time of each run, which is then evaluated as it is. `jobs`
    runs are made at a time, in processes of their own. After an interrupt `open_sweep(folder).resume()` goes on.
    """
    refuse_while_importing("mage.sweep")
    configs = [(recipe, load_config(recipe, overrides)) for recipe in as_texts("recipes", recipes)]
    if not vary:
        refuse_without_effect(*(config for _, config in configs))
    check_new_run(_path(folder), *(config for _, config in configs))
    from mage.training.sweep import begin_sweep

    begun = begin_sweep(configs, seeds, _path(folder), max_minutes, None if vary is None else one_setting(vary))
    return open_sweep(begun).resume(jobs=jobs, quiet=quiet)


def compare(*inputs: Run | Sweep | str | Path) -> ComparisonResult:
    """Put methods side by side: runs, sweeps, evaluations and reports, or texts such as `NAME=PATH`.

    Several seeds of one recipe are one row. The result prints as a table; `write(folder)` writes tables, plots and
    sources.
    """
    allowed = "a run, a sweep, a text or a path; several are several arguments"
    read = read_inputs([str(one.path) if isinstance(one, Sweep) else _text("input", one, allowed) for one in inputs])
    return ComparisonResult(comparison_of(read.entries), read)


def value(
    world: str,
    *,
    opponents: str | Sequence[str] = (),
    seat: int = 0,
    episodes: int = 3,
    discount: float = 0.6,
    words: int = 0,
    last_episode: bool = False,
    vary: str | None = None,
    curve: bool = False,
    samples: int = 32,
    seed: int = 0,
) -> ValueResult:
    """Find whether a task needs memory or exploration, before any training: exact scores of the best plays.

    `opponents` are splits, opponent specs, or levels of a world of one seat, which needs none. `discount` is that of
    LaMer and MAGE across episodes. With `words` plays are searched in which one of 1 to so many words crosses each
    boundary, with `last_episode` plays that remember the last episode alone. `vary`, such as `look=-1:0.1`, changes a
    parameter and finds where an objective's last score jumps; `curve` finds last scores for 1 to `episodes` episodes.
    `samples` is the number of draws and trials for bounds of a task that is too large to be planned.
    """
    refuse_while_importing("mage.value")
    check_kind("world", world, str, WORLD)
    check_kind("vary", vary, str | None, "a text, as in 'look=-1:0.1'")
    splits = as_texts("opponents", opponents)
    request = ValueRequest(world, splits, seat, episodes, discount, words, last_episode, samples, seed)
    return ValueResult(make_value_file(request, vary=vary, curve=curve))


def export_model(
    run: Run | str | Path, folder: str | Path, *, step: int | None = None, best: bool = False, merge: bool = False
) -> Path:
    """Write a run's weights to a new directory that transformers loads, with tokenizer, chat template and model card.

    The newest weights, those after `step`, or the `best` of those evaluated while training. A run that trained an
    adapter gives the adapter in PEFT's layout, or with `merge` the whole model with the adapter in it.
    """
    source, path = Path(_text("run", run, "a run, or the path of one")), as_path("folder", folder)
    require("train", "training needs")
    from mage.training.export import export_model as write

    write(source, path, step=step, best=best, merge=merge)
    return path


def register_world(name: str, factory: Callable[..., World]) -> None:
    """Let `name` be a world in specs and recipes.

    `factory(…parameters)`, a function or a class, returns a world (`mage.protocols.World`), such as a subclass of
    `mage.SoloWorld`. The file of the script or module that calls this, as of the other functions that register, is
    recorded in every run that is made from then on and imported again when the run is used: what the script does
    besides goes under `if __name__ == "__main__":`.
    """
    WORLDS.add(name, factory)
    _note_caller()


def register_game(name: str, builder: Callable[..., tuple[Any, Any, float]]) -> None:
    """Let `name` be a game in specs and recipes.

    `builder(…parameters)` returns an OpenSpiel game, its words (`mage.worlds.openspiel.words.base.Words`) and what its
    returns are divided by to give scores.
    """
    add_game(name, builder)
    _note_caller()


def register_opponent(
    name: str,
    maker: Callable[..., Any],
    *,
    games: str = "any game",
    fits: Callable[[Any], bool] = lambda _: True,
    is_family: bool = False,
) -> None:
    """Let `name` be an opponent in specs and recipes.

    `maker(game, seat, rng, …parameters)` returns a policy: a pure function from an observation to probabilities over
    its actions. `fits` says which games it can play, `games` says so in words. `is_family` is for procedural members
    that are too many for statistics about each.
    """
    OPPONENTS.add(name, Opponent(maker, Supports(games, fits), is_family))
    _note_caller()


def register_model(name: str, loader: Callable[..., Any]) -> None:
    """Let `name` be a model in specs and recipes.

    `loader(request, …parameters)` returns a causal language model of transformers and its fast tokenizer, or a
    `mage.models.load.LoadedModel`, which has a chat format too. `request` has `seed`, `dtype` and `device`; the model
    is moved to the latter two afterwards.
    """
    MODELS.add(name, loader)
    _note_caller()


def register_method(name: str, kind: type) -> None:
    """Let `name` be a prompting method in recipes: a subclass of `mage.agents.language.LanguageAgent` called so too."""
    called = getattr(kind, "method", name)
    if called != name:
        raise ConfigError(f"the method {name!r}: its class {kind.__name__} has method = {called!r}; both must agree")
    ALL_METHODS.add(name, kind)
    _note_caller()


def register_estimator(name: str, kind: type) -> None:
    """Let `name` be an estimator in recipes: a frozen `msgspec.Struct` with a method `estimate(groups, stats)`."""
    ALL.add(name, kind)
    _note_caller()


def register_engine(name: str, factory: EngineFactory) -> None:
    """Let `name` be an engine in recipes: `engine = name`.

    `factory(loaded, settings)` returns a `mage.protocols.PolicyServer` for a loaded model;
    `mage.engines.settings.EngineSettings` says what it is made for.
    """
    ENGINES.add(name, factory)
    _note_caller()


def register_learner(name: str, factory: LearnerFactory) -> None:
    """Let `name` be a learner in recipes: `learner.kind = name`.

    `factory(model, settings, with_values, imitates)` returns a `mage.protocols.Learner` for a causal language model of
    transformers; settings are `mage.learners.settings.LearnerSettings`.
    """
    LEARNERS.add(name, factory)
    _note_caller()


def _note_caller() -> None:
    """Note the module that called the function that called this."""
    note_registration(sys._getframe(2).f_globals)


def _text(name: str, agent: Agent, allowed: str = "a run, or a text or a path that `mage evaluate` takes") -> str:
    """An agent as the command line names it."""
    check_kind(name, agent, Run | str | PathLike, allowed)
    return str(agent.path if isinstance(agent, Run) else agent)


def _texts(name: str, agents: Sequence[Agent]) -> tuple[str, ...]:
    return tuple(_text(f"an entry of {name}", agent) for agent in as_list(name, agents, "a list of agents"))


def _path(folder: str | Path | None) -> Path | None:
    return None if folder is None else as_path("folder", folder)
