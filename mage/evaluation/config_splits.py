"""The splits and members that a config names."""

from __future__ import annotations

from mage.config.schema import Config
from mage.errors import ConfigError
from mage.evaluation.splits import POPULATION, Split, load_split, make_split, weighted_split
from mage.spec import parse_spec
from mage.worlds.openspiel.openings import without_opening


def split_names_of(config: Config) -> tuple[str, ...]:
    """The names of the evaluation splits and of the population's split that are files."""
    named = (*config.evaluation.splits, *filter(None, (config.population.split,)))
    return tuple(name for name in named if name != POPULATION)


def members_of(config: Config) -> tuple[str, ...]:
    """All members of the population; a split must be made for the config's world, up to its opening."""
    population = config.population
    if not population.split:
        return population.members
    split = load_split(population.split)
    if without_opening(parse_spec(split.world)) != without_opening(parse_spec(config.world)):
        raise ConfigError(f"population.split: {split.name!r} is made for {split.world}, not for {config.world}")
    return (*split.members, *population.members)


def population_of(config: Config) -> list[tuple[str, float]]:
    """All members of the population with their weights: the config's, else those of its split, else 1."""
    members, population = members_of(config), config.population
    if population.weights:
        return list(zip(members, population.weights, strict=True))
    split = load_split(population.split).weighted_members if population.split else ()
    weights = (*(float(weight) for _, weight in split), *(1.0,) * len(population.members))
    return list(zip(members, weights, strict=True))


def evaluated_splits(config: Config) -> tuple[Split, ...]:
    """The splits that a config is evaluated on."""
    return tuple(_population(config) if name == POPULATION else load_split(name) for name in config.evaluation.splits)


def _population(config: Config) -> Split:
    """The members of training, which evaluations meet as often as their weights say."""
    split = make_split(POPULATION, "the members of training", config.world, members_of(config), held_out=False)
    weights = [weight for _, weight in population_of(config)]
    if len(set(weights)) < 2:
        return split
    if not all(weight.is_integer() for weight in weights):
        raise ConfigError(f"evaluation.splits: population has the weights {weights}; evaluations take whole numbers")
    return weighted_split(split, [int(weight) for weight in weights])
