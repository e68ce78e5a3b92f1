"""Cross-play in its directory: play what is missing, log every trial and write one report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from rich.progress import Progress

from mage.aio import run_sync
from mage.errors import ConfigError
from mage.evaluation.crossplay import CrossPlayReport, check_meeting, cross_play
from mage.evaluation.participants import eval_agents_of, named
from mage.evaluation.resource_limits import ResourceLimits, at_work
from mage.evaluation.suite.report import CROSS_PLAY, GameReport, game_report, to_json
from mage.evaluation.trial_log import LoggedPlay, TrialLog
from mage.files import write_atomically
from mage.runs.store import RUN, fresh_path, read_info
from mage.spec import parse_spec
from mage.worlds.openspiel.game import load_game
from mage.worlds.openspiel.world import OpenSpielWorld

KIND = "cross-play"


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


def run_cross_play(
    plan: CrossPlay, out: Path | None, limits: ResourceLimits
) -> tuple[Path, GameReport[CrossPlayReport]]:
    """The directory and the report; the same plan in the same directory goes on where it was stopped."""
    game = load_game(plan.world)
    eval_agents = eval_agents_of(plan.agents, plan.values, game, limits)
    agents = named(plan.agents, eval_agents)
    check_meeting(game, [name for name, _ in agents])
    pinned = msgspec.structs.replace(plan, agents=tuple(eval_agent.agent for eval_agent in eval_agents))
    trial_log = _trial_log(out or fresh_path(KIND, parse_spec(plan.world).name), pinned)

    async def everything(bar: Progress) -> CrossPlayReport:
        for eval_agent in eval_agents:
            await eval_agent.refresh()
        return await cross_play(
            OpenSpielWorld(),
            agents,
            plan.world,
            episodes=plan.episodes,
            trials=plan.trials,
            seed=plan.seed,
            max_turns=plan.max_turns,
            play=LoggedPlay(trial_log, game.spec, concurrency=limits.num_trials(pinned.agents), bar=bar),
        )

    with at_work(trial_log, limits, lambda: f"the same command and  -o {trial_log.path}") as bar:
        found = run_sync(everything(bar))
    report = game_report(found, [eval_agent.describe() for eval_agent in eval_agents], plan.seed)
    write_atomically(trial_log.path / CROSS_PLAY, to_json(report))
    return trial_log.path, report


def _trial_log(path: Path, plan: CrossPlay) -> TrialLog:
    """A new log, or the one in a directory where the same was begun."""
    as_written = msgspec.json.decode(msgspec.json.encode(plan))
    if not (path / RUN).is_file():
        return TrialLog.create(path, as_written, plan.seed, KIND)
    info = read_info(path)
    if info.kind != KIND or info.config != as_written:
        raise ConfigError(f"{path} holds something else; only the same cross-play goes on there")
    return TrialLog.reopen(path)
