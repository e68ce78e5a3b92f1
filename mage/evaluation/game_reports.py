"""Cross-play and NashConv of agents in a world: run in a directory, with one report each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import msgspec
from rich.progress import Progress

from mage.aio import run_sync
from mage.arguments import check_whole
from mage.errors import ConfigError
from mage.evaluation.crossplay import CrossPlayReport, check_cross_play, check_two_seats, cross_play
from mage.evaluation.eval_agent import BAYES, EvalAgent
from mage.evaluation.exploitability.nashconv import NamedAgent, NashConvReport, measure_nash_conv
from mage.evaluation.exploitability.responders import LowerBound, lower_bound
from mage.evaluation.resource_limits import ResourceLimits, at_work, say_where_the_key_goes
from mage.evaluation.suite.report import CROSS_PLAY, WorldReport, to_json, world_report
from mage.evaluation.trial_log import ResumablePlay, TrialLog
from mage.files import write_atomically
from mage.opponents.registry import MODEL_OPPONENTS, OPPONENTS
from mage.protocols import World
from mage.runs.new_directory import check_empty, new_run_path
from mage.runs.run_plugins import import_plugins_of
from mage.runs.store import RUN, read_info
from mage.spec import parse_spec
from mage.worlds.openspiel.world import OpenSpielWorld
from mage.worlds.registry import load_world, normal_world

_CROSS_PLAY, _NASH_CONV = "cross-play", "nashconv"
"""Kinds of runs, as names of directories have them."""
_EXACT, _BOUND = "nashconv.json", "lower-bound.json"


class CrossPlay(msgspec.Struct, frozen=True):
    """Which agents meet, and how often."""

    agents: tuple[str, ...]
    world: str
    episodes: int
    trials: int
    seed: int = 0
    max_turns: int = 1000
    values: Mapping[str, object] = {}
    """Settings of all models among the agents, by their dotted keys."""


class NashConv(msgspec.Struct, frozen=True):
    """Which agent is read, in which world and after what."""

    agent: str
    world: str
    after: str | None = None
    """The opponent in the episodes before the last; None reads the first episode only."""
    episodes: int = 3
    trials: int = 100
    samples: int = 64
    """Answers that are drawn at each information state where the probabilities are not exact."""
    responders: tuple[str, ...] = ()
    """Agents that try to exploit the agent by play; with these a lower bound is found instead."""
    learn: int = 0
    """Episodes in each seat from which one more responder learns."""
    seed: int = 0
    values: Mapping[str, object] = {}


class NashConvOptions(TypedDict, total=False):
    """How much `mage.nashconv` plays and reads."""

    episodes: int
    """Of a trial; 3 by default."""
    trials: int
    """Trials whose memories, or responders, are evaluated; 100 by default."""
    samples: int
    """Answers at each information state where probabilities are not exact; 64 by default."""
    learn: int
    """Add a responder that learns from this many episodes in each seat; 0 by default."""
    seed: int


def run_cross_play(
    plan: CrossPlay, out: Path | None, limits: ResourceLimits
) -> tuple[Path, WorldReport[CrossPlayReport]]:
    """The directory and the report; the same plan in the same directory goes on where it was stopped."""
    check_whole(episodes=plan.episodes, trials=plan.trials, seed=plan.seed)
    _import_plugins_of(plan.agents)
    world, spec = load_world(plan.world), str(parse_spec(plan.world))
    check_two_seats(world, spec)
    eval_agents = _eval_agents_of(plan.agents, plan.values, spec, limits)
    agents = _named(plan.agents, eval_agents, world)
    check_cross_play(world, spec, [name for name, _ in agents])
    pinned = msgspec.structs.replace(plan, agents=tuple(eval_agent.agent for eval_agent in eval_agents))
    trial_log = _trial_log(out or new_run_path(_CROSS_PLAY, parse_spec(plan.world).name), pinned)

    async def everything(bar: Progress) -> CrossPlayReport:
        for eval_agent in eval_agents:
            await eval_agent.refresh()
        return await cross_play(
            world,
            agents,
            plan.world,
            episodes=plan.episodes,
            trials=plan.trials,
            seed=plan.seed,
            max_turns=plan.max_turns,
            play=ResumablePlay(trial_log, spec, concurrency=limits.num_trials(pinned.agents), bar=bar),
        )

    with at_work(trial_log, limits, lambda: f"the same command and  -o {trial_log.path}") as bar:
        found = run_sync(everything(bar))
    report = world_report(found, [eval_agent.describe() for eval_agent in eval_agents], plan.seed)
    write_atomically(trial_log.path / CROSS_PLAY, to_json(report))
    return trial_log.path, report


def run_nash_conv(
    plan: NashConv, out: Path | None, limits: ResourceLimits
) -> tuple[Path, WorldReport[NashConvReport | LowerBound]]:
    """The directory of the report, and the report."""
    check_whole(episodes=plan.episodes, trials=plan.trials, samples=plan.samples, learn=plan.learn, seed=plan.seed)
    is_bound = bool(plan.responders or plan.learn)
    if is_bound and plan.after is not None:
        raise ConfigError("a lower bound is found in the first episode; it goes without an opponent before")
    if out is not None:
        check_empty(out)
    texts = (plan.agent, *((plan.after,) if plan.after is not None else ()), *plan.responders)
    _import_plugins_of(texts)
    world = load_world(plan.world)
    if not isinstance(world, OpenSpielWorld):
        raise ConfigError(f"nashconv reads information states, which only OpenSpiel's games have; {plan.world} is none")
    eval_agents = _eval_agents_of(texts, plan.values, plan.world, limits)
    agent, *others = _named(texts, eval_agents, world)

    async def find() -> NashConvReport | LowerBound:
        for eval_agent in eval_agents:
            await eval_agent.refresh()
        size = {"episodes": plan.episodes, "trials": plan.trials, "seed": plan.seed}
        if is_bound:
            return await lower_bound(world, agent, plan.world, others, learn=plan.learn, **size)
        after = others[0] if others else None
        return await measure_nash_conv(world, agent, plan.world, after=after, num_samples=plan.samples, **size)

    with limits.spending():
        report = world_report(run_sync(find()), [eval_agent.describe() for eval_agent in eval_agents], plan.seed)
    path = out or new_run_path(_NASH_CONV, eval_agents[0].file_name)
    path.mkdir(parents=True, exist_ok=True)
    write_atomically(path / (_BOUND if is_bound else _EXACT), to_json(report))
    return path, report


def _eval_agents_of(
    agents: Sequence[str], values: Mapping[str, object], world: str, limits: ResourceLimits
) -> list[EvalAgent]:
    """Load the named agents and check them against the world; settings of models do not go to other players."""
    say_where_the_key_goes(agents)
    eval_agents = []
    for agent in agents:
        own = {key: v for key, v in values.items() if not (_is_player(agent) and key.startswith("agent."))}
        eval_agent = limits.eval_agent(agent, own, [world])
        eval_agent.check(world, range(load_world(world).info.num_seats))
        eval_agents.append(eval_agent)
    return eval_agents


def _named(texts: Sequence[str], eval_agents: Sequence[EvalAgent], world: World) -> list[NamedAgent]:
    """Agents by their names, or as they were given where two have the same."""
    names = [eval_agent.name for eval_agent in eval_agents]
    shown_names = [t if names.count(name) > 1 else name for t, name in zip(texts, names, strict=True)]
    return [(name, eval_agent.make_agent(world)) for name, eval_agent in zip(shown_names, eval_agents, strict=True)]


def _import_plugins_of(agents: Iterable[str]) -> None:
    """Import the plugins of the runs and checkpoints among agents: the world may come from them."""
    for agent in agents:
        for folder in (Path(agent), Path(agent).parent.parent):
            import_plugins_of(folder)


def _is_player(agent: str) -> bool:
    """Whether it is a player without a model, as far as its name says."""
    names = {BAYES, *OPPONENTS} - set(MODEL_OPPONENTS)
    return any(agent == name or agent.startswith((f"{name}:", f"{name}(")) for name in names)


def _with_normal_world(plan: Mapping[str, object]) -> dict[str, object]:
    return {**plan, "world": normal_world(str(plan.get("world", "")))}


def _trial_log(path: Path, plan: CrossPlay) -> TrialLog:
    """A new log, or the one in a directory where the same was begun."""
    as_written = msgspec.json.decode(msgspec.json.encode(plan))
    if not (path / RUN).is_file():
        return TrialLog.create(path, as_written, plan.seed, _CROSS_PLAY)
    info = read_info(path)
    if info.kind != _CROSS_PLAY or _with_normal_world(info.config) != _with_normal_world(as_written):
        raise ConfigError(f"{path} holds something else; only the same cross-play goes on there")
    return TrialLog.reopen(path)
