"""What rank 0 tells the other ranks to do, as msgpack."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

import msgspec
import torch

from mage.config.sections import LearnerConfig
from mage.learners.settings import LearnerSettings
from mage.models.device import with_dtype
from mage.types import Sample


class Settings(msgspec.Struct, frozen=True):
    """Settings of a learner as plain values."""

    config: dict[str, Any]
    temperature: float
    steps: int
    tokens: int
    seed: int
    is_lagged: bool


class Build(msgspec.Struct, frozen=True, tag="build"):
    """Make an empty model like that of rank 0, and its learner, which receives the weights."""

    kind: tuple[str, str]
    """Module and name of the model's class."""
    config: tuple[str, str]
    """The same of the class of its config."""
    values: str
    """The config as JSON."""
    attention: str
    dtype: str
    buffers: dict[str, str]
    """The dtypes of buffers by name, which may be others than those of a new model."""
    settings: Settings
    with_values: bool
    imitates: bool
    threads: int


class SetSettings(msgspec.Struct, frozen=True, tag="settings"):
    """Use other settings."""

    settings: Settings


class Update(msgspec.Struct, frozen=True, tag="update"):
    """Update the weights."""

    samples: list[Sample]


class Read(msgspec.Struct, frozen=True, tag="read"):
    """Evaluate tokens, or their values."""

    what: Literal["tokens", "values"]
    samples: list[Sample]


class Fetch(msgspec.Struct, frozen=True, tag="fetch"):
    """Give tensors of the state to rank 0."""

    names: list[str]


class Restore(msgspec.Struct, frozen=True, tag="restore"):
    """Receive tensors of a state from rank 0, in this order, and continue from it."""

    tensors: list[tuple[str, tuple[int, ...], str]]
    """Name, shape and dtype."""
    numbers: Mapping[str, float]


class Find(msgspec.Struct, frozen=True, tag="find"):
    """Look whether a file of rank 0 is there."""

    path: str


class Save(msgspec.Struct, frozen=True, tag="save"):
    """Write the own part of all tensors of the state but the weights to a folder."""

    folder: str


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Read the own part of a state from the files of a folder, and continue from it."""

    folder: str
    names: dict[str, str]
    """The names in the files by those of parameters and moments."""
    numbers: Mapping[str, float]


class End(msgspec.Struct, frozen=True, tag="end"):
    """End the process."""


Command = Build | SetSettings | Update | Read | Fetch | Restore | Find | Save | Load | End


class Message(msgspec.Struct, frozen=True):
    """A command for one of the learners that the ranks have."""

    command: Command
    learner: int
    unused: list[int]
    """Learners that rank 0 has dropped since the message before."""


END = msgspec.msgpack.encode(Message(End(), 0, []))
"""The message that ends all ranks."""
_DECODER = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """A message as bytes."""
    return msgspec.msgpack.encode(message)


def decode(content: bytes) -> Message:
    """The message of bytes."""
    return _DECODER.decode(content)


def as_plain(settings: LearnerSettings) -> Settings:
    """Settings to send."""
    config = settings.config.model_dump(mode="json")
    return Settings(config, settings.temperature, settings.steps, settings.tokens, settings.seed, settings.is_lagged)


def from_plain(settings: Settings) -> LearnerSettings:
    """Settings that were sent."""
    config = LearnerConfig.model_validate(settings.config)
    return LearnerSettings(
        config, settings.temperature, settings.steps, settings.tokens, settings.seed, settings.is_lagged
    )


def build_of(model: Any, settings: LearnerSettings, *, with_values: bool, imitates: bool) -> Build:
    """The command that makes the learner of a model on other ranks."""
    return Build(
        kind=_path_of(type(model)),
        config=_path_of(type(model.config)),
        values=model.config.to_json_string(use_diff=False),
        attention=model.config._attn_implementation,
        dtype=_name_of(model.dtype),
        buffers={name: _name_of(buffer.dtype) for name, buffer in model.named_buffers(remove_duplicate=False)},
        settings=as_plain(settings),
        with_values=with_values,
        imitates=imitates,
        threads=torch.get_num_threads(),
    )


def empty_model(build: Build) -> Any:
    """A model of the same kind, without memory for weights."""
    config = _class_of(build.config).from_dict(msgspec.json.decode(build.values))
    config._attn_implementation = build.attention
    with torch.device("meta"):
        model = _class_of(build.kind)(config)
    for name, dtype in build.buffers.items():
        owner, _, own = name.rpartition(".")
        buffers = model.get_submodule(owner)._buffers
        buffers[own] = buffers[own].to(getattr(torch, dtype))
    return with_dtype(model, getattr(torch, build.dtype)).eval()


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _path_of(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def _class_of(path: tuple[str, str]) -> Any:
    return getattr(import_module(path[0]), path[1])
