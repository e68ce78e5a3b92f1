"""Checks before a run starts that need no model: they are done before torch is imported, which takes long."""

from __future__ import annotations

from pathlib import Path

from mage.config.schema import Config
from mage.credit.estimators import make_estimator
from mage.engines.vllm.availability import check_vllm
from mage.extras import require
from mage.learners.lora_init import check_lora_init
from mage.learners.settings import learner_settings
from mage.learners.sharded.cards import check_ranks
from mage.models.device import resolve_placement
from mage.runs.new_directory import check_empty
from mage.runs.tracker import check_trackers
from mage.training.build import check, check_splits
from mage.training.combinations import VLLM, check_combinations, check_worker_gpus
from mage.training.workers.cluster_address import check_address
from mage.training.workers.places import check_local_workers


def check_config(config: Config) -> None:
    """Raise a ConfigError for settings that cannot be trained with on any machine."""
    check(config)
    check_combinations(config)
    check_splits(config)
    make_estimator(config.credit.estimator, config.credit.options)
    learner_settings(config)  # refuses those that cannot train


def check_start(config: Config) -> None:
    """Raise a ConfigError for anything that would fail later on this machine, except for loading the model."""
    check_config(config)
    check_trackers(config.trackers)
    device = resolve_placement(config.device, config.dtype).device
    check_ranks(config.learner.ranks, device)
    if config.engine == VLLM:
        check_vllm(config.agent.server)
    if config.rollout.workers:
        check_local_workers(config.rollout)
        require("ray", f"rollout.workers = {config.rollout.workers} needs")
        check_address(config.rollout.address)
    check_worker_gpus(config, device)


def check_new_run(folder: Path | None, *configs: Config) -> None:
    """Raise an error where torch is not installed, a directory is in use, or one of the configs cannot be started."""
    require("train", "training needs")
    if folder is not None:
        check_empty(folder)
    for config in configs:
        check_start(config)
        check_lora_init(config.learner)
