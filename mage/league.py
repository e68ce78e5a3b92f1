"""Training of a league: the loop of `train.py` with several learners, who meet each other, their past and the anchors.

matches are drawn for every learner by what the pay-off table says; all are played together;
each learner is credited for its own seats, against whomever it met, and improved by its own optimizer;
results go into the table, snapshots join, learners that are clearly worse copy a better one and try something else.
"""

from __future__ import annotations

from collections.abc import Sequence

from mage.credit.dead import split_dead, trained_groups
from mage.credit.estimators.base import Advantages
from mage.credit.steps import CreditGroup
from mage.errors import ConfigError
from mage.evaluate.nashconv import first_episode
from mage.evaluate.suite import SplitReport
from mage.games.openspiel import load_game
from mage.learn.league_progress import NASH_CONV, LeagueProgress
from mage.learn.parts import CONCURRENCY, Parts
from mage.learn.pool import Pool
from mage.population.explore import BOUNDS
from mage.population.league import League
from mage.population.matches import Match, Played, draw_matches, play_matches
from mage.population.members import Member
from mage.population.samplers import Odds, Sampler, make_sampler
from mage.record.figures import step_figures
from mage.schema import Config
from mage.train import evaluate, showcase, to_batch
from mage.types import DeadGroups, Failure, Trial


async def train_league(config: Config, parts: Parts, pool: Pool, sampler: Sampler, progress: LeagueProgress) -> None:
    """Run the steps that are left, saving and judging the leader on the way."""
    await parts.publish(progress.step)
    await progress.wake()
    if progress.step == 0:
        progress.keep(await _showcase(parts, pool, progress))
    while not (progress.is_finished or progress.is_stopped):
        league = progress.league
        odds = {m.id: sampler.odds(league, m.id, met_by(config, league, m)) for m in league.learners}
        played = await play(config, parts, pool, league, draw(config, league, odds, progress.step), progress.step)
        credited = pool.credit(league, played)
        advantages, stats = parts.estimator.estimate(credited, progress.stats)
        figures = {m.id: learn(config, pool, progress, m.id, played, credited, advantages) for m in league.learners}
        progress.record(played, odds)
        every = config.league.nashconv_every
        if every and (progress.step + 1) % every == 0:
            for name, seating in pool.seatings(league, live_only=True).items():
                gains = await first_episode((name, seating), config.game, episodes=config.trial.episodes)
                figures[name][NASH_CONV] = gains.nash_conv
        progress.complete_all(stats, figures, played)
        await progress.evolve()
        if progress.is_showcase_due:
            progress.keep(await _showcase(parts, pool, progress))
        if progress.is_evaluation_due:
            progress.judged(await _judge(config, parts, pool, progress, config.evaluation.trials))
        progress.save_if_due()
    if progress.is_finished and not progress.is_judged:
        progress.keep(await _showcase(parts, pool, progress))
        progress.finish(await _judge(config, parts, pool, progress, config.evaluation.final_trials))


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
    if config.batch.revisit:
        raise ConfigError(f"batch.revisit = {config.batch.revisit}: a league meets no task again; set it to 0")
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
    game = load_game(config.game)
    return make_sampler(config.league.sampler, config.league.options, (game.lowest, game.highest))


def met_by(config: Config, league: League, learner: Member) -> list[Member]:
    """Whom a learner may meet: anchors, snapshots, and other learners, or `itself` where it is the only one."""
    is_alone = len(league.learners) == 1
    return list(league.opponents_of(learner.id, with_itself=is_alone and config.league.itself))


def draw(config: Config, league: League, odds: dict[str, Odds], step: int) -> list[Match]:
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
    config: Config, parts: Parts, pool: Pool, league: League, matches: Sequence[Match], step: int
) -> list[Played]:
    """Play all matches together, everybody with what it knows now."""
    await pool.publish(league, step)
    with parts.vitals.playing():
        played = await play_matches(matches, config.batch.size, pool.seatings(league), CONCURRENCY)
    parts.refuse_failed([one.group for one in played])
    return played


def learn(
    config: Config,
    pool: Pool,
    progress: LeagueProgress,
    learner: str,
    played: Sequence[Played],
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
    figures = {**step_figures(drawn, drawn), "groups/dead_share": len(dead) / len(groups)}
    body = pool.minds.wake(learner)
    if learner == progress.transcribed:
        progress.transcribe_if_due(groups[0], steps[0], found[0], 0 in trained, is_tutored=False)
    if trained:
        figures |= body.update(to_batch(groups, steps, found, trained))
    return figures


async def _showcase(parts: Parts, pool: Pool, progress: LeagueProgress) -> Trial | Failure:
    pool.minds.wake(progress.league.leader().id)
    return await showcase(parts, progress.step)


async def _judge(config: Config, parts: Parts, pool: Pool, progress: LeagueProgress, trials: int) -> list[SplitReport]:
    """Judge whoever leads the league."""
    pool.minds.wake(progress.league.leader().id)
    return await evaluate(config, parts, progress.step, trials)
