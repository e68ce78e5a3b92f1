"""A learner on several ranks, as the process of the run sees it: rank 0."""

from __future__ import annotations

import atexit
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar

from safetensors import safe_open
from torch import Tensor

from mage.learners.load_weights import LearnError, RankError
from mage.learners.local import ONE_FILE
from mage.learners.settings import LearnerSettings
from mage.learners.sharded.cards import is_torchrun
from mage.learners.sharded.commands import (
    END,
    Command,
    Fetch,
    Find,
    Load,
    Message,
    Read,
    Restore,
    Save,
    SetSettings,
    Update,
    as_plain,
    build_of,
    encode,
)
from mage.learners.sharded.files import stored
from mage.learners.sharded.gathered import Gathered
from mage.learners.sharded.rank_learner import ALIKE, BASE, PARAMETER, WEIGHTS, RankLearner, without_threads
from mage.learners.sharded.ranks import Ranks, spawn
from mage.learners.sharded.torchrun import lead
from mage.learners.state_files import SHARDS
from mage.types import Sample
from mage.weights import LearnerState, PolicyWeights

T = TypeVar("T")
_FAILURE_S = 5.0
"""Time for a rank that ends to say why."""


class ShardedLearner:
    """A `Learner` whose weights, gradients and optimizer are sharded over ranks; states and files are those of one.

    Learners of one process share its ranks. One with another number of ranks ends those before it.
    """

    def __init__(self, model: Any, settings: LearnerSettings, *, with_values: bool, imitates: bool) -> None:
        self._pool = pool(settings.config.ranks, settings.device or next(model.parameters()).device.type)
        command = build_of(model, settings, with_values=with_values, imitates=imitates)
        self._number = self._pool.take_number()
        weakref.finalize(self, self._pool.unused.append, self._number)

        def build() -> RankLearner:
            return RankLearner(model, settings, self._pool.ranks, with_values=with_values, imitates=imitates)

        self._own = self._together(command, build)

    @property
    def workers(self) -> tuple[int, ...]:
        """The process ids of the ranks that this process has started."""
        return self._pool.ranks.workers

    @property
    def num_tokens(self) -> int:
        """Tokens put through the model in updates so far."""
        return self._own.num_tokens

    @property
    def has_values(self) -> bool:
        """Whether there is a value head."""
        return self._own.has_values

    @property
    def weights_file(self) -> str:
        """The name of the file in which `save` writes the trained weights."""
        return self._own.weights_file

    def set_settings(self, settings: LearnerSettings) -> None:
        """Use other settings from now on; those that the model was built with must be the same."""
        self._together(SetSettings(as_plain(settings)), lambda: self._own.set_settings(without_threads(settings)))

    def update(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Update the weights on one batch and return metrics; see `LocalLearner.update`."""
        return self._together(Update(list(samples)), lambda: self._own.update(samples))

    def evaluate_tokens(self, samples: Sequence[Sample]) -> list[list[tuple[float, float]]]:
        """The log-probability and the entropy of each trained token under the current weights."""
        return self._together(Read("tokens", list(samples)), lambda: self._own.evaluate_tokens(samples))

    def values(self, samples: Sequence[Sample]) -> list[list[float]]:
        """The value head's output at each trained token."""
        return self._together(Read("values", list(samples)), lambda: self._own.values(samples))

    def weights(self, trained: Mapping[str, Tensor] | None = None) -> PolicyWeights:
        """The weights to publish: the current ones, or those with `trained`, the weights of another state."""
        adapter = self._own.adapter
        if adapter is None:
            return PolicyWeights(self._gathered_when_read(WEIGHTS) if trained is None else self._with_tied(trained))
        factors = adapter.factors(self._fetch(WEIGHTS) if trained is None else trained)
        return PolicyWeights(self._gathered_when_read(BASE), factors)

    def state(self) -> LearnerState:
        """What an exact continuation needs, whole, in memory of the host."""
        tensors = self._gathered(list(self._own.others()), to_host=True)
        return LearnerState(self._whole_weights(), tensors, self.numbers())

    def numbers(self) -> dict[str, float]:
        """The counters of the state."""
        return self._own.numbers()

    def restore(self, state: LearnerState) -> None:
        """Continue from a state of any number of ranks, in memory."""
        given = self._matched(state.weights, state.tensors)
        shapes = [(name, tuple(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in given.items()]
        command = Restore(shapes, dict(state.numbers))
        self._together(command, lambda: self._own.receive(command, given))

    def restore_files(self, folder: Path, numbers: Mapping[str, float]) -> None:
        """Continue from the files of a state of any number of ranks; each rank reads what it needs."""
        found = stored(folder) | stored(folder / SHARDS)
        with safe_open(folder / self.weights_file, framework="pt") as file:
            weights = {name: found.pop(name) for name in file.keys()}  # noqa: SIM118
        names = {name: each.name for name, each in self._matched(weights, found).items()}
        command = Load(str(folder.resolve()), names, dict(numbers))
        self._together(command, lambda: self._own.load(command))

    def save(self, folder: Path, base: str) -> None:
        """Write the model in Hugging Face layout, or the adapter as PEFT does, with the name of its base."""
        weights = self._whole_weights()
        if self._own.adapter is None:
            self._own.model.save_pretrained(folder, state_dict=weights, max_shard_size=ONE_FILE)
        else:
            self._own.adapter.save(folder, base, weights)

    def check_folder(self, folder: Path) -> None:
        """Raise a `RecordError` where a rank does not see a folder of rank 0."""
        with NamedTemporaryFile(dir=folder, prefix=".seen-by-all-ranks-") as file:
            path = Path(file.name).resolve()
            self._together(Find(str(path)), lambda: self._own.find(path))

    def save_shards(self, folder: Path) -> None:
        """Write all tensors of the state but the weights, each rank its part; no rank has them whole."""
        self._together(Save(str(folder.resolve())), lambda: self._own.save_shards(folder))

    def _whole_weights(self) -> dict[str, Tensor]:
        weights = self._fetch(WEIGHTS, to_host=True)
        return weights if self._own.adapter else self._with_tied(weights)

    def _with_tied(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights under every name that the model has for them."""
        by_first = {self._own.tied[name]: tensor for name, tensor in weights.items() if name in self._own.tied}
        missing = [name for name, first in self._own.tied.items() if first not in by_first]
        unknown = [name for name in weights if name not in self._own.tied]
        if missing or unknown:
            raise LearnError(f"the weights do not fit the model: unknown {unknown[:3]}, missing {missing[:3]}")
        return {name: by_first[first] for name, first in self._own.tied.items()}

    def _fetch(self, prefix: str, *, to_host: bool = False) -> dict[str, Tensor]:
        """The tensors of a prefix, gathered; tied ones once."""
        names = [name for name in self._own.tensors() if name.startswith(prefix)]
        if prefix == WEIGHTS and self._own.adapter is None:
            names = [name for name in names if self._own.tied[name.removeprefix(WEIGHTS)] == name.removeprefix(WEIGHTS)]
        return {name.removeprefix(prefix): tensor for name, tensor in self._gathered(names, to_host=to_host).items()}

    def _gathered_when_read(self, prefix: str) -> Gathered:
        """The tensors of a prefix, which are gathered when they are read."""
        size = self._own.model.dtype.itemsize
        own = {name.removeprefix(prefix): t for name, t in self._own.tensors().items() if name.startswith(prefix)}
        tied = {_without_layer(name): _without_layer(first) for name, first in self._own.tied.items()}

        def gather(names: Sequence[str]) -> dict[str, Tensor]:
            found = self._gathered([prefix + name for name in names], to_host=False)
            return {name.removeprefix(prefix): tensor for name, tensor in found.items()}

        return Gathered({name: size * t.numel() for name, t in own.items()}, {name: tied[name] for name in own}, gather)

    def _gathered(self, names: list[str], *, to_host: bool) -> dict[str, Tensor]:
        return self._together(Fetch(names), lambda: self._own.fetch(names, to_host=to_host))

    def _matched(self, weights: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors of a state, or what is known of those in files, as parameters and moments; checked."""
        adapter = self._own.adapter
        weights = adapter.by_parameter(weights) if adapter else self._with_tied(weights)
        found: dict[str, Any] = {}
        trained = self._own.trained()
        for name, parameter in trained.items():
            source = tensors.get(f"master/{name}", tensors.get(name, weights.get(name)))
            if source is None:
                raise LearnError(f"the weights do not fit the model: missing {name}")
            if source.shape != parameter.shape:
                shape, needed = tuple(source.shape), tuple(parameter.shape)
                raise LearnError(f"the weights do not fit the model: {name} has shape {shape}, not {needed}")
            found[PARAMETER + name] = source
        kinds = {name: name.partition("/") for name in tensors}
        moments = [name for name, (kind, _, own) in kinds.items() if kind != "master" and own in trained]
        return found | {name: tensors[name] for name in moments}

    def _together(self, command: Command, own: Callable[[], T]) -> T:
        """Tell the other ranks what to do, and do rank 0's part of it."""
        return self._pool.together(Message(command, self._number, self._pool.take_unused()), own)


def _without_layer(name: str) -> str:
    """The name of a weight in the model without an adapter.

    >>> _without_layer("model.layers.0.mlp.up_proj.base_layer.weight")
    'model.layers.0.mlp.up_proj.weight'
    """
    return name.replace(".base_layer.", ".")


class RankPool:
    """The ranks of this process; several learners may use them in turn."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self.unused: deque[int] = deque()
        """Learners that exist no more on rank 0, added at any time; the other ranks are told with the next message."""
        self.is_usable = True
        self._num_learners = 0

    def take_number(self) -> int:
        """The number of a new learner."""
        self._num_learners += 1
        return self._num_learners

    def take_unused(self) -> list[int]:
        """Learners that the other ranks must drop."""
        return [self.unused.popleft() for _ in range(len(self.unused))]

    def together(self, message: Message, own: Callable[[], T]) -> T:
        """Tell the other ranks what to do, and do rank 0's part of it."""
        if not self.is_usable:
            raise RankError("the ranks of this learner have ended")
        self.is_usable = False  # until all have done it
        try:
            self._raise_ended(0.0)
            self.ranks.broadcast(encode(message))
            done = own()
        except ALIKE:
            self.is_usable = True
            raise
        except RuntimeError:
            self._raise_ended(_FAILURE_S)
            raise
        self.is_usable = True
        return done

    def _raise_ended(self, wait_s: float) -> None:
        ended = self.ranks.failure(wait_s)
        if ended is not None:
            raise RankError(ended) from None

    def close(self) -> None:
        """End the other ranks."""
        self.ranks.close(END if self.is_usable else None)
        self.is_usable = False


_pools: list[RankPool] = []


def pool(size: int, device: str) -> RankPool:
    """The ranks of this process: those that there are, or new ones where their number is another."""
    for one in _pools:
        if one.is_usable and (one.ranks.size, one.ranks.device.type) == (size, device):
            return one
    close_pools()
    _pools.append(RankPool(lead(size, device) if is_torchrun() else spawn(size, device)))
    return _pools[-1]


def close_pools() -> None:
    """End all ranks of this process but rank 0."""
    while _pools:
        _pools.pop().close()


atexit.register(close_pools)
