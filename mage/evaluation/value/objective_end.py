"""What the objective of a config ends at, exactly, on a split that is trained on."""

from __future__ import annotations

from functools import lru_cache

from mage.config.schema import Config
from mage.credit.returns import ReturnSpec
from mage.errors import InexactError
from mage.evaluation.config_splits import population_of
from mage.evaluation.exact.myopic import MyopicPlanner
from mage.evaluation.exact.planner import Planner
from mage.evaluation.exact.pool import Members, load_pool, normalise_members
from mage.evaluation.splits import Split
from mage.evaluation.value.objective_weights import PlannedObjective
from mage.types import Memory
from mage.worlds.registry import load_world, normal_world

_CLONING = "cloning"
_SAMPLERS = ("auto", "weighted")


def objective_end(config: Config, split: Split) -> float:
    """The last score on a split of the best play for the objective of a config; `InexactError` where it has none.

    The player remembers everything, and the split holds what is trained on. The mean over the config's seats.
    """
    _check(config, split)
    spec = ReturnSpec(config.credit.objective, config.credit.turn, config.credit.episode)
    if spec.inside < 1.0 and load_world(split.world).info.turns != 1:
        raise InexactError(f"credit.turn = {config.credit.turn}: only without this discount the best play is planned")
    num = config.trial.episodes
    # An objective that pays nothing for later episodes pays each for itself, as `single` does.
    weights = PlannedObjective("", "", spec).weights(num) if spec.across else ()
    pools = [(normalise_members(split.world, split.weighted_members, seat, num), seat) for seat in config.trial.seats]
    return sum(best_last_score(split.world, members, seat, num, weights) for members, seat in pools) / len(pools)


@lru_cache(maxsize=4096)
def best_last_score(world: str, members: Members, seat: int, episodes: int, weights: tuple[float, ...]) -> float:
    """The last score of the best play for these weights of the episodes; without weights that of myopic Bayes (G+)."""
    pool = load_pool(world, members, seat)
    trees = pool.trees(episodes)
    if not weights:
        return MyopicPlanner(trees, pool.prior).last_scores().high
    return Planner(trees, pool.prior, weights).trial_scores()[-1]


def _check(config: Config, split: Split) -> None:
    """Raise an `InexactError` for training that has no such end."""
    if config.credit.estimator == _CLONING:
        raise InexactError("behaviour cloning has no objective of its own")
    if config.league.learners:
        raise InexactError("a league's opponents change with training")
    if config.trial.early_stop or config.trial.replay_deal:
        raise InexactError("exact values need fresh deals and whole trials: no replay_deal, no early_stop")
    if config.agent.memory not in (Memory.HISTORY, Memory.BOTH):
        raise InexactError(f"agent.memory = {config.agent.memory}: exact values are of a player that has the history")
    if not _draws_alike(config, split):
        raise InexactError(f"training draws other tasks than {split.name!r} has")


def _draws_alike(config: Config, split: Split) -> bool:
    """Whether training draws the tasks of a split as often as the split has them."""
    num = config.trial.episodes
    if config.population.sampler not in _SAMPLERS or config.batch.replay or split.episodes not in (None, num):
        return False
    return normal_world(config.world) == normal_world(split.world) and all(
        normalise_members(config.world, population_of(config), seat, num)
        == normalise_members(split.world, split.weighted_members, seat, num)
        for seat in config.trial.seats
    )
