"""The order for a worker: all that it is built from, as bytes, so that it may be on another machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mage.config.load import replaced
from mage.config.schema import Config
from mage.league.matches import MatchJob, Outcome
from mage.models.device import resolve_placement
from mage.plugins import PluginSource, plugin_sources
from mage.training.build import worlds_of
from mage.version import __version__


class WorkerOrder(msgspec.Struct, frozen=True):
    """What a worker is built from."""

    version: str
    config: bytes
    """As JSON."""
    worlds: tuple[str, ...]
    """Specs of all worlds of the run, for models whose vocabulary is made from their words."""
    tokenizer: Mapping[str, bytes]
    """The files of the run's tokenizer by name; empty where it has none yet."""
    plugins: tuple[PluginSource, ...]


to_bytes = msgspec.msgpack.Encoder().encode
read_order = msgspec.msgpack.Decoder(WorkerOrder).decode
read_jobs = msgspec.msgpack.Decoder(list[MatchJob]).decode
read_outcomes = msgspec.msgpack.Decoder(list[Outcome]).decode


def order_of(config: Config, tokenizer: Path | None) -> WorkerOrder:
    """The order for the workers of a run: with this machine's number format, and their own number of threads."""
    dtype = resolve_placement(config.device, config.dtype).dtype
    own = replaced(config, {"dtype": dtype, "threads": config.rollout.cpus}, "a worker")
    files = {} if tokenizer is None else {path.name: path.read_bytes() for path in tokenizer.iterdir() if _is_own(path)}
    return WorkerOrder(__version__, own.model_dump_json().encode(), worlds_of(config), files, plugin_sources())


def _is_own(path: Path) -> bool:
    """Whether a file is one of a tokenizer: the folder may be a checkpoint, with weights."""
    return path.is_file() and path.suffix in (".json", ".jinja", ".model", ".txt")
