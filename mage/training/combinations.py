"""Which settings go together: ways of choosing tasks, a league, a teacher. The one place that refuses combinations."""

from __future__ import annotations

from collections.abc import Sequence

from mage.config.schema import Config
from mage.errors import ConfigError
from mage.evaluation.config_splits import members_of
from mage.league.pbt import BOUNDS
from mage.league.samplers import Sampler, make_sampler
from mage.opponents.remote import NAME as REMOTE
from mage.types import Device, Divergence
from mage.worlds.openspiel.world import OpenSpielWorld
from mage.worlds.registry import load_world

AUTO, ANCHORED, WEIGHTED = "auto", "anchored", "weighted"
VLLM = "vllm"
"""The engine that `agent.server` is for."""


def uses_payoffs(config: Config) -> bool:
    """Whether opponents are drawn by a sampler over a pay-off table: in leagues, and where a sampler is named."""
    return config.league.learners > 0 or config.population.sampler not in (AUTO, WEIGHTED)


def sampler_of(config: Config) -> Sampler:
    """The sampler of opponents that the config names."""
    info = load_world(config.world).info
    name = ANCHORED if config.population.sampler == AUTO else config.population.sampler
    return make_sampler(name, config.population.options, (info.lowest, info.highest))


def check_combinations(config: Config) -> None:
    """Raise a ConfigError for settings that are valid alone and not together."""
    if config.population.sampler != AUTO or config.league.learners:
        sampler_of(config)
    if uses_payoffs(config) and load_world(config.world).info.num_seats == 1:
        key = _league_key(config) if config.league.learners else _sampler_key(config)
        raise ConfigError(f"{key}: {config.world} has one seat, and there are no opponents to draw")
    if config.population.sampler == ANCHORED and not config.league.learners:
        raise ConfigError(f"{_sampler_key(config)}: without a league all members are anchors; uniform draws them alike")
    check_divergence(config)
    if config.learner.ranks > 1:
        _check_sharded(config)
    if config.credit.estimator == "cloning":
        _check_teacher(config)
    if config.league.learners:
        _check_league(config)
    if config.rollout.workers:
        _check_workers(config)
    _check_vllm(config)
    if config.rollout.lag:
        _check_lag(config)


def check_divergence(config: Config) -> None:
    """Refuse a penalty without a gradient."""
    weight = config.learner.divergence_weight
    if config.learner.divergence is Divergence.K1 and weight > 0:
        raise ConfigError(
            f"learner.divergence = k1 with learner.divergence_weight = {weight}: the mean gradient of k1 is zero, so "
            "it holds nothing back; take k2 or k3, or set the weight to 0 to measure only"
        )


def _check_sharded(config: Config) -> None:
    """Refuse what several ranks cannot do."""
    key = f"learner.ranks = {config.learner.ranks}"
    if config.league.learners:
        raise ConfigError(f"{key}: the learners of a league take turns in one process; leave {_league_key(config)} out")
    if config.learner.kind != "local":
        raise ConfigError(f"{key}: learner.kind = {config.learner.kind} cannot be sharded; local can")
    if config.learner.compile is True:
        raise ConfigError(f"{key}: sharded layers are not compiled; set learner.compile = auto or false")
    if config.learner.token_budget == "auto":
        raise ConfigError(f"{key}: learner.token_budget = auto is for one process, ranks need a number; give one")


def _check_teacher(config: Config) -> None:
    """Refuse what is decided by scores where these are the teacher's."""
    if config.batch.replay:
        raise ConfigError(
            f"batch.replay = {config.batch.replay}: a teacher's scores do not show which tasks the agent fails"
        )
    if config.league.learners:
        raise ConfigError(
            f"{_league_key(config)}: a teacher plays with credit.estimator = cloning, so pay-offs would be the "
            "teacher's, and learners could not be compared; leave one of them out"
        )
    if uses_payoffs(config):
        raise ConfigError(f"{_sampler_key(config)}: a teacher's scores do not show which opponents the agent fails")


def _check_league(config: Config) -> None:
    if config.batch.groups % config.league.learners:
        raise ConfigError(f"batch.groups = {config.batch.groups}: must be a multiple of {_league_key(config)}")
    every = config.league.nashconv_every
    if every and not isinstance(load_world(config.world), OpenSpielWorld):
        raise ConfigError(f"league.nashconv_every = {every}: {config.world} is not an OpenSpiel game; set it to 0")
    for key in config.league.explore:
        if key not in BOUNDS:
            raise ConfigError(f"league.explore: {key!r} cannot be explored; {', '.join(BOUNDS)} can")


def _check_workers(config: Config) -> None:
    """Refuse what only one process can play with, and parts of a GPU that Ray does not give out."""
    gpus = config.rollout.gpus
    if (gpus > 1 and gpus % 1) or round(gpus, 4) != gpus:
        raise ConfigError(
            f"rollout.gpus = {gpus:g}: Ray gives a worker whole GPUs, or a share of one with at most four decimals"
        )
    if config.league.learners:
        raise ConfigError(
            f"{_workers_key(config)} with {_league_key(config)}: workers serve one policy; set one of them to 0"
        )
    remote = [member for member in members_of(config) if member.startswith(f"{REMOTE}(")]
    if remote:
        raise ConfigError(
            f"{_workers_key(config)}: {remote[0]} is asked by one process, which counts what it may be asked; set "
            "rollout.workers = 0"
        )


def _check_vllm(config: Config) -> None:
    """Refuse what cannot be played with vLLM."""
    servers = ", ".join(config.agent.server)
    if config.engine != VLLM:
        if servers:
            raise ConfigError(f"agent.server = {servers}: engine = {config.engine} has none; set engine = vllm")
        return
    if config.rollout.workers and servers:
        raise ConfigError(
            f"{_workers_key(config)} with agent.server = {servers}: each worker has its own vLLM; leave agent.server "
            "out, or set rollout.workers = 0"
        )
    if config.league.learners and not config.learner.lora_rank:
        raise ConfigError(
            f"{_league_key(config)}: engine = vllm serves one whole model; set learner.lora_rank, or engine = local"
        )
    if config.learner.ranks > 1 and not config.agent.server:
        raise ConfigError(
            f"learner.ranks = {config.learner.ranks}: engine = vllm cannot share a process with a sharded learner; "
            "start a server and name it in agent.server"
        )


def _check_lag(config: Config) -> None:
    """Refuse what needs the results of a step before the next one is drawn."""
    key = f"rollout.lag = {config.rollout.lag}"
    if config.league.learners:
        raise ConfigError(
            f"{key} with {_league_key(config)}: learners that copy others would learn from trials of the weights that "
            "they gave up; set one of them to 0"
        )
    if config.batch.replay:
        raise ConfigError(
            f"{key} with batch.replay = {config.batch.replay}: a task could be drawn again before its last trials are "
            "known; set one of them to 0"
        )
    if config.learner.kind != "local":
        raise ConfigError(
            f"{key}: learner.kind = {config.learner.kind} may not weight older samples; local does, or set it to 0"
        )


def check_worker_gpus(config: Config, device: str) -> None:
    """Refuse workers that would not play on the kind of device that the learner is on."""
    if config.rollout.workers and (device == Device.CUDA) != (config.rollout.gpus > 0):
        needed = "give each worker a GPU or a share of one" if device == Device.CUDA else "set it to 0"
        raise ConfigError(f"rollout.gpus = {config.rollout.gpus:g}: the model runs on {device}; {needed}")


def _workers_key(config: Config) -> str:
    return f"rollout.workers = {config.rollout.workers}"


def _league_key(config: Config) -> str:
    return f"league.learners = {config.league.learners}"


def _sampler_key(config: Config) -> str:
    return f"population.sampler = {config.population.sampler}"


def refuse_explored(config: Config, keys: Sequence[str]) -> None:
    """Refuse to change settings that each learner has its own value of."""
    for key in keys:
        if config.league.learners and key in config.league.explore:
            raise ConfigError(f"{key} cannot change in this run: every learner has its own, which the league explores")
