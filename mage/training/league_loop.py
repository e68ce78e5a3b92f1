"""The training loop of a league: several learners play each other, their snapshots and the anchors.

Each step: draw matches for every learner by the pay-off table; play all of them together; compute advantages for each
learner's own seats and update it with its own optimizer; add results to the table; take snapshots; let learners that
are clearly worse copy a better one and change their settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from mage.config.schema import Config
from mage.credit.dead_groups import split_dead, trained_groups
from mage.credit.estimators.base import Advantages
from mage.credit.steps import CreditGroup
from mage.errors import ConfigError
from mage.evaluation.exploitability.nashconv import first_episode_gains
from mage.evaluation.suite.evaluate import SplitReport
from mage.league.matches import Match, PlayedMatch, draw_matches, play_matches
from mage.league.members import Member
from mage.league.pbt import BOUNDS
from mage.league.samplers import MemberProbs, Sampler, make_sampler
from mage.league.state import League
from mage.training.league_policies import LeaguePolicies
from mage.training.league_recorder import NASH_CONV, LeagueRecorder
from mage.training.loop import evaluate, showcase, to_batch
from mage.training.parts import CONCURRENCY, Parts
from mage.training.step_metrics import step_metrics
from mage.types import DeadGroups, Failure, Trial
from mage.worlds.registry import load_world


async def train_league(
    config: Config, parts: Parts, policies: LeaguePolicies, sampler: Sampler, recorder: LeagueRecorder
) -> None:
    """Run the remaining steps, with checkpoints and evaluations of the leader."""
    await parts.publish(recorder.step)
    await recorder.load_snapshots()
    if recorder.step == 0:
        recorder.record_trial(await _showcase(parts, policies, recorder))
    while not (recorder.is_finished or recorder.is_stopped):
        league = recorder.league
        odds = {m.id: sampler.odds(league, m.id, possible_opponents(config, league, m)) for m in league.learners}
        played = await play(config, parts, policies, league, draw(config, league, odds, recorder.step), recorder.step)
        credited = policies.credit(league, played)
        advantages, stats = parts.estimator.estimate(credited, recorder.stats)
        metrics = {m.id: learn(config, policies, recorder, m.id, played, credited, advantages) for m in league.learners}
        recorder.record_matches(played, odds)
        every = config.league.nashconv_every
        if every and (recorder.step + 1) % every == 0:
            for name, make_agent in policies.agent_factories(league, live_only=True).items():
                gains = await first_episode_gains((name, make_agent), config.world, episodes=config.trial.episodes)
                metrics[name][NASH_CONV] = gains.nash_conv
        recorder.complete_league_step(stats, metrics, played)
        await recorder.update_members()
        if recorder.is_showcase_due:
            recorder.record_trial(await _showcase(parts, policies, recorder))
        if recorder.is_evaluation_due:
            recorder.record_evaluation(await _evaluate(config, parts, policies, recorder, config.evaluation.trials))
        recorder.save_if_due()
    if recorder.is_finished and not recorder.is_evaluated:
        recorder.record_trial(await _showcase(parts, policies, recorder))
        recorder.record_final_evaluation(
            await _evaluate(config, parts, policies, recorder, config.evaluation.final_trials)
        )


def check_league(config: Config) -> None:
    """Raise a ConfigError for settings that a league does not support."""
    league = config.league
    if not league.learners:
        return
    sampler_of(config)
    if config.batch.groups % league.learners:
        raise ConfigError(
            f"batch.groups = {config.batch.groups}: must be a multiple of league.learners = {league.learners}"
        )
    if config.batch.dead is DeadGroups.RESAMPLE:
        raise ConfigError("batch.dead = resample: a league does not resample groups; set it to drop or keep")
    if config.batch.replay:
        raise ConfigError(f"batch.replay = {config.batch.replay}: a league does not replay tasks; set it to 0")
    if config.credit.estimator == "cloning" or config.agent.tutor:
        raise ConfigError("league.learners: a league has no teacher; leave out credit.estimator cloning and tutors")
    for key in league.explore:
        if key not in BOUNDS:
            raise ConfigError(f"league.explore: {key!r} cannot be explored; {', '.join(BOUNDS)} can")


def refuse_explored(config: Config, keys: Sequence[str]) -> None:
    """Refuse to change settings that each learner has its own value of."""
    for key in keys:
        if config.league.learners and key in config.league.explore:
            raise ConfigError(f"{key} cannot change in this run: every learner has its own, which the league explores")


def sampler_of(config: Config) -> Sampler:
    """The sampler of opponents that the config names."""
    info = load_world(config.world).info
    return make_sampler(config.league.sampler, config.league.options, (info.lowest, info.highest))


def possible_opponents(config: Config, league: League, learner: Member) -> list[Member]:
    """The possible opponents of a learner: anchors, snapshots, and other learners, or itself if it is the only one."""
    is_alone = len(league.learners) == 1
    return list(league.opponents_of(learner.id, with_itself=is_alone and config.league.itself))


def draw(config: Config, league: League, odds: dict[str, MemberProbs], step: int) -> list[Match]:
    """The matches of a step, equally many for each learner."""
    num = config.batch.groups // len(league.learners)
    return [
        match
        for learner in league.learners
        for match in draw_matches(
            config, learner.id, possible_opponents(config, league, learner), odds[learner.id], num, "league", step
        )
    ]


async def play(
    config: Config, parts: Parts, policies: LeaguePolicies, league: League, matches: Sequence[Match], step: int
) -> list[PlayedMatch]:
    """Publish the current weights and play all matches concurrently."""
    await policies.publish(league, step)
    with parts.resources.playing():
        played = await play_matches(matches, config.batch.size, policies.agent_factories(league), CONCURRENCY)
    parts.raise_if_all_failed([one.group for one in played])
    return played


def learn(
    config: Config,
    policies: LeaguePolicies,
    recorder: LeagueRecorder,
    learner: str,
    played: Sequence[PlayedMatch],
    credited: Sequence[CreditGroup],
    advantages: Advantages,
) -> dict[str, float]:
    """Update one learner on its own groups and return its metrics."""
    mine = [number for number, one in enumerate(played) if one.learner == learner]
    groups, steps = [played[number].group for number in mine], [credited[number] for number in mine]
    found = tuple(advantages[number] for number in mine)
    live, dead = split_dead(found)
    trained = trained_groups(live, dead, config.batch.dead)
    drawn = [played[number].group for number in mine if played[number].is_drawn]
    metrics = {**step_metrics(drawn, drawn), "groups/dead_share": len(dead) / len(groups)}
    current = policies.shared_learner.activate(learner)
    if learner == recorder.transcribed_learner:
        recorder.transcribe_if_due(groups[0], steps[0], found[0], 0 in trained, is_tutored=False)
    if trained:
        metrics |= current.update(to_batch(groups, steps, found, trained))
    return metrics


async def _showcase(parts: Parts, policies: LeaguePolicies, recorder: LeagueRecorder) -> Trial | Failure:
    policies.shared_learner.activate(recorder.league.leader().id)
    return await showcase(parts, recorder.step)


async def _evaluate(
    config: Config, parts: Parts, policies: LeaguePolicies, recorder: LeagueRecorder, trials: int
) -> list[SplitReport]:
    """Evaluate the leader of the league."""
    policies.shared_learner.activate(recorder.league.leader().id)
    return await evaluate(config, parts, recorder.step, trials)
