"""Training of a league: the loop of `train.py` with several learners, who meet each other, their past and the anchors.

matches are drawn for every learner by what the pay-off table says; all are played together;
each learner is credited for its own seats, against whomever it met, and improved by its own optimizer;
results go into the table, snapshots join, learners that are clearly worse copy a better one and try something else.
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
from mage.league.explore import BOUNDS
from mage.league.matches import Match, PlayedMatch, draw_matches, play_matches
from mage.league.members import Member
from mage.league.samplers import MemberProbs, Sampler, make_sampler
from mage.league.state import League
from mage.training.league_policies import LeaguePolicies
from mage.training.league_recorder import NASH_CONV, LeagueRecorder
from mage.training.loop import evaluate, showcase, to_batch
from mage.training.parts import CONCURRENCY, Parts
from mage.training.step_metrics import step_metrics
from mage.types import DeadGroups, Failure, Trial
from mage.worlds.openspiel.game import load_game


async def train_league(
    config: Config, parts: Parts, policies: LeaguePolicies, sampler: Sampler, recorder: LeagueRecorder
) -> None:
    """Run the steps that are left, saving and judging the leader on the way."""
    await parts.publish(recorder.step)
    await recorder.activate()
    if recorder.step == 0:
        recorder.keep(await _showcase(parts, policies, recorder))
    while not (recorder.is_finished or recorder.is_stopped):
        league = recorder.league
        odds = {m.id: sampler.odds(league, m.id, met_by(config, league, m)) for m in league.learners}
        played = await play(config, parts, policies, league, draw(config, league, odds, recorder.step), recorder.step)
        credited = policies.credit(league, played)
        advantages, stats = parts.estimator.estimate(credited, recorder.stats)
        metrics = {m.id: learn(config, policies, recorder, m.id, played, credited, advantages) for m in league.learners}
        recorder.record(played, odds)
        every = config.league.nashconv_every
        if every and (recorder.step + 1) % every == 0:
            for name, make_agent in policies.agent_factories(league, live_only=True).items():
                gains = await first_episode_gains((name, make_agent), config.world, episodes=config.trial.episodes)
                metrics[name][NASH_CONV] = gains.nash_conv
        recorder.complete_all(stats, metrics, played)
        await recorder.evolve()
        if recorder.is_showcase_due:
            recorder.keep(await _showcase(parts, policies, recorder))
        if recorder.is_evaluation_due:
            recorder.evaluated(await _evaluate(config, parts, policies, recorder, config.evaluation.trials))
        recorder.save_if_due()
    if recorder.is_finished and not recorder.is_evaluated:
        recorder.keep(await _showcase(parts, policies, recorder))
        recorder.finish(await _evaluate(config, parts, policies, recorder, config.evaluation.final_trials))


def check_league(config: Config) -> None:
    """Fail now, with one line, on settings that do not go with a league."""
    league = config.league
    if not league.learners:
        return
    sampler_of(config)
    if config.batch.groups % league.learners:
        raise ConfigError(f"batch.groups = {config.batch.groups}: must be shared out among {league.learners} learners")
    if config.batch.dead is DeadGroups.RESAMPLE:
        raise ConfigError("batch.dead = resample: a league replaces no groups; set it to drop or keep")
    if config.batch.replay:
        raise ConfigError(f"batch.replay = {config.batch.replay}: a league meets no task again; set it to 0")
    if config.credit.estimator == "cloning" or config.agent.tutor:
        raise ConfigError(
            "league.learners: nobody is taught in a league; leave out credit.estimator cloning and tutors"
        )
    for key in league.explore:
        if key not in BOUNDS:
            raise ConfigError(f"league.explore: {key!r} cannot be explored; {', '.join(BOUNDS)} can")


def refuse_explored(config: Config, keys: Sequence[str]) -> None:
    """Refuse to change settings that every learner has its own value of."""
    for key in keys:
        if config.league.learners and key in config.league.explore:
            raise ConfigError(f"{key} cannot change in this run: every learner has its own, which the league explores")


def sampler_of(config: Config) -> Sampler:
    """Who says whom learners meet."""
    game = load_game(config.world)
    return make_sampler(config.league.sampler, config.league.options, (game.lowest, game.highest))


def met_by(config: Config, league: League, learner: Member) -> list[Member]:
    """Whom a learner may meet: anchors, snapshots, and other learners, or `itself` where it is the only one."""
    is_alone = len(league.learners) == 1
    return list(league.opponents_of(learner.id, with_itself=is_alone and config.league.itself))


def draw(config: Config, league: League, odds: dict[str, MemberProbs], step: int) -> list[Match]:
    """The matches of a step: as many for each learner."""
    num = config.batch.groups // len(league.learners)
    return [
        match
        for learner in league.learners
        for match in draw_matches(
            config, learner.id, met_by(config, league, learner), odds[learner.id], num, "league", step
        )
    ]


async def play(
    config: Config, parts: Parts, policies: LeaguePolicies, league: League, matches: Sequence[Match], step: int
) -> list[PlayedMatch]:
    """Play all matches together, everybody with what it knows now."""
    await policies.publish(league, step)
    with parts.resources.playing():
        played = await play_matches(matches, config.batch.size, policies.agent_factories(league), CONCURRENCY)
    parts.refuse_failed([one.group for one in played])
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
    """Improve one learner by the groups that are its own, and say what they were like."""
    mine = [number for number, one in enumerate(played) if one.learner == learner]
    groups, steps = [played[number].group for number in mine], [credited[number] for number in mine]
    found = tuple(advantages[number] for number in mine)
    live, dead = split_dead(found)
    trained = trained_groups(live, dead, config.batch.dead)
    drawn = [played[number].group for number in mine if played[number].is_drawn]
    metrics = {**step_metrics(drawn, drawn), "groups/dead_share": len(dead) / len(groups)}
    body = policies.shared.activate(learner)
    if learner == recorder.transcribed:
        recorder.transcribe_if_due(groups[0], steps[0], found[0], 0 in trained, is_tutored=False)
    if trained:
        metrics |= body.update(to_batch(groups, steps, found, trained))
    return metrics


async def _showcase(parts: Parts, policies: LeaguePolicies, recorder: LeagueRecorder) -> Trial | Failure:
    policies.shared.activate(recorder.league.leader().id)
    return await showcase(parts, recorder.step)


async def _evaluate(
    config: Config, parts: Parts, policies: LeaguePolicies, recorder: LeagueRecorder, trials: int
) -> list[SplitReport]:
    """Judge whoever leads the league."""
    policies.shared.activate(recorder.league.leader().id)
    return await evaluate(config, parts, recorder.step, trials)
