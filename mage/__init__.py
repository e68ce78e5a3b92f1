"""Train language-model agents that learn while they play.

import mage
run = mage.train("rps", {"learner.lr": 1e-3})
report = mage.evaluate(run)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mage.version import __version__

if TYPE_CHECKING:
    from mage.api import ComparisonResult, Report, Run, SavedReport, Sweep
    from mage.evaluation.crossplay import CrossPlayReport
    from mage.evaluation.exploitability.nashconv import NashConvReport
    from mage.evaluation.exploitability.responders import LowerBound

__all__ = [
    "__version__",
    "compare",
    "cross_play",
    "evaluate",
    "export_model",
    "nashconv",
    "open_run",
    "open_sweep",
    "register_estimator",
    "register_game",
    "register_player",
    "sweep",
    "train",
    "write_split",
]


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
    the run cleanly after the step that passes it; `open_run(folder).resume()` goes on. In a notebook it works too.
    """
    from mage import api

    return api.train(recipe, overrides or {}, folder=folder, max_minutes=max_minutes, quiet=quiet)


def evaluate(
    agent: Run | str | Path,
    overrides: Mapping[str, object] | None = None,
    *,
    world: str | None = None,
    opponents: Sequence[str] = (),
    trials: int | None = None,
    folder: str | Path | None = None,
) -> Report:
    """Judge a run's newest weights on its splits, beside the no-memory control and the exact references.

    A text may also name anybody else whom `mage evaluate` takes: a checkpoint, a model, `scripted:NAME`,
    `remote:URL#model` or an opponent spec. `opponents` are splits, or opponent specs at `game`, to be judged by
    instead. `overrides` are dotted keys and values, such as `trial.episodes`. `folder` is a new directory for all that
    was played, by default in the run, or under `runs/` where there is none.
    """
    from mage import api

    return api.evaluate(agent, overrides or {}, world=world, opponents=opponents, trials=trials, folder=folder)


def cross_play(
    agents: Sequence[Run | str | Path],
    world: str,
    overrides: Mapping[str, object] | None = None,
    *,
    episodes: int = 3,
    trials: int = 100,
    seed: int = 0,
    folder: str | Path | None = None,
) -> SavedReport[CrossPlayReport]:
    """Let agents meet each other in both seats, and find the pay-off matrix and ratings; agents as for `evaluate`.

    `overrides` go for the models among them. `folder` is a directory for all that was played, under `runs/` by default;
    the same call with the same folder goes on where it was stopped.
    """
    from mage import api

    return api.cross_play(agents, world, overrides or {}, episodes=episodes, trials=trials, seed=seed, folder=folder)


def nashconv(
    agent: Run | str | Path,
    world: str,
    overrides: Mapping[str, object] | None = None,
    *,
    after: Run | str | Path | None = None,
    episodes: int = 3,
    trials: int = 100,
    samples: int = 64,
    responders: Sequence[Run | str | Path] = (),
    learn: int = 0,
    seed: int = 0,
    folder: str | Path | None = None,
) -> SavedReport[NashConvReport | LowerBound]:
    """Read an agent's policy at every information state of a game, and find what best replies to it gain.

    It is read in the first episode of a trial and, with `after`, in the last, when the others were played against that
    agent. `samples` answers are drawn at each information state where probabilities are not exact. With `responders`,
    or `learn` episodes to make one, a lower bound is found by play instead: that is for large games.
    """
    from mage import api

    return api.nashconv(
        agent,
        world,
        overrides or {},
        after=after,
        episodes=episodes,
        trials=trials,
        samples=samples,
        responders=responders,
        learn=learn,
        seed=seed,
        folder=folder,
    )


def open_run(folder: str | Path) -> Run:
    """A training run that exists already."""
    from mage import api

    return api.open_run(folder)


def sweep(
    recipes: Sequence[str],
    overrides: Mapping[str, object] | None = None,
    *,
    seeds: int = 3,
    folder: str | Path | None = None,
    max_minutes: float | None = None,
    quiet: bool = False,
) -> Sweep:
    """Train several recipes with several seeds, one run after another, and summarise them.

    `overrides` go for all recipes. Seeds are counted from each recipe's own. `folder` is a new directory, under `runs/`
    by default, with a directory for each run. `max_minutes` is what each run may train for before it is judged where
    it stands. After an interrupt `open_sweep(folder).resume()` goes on.
    """
    from mage import api

    return api.sweep(recipes, overrides or {}, seeds=seeds, folder=folder, max_minutes=max_minutes, quiet=quiet)


def open_sweep(folder: str | Path) -> Sweep:
    """A sweep that exists already."""
    from mage import api

    return api.open_sweep(folder)


def compare(*inputs: Run | Sweep | str | Path) -> ComparisonResult:
    """Put methods side by side: runs, sweeps, evaluations and reports, or texts such as `NAME=PATH`.

    Several seeds of one recipe are one row. What comes back prints as a table; `write(folder)` writes tables, plots and
    sources.
    """
    from mage import api

    return api.compare(inputs)


def export_model(
    run: Run | str | Path, folder: str | Path, *, step: int | None = None, best: bool = False, merge: bool = False
) -> Path:
    """Write a run's weights to a new directory that transformers loads, with tokenizer, chat template and model card.

    The newest weights, those after `step`, or the `best` of those judged while training. A run that trained an adapter
    gives the adapter in PEFT's layout, or with `merge` the whole model with the adapter in it.
    """
    from mage import api

    return api.export_model(run, folder, step=step, best=best, merge=merge)


def register_game(name: str, builder: Callable[..., tuple[Any, Any, float]]) -> None:
    """Let `name` be a game in specs and recipes.

    `builder(…parameters)` returns an OpenSpiel game, its words (`mage.worlds.openspiel.words.base.Words`) and what its
    returns are divided by to give scores.
    """
    from mage.worlds.openspiel.game import WORDED

    WORDED.add(name, builder)


def register_player(
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
    from mage.opponents.registry import OPPONENTS, Opponent, Supports

    OPPONENTS.add(name, Opponent(maker, Supports(games, fits), is_family))


def register_estimator(name: str, kind: type) -> None:
    """Let `name` be an estimator in recipes: a frozen `msgspec.Struct` with a method `estimate(groups, stats)`."""
    from mage.credit.estimators import ALL

    ALL.add(name, kind)


def write_split(
    path: str | Path,
    world: str,
    members: Sequence[str],
    *,
    description: str = "",
    held_out: bool = False,
    pool: str = "",
    kind: str = "",
    episodes: int | None = None,
) -> None:
    """Write opponents to judge by to `path`, a file that ends in `.json` and can stand in recipes as a split.

    With `held_out` training against them is refused. `pool` is the split whose members a player may expect: a shipped
    one or one beside the file; by default the new one itself. `kind` says what it asks of an agent (seen, unseen
    parameters, unseen families, harder, reworded or switching), `episodes` how many a trial has when judged by it.
    """
    from mage.evaluation import splits

    splits.write_split(
        path, world, members, description=description, held_out=held_out, pool=pool, kind=kind, episodes=episodes
    )


class _Verb(ModuleType):
    """A submodule that has the name of a function of this package, and can be called like it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _VERBS[self.__name__](*args, **kwargs)


class _Package(ModuleType):
    """Importing `mage.train` puts that module where the function was: it must do what the function does."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and value.__name__ in _VERBS:
            value.__class__ = _Verb
        super().__setattr__(name, value)


_VERBS: Mapping[str, Callable[..., Any]] = {"mage.train": train, "mage.evaluate": evaluate}
sys.modules[__name__].__class__ = _Package
