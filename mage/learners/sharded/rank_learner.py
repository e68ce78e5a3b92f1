"""One rank's part of a sharded learner. All ranks call the same methods with the same samples, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor

from mage.errors import RecordError
from mage.learners.batch import MicroBatch, iter_micro_batches, partition
from mage.learners.forward import PolicyModel
from mage.learners.lm_head import HeadKind, head_kind
from mage.learners.load_weights import DivergedError, RankError
from mage.learners.local import LocalLearner
from mage.learners.lora import Adapter
from mage.learners.metric_sums import MetricSums
from mage.learners.settings import LearnerSettings
from mage.learners.sharded.commands import Load, Restore
from mage.learners.sharded.files import read_stored, stored, write_shards
from mage.learners.sharded.ranks import ROOT, Ranks
from mage.learners.sharded.shards import ShardedRoot, received, tied_names, whole
from mage.learners.state_files import SHARDS
from mage.types import Sample

WEIGHTS, BASE, PARAMETER = "weights/", "base/", "parameter/"
"""Prefixes of tensors of the state: trained weights, those below an adapter, and parameters that are received."""
_MASTER = "master/"
ALIKE = (DivergedError, RecordError)
"""Errors that all ranks have when one has: they are still in step."""


class RankLearner(LocalLearner):
    """The local learner on a shard of the weights, gradients and optimizer, and on a share of each batch.

    Where the model computes in bfloat16, the shards are float32 and gradients are added up in float32.
    """

    def __init__(
        self, model: Any, settings: LearnerSettings, ranks: Ranks, *, with_values: bool = False, imitates: bool = False
    ) -> None:
        self._ranks = ranks
        self._dtype: torch.dtype = model.dtype
        super().__init__(
            model, without_threads(settings), with_values=with_values, imitates=imitates, device=ranks.device
        )

    def _policy_model(self, model: Any, *, compiled: bool) -> PolicyModel:
        kind = msgspec.msgpack.encode(head_kind(model)) if self._ranks.rank == ROOT else b""
        known = HeadKind(*msgspec.msgpack.decode(self._ranks.broadcast(kind)))
        return PolicyModel(model, self._settings.temperature, compiled=compiled, kind=known)

    def _place(self, reference: PolicyModel | None) -> None:
        self.tied = tied_names(self.model)
        modules = [self.model, self._value_head, None if reference is None else reference.model]
        self._root = ShardedRoot([m for m in modules if m is not None], self._ranks, self._dtype)

    @property
    def adapter(self) -> Adapter | None:
        """The adapter that is trained; None where the whole model is."""
        return self._adapter

    def _dealt(self, samples: Sequence[Sample], rank: int) -> list[list[int]]:
        """The micro-batches of a rank: samples are dealt by length, so that all ranks have about as much to do."""
        order = sorted(range(len(samples)), key=lambda i: -len(samples[i].tokens))
        own = order[rank :: self._ranks.size]
        found = partition([samples[i] for i in own], self._budget.value, self._multiple)
        return [[own[place] for place in chosen] for chosen in found]

    def _own_batches(self, samples: Sequence[Sample]) -> list[tuple[list[int], bool]]:
        """The micro-batches of this rank, and which count: short ones fill up to the number of the busiest rank.

        Each forward pass gathers weights from all ranks, so all must make the same number of them.
        """
        num = max(len(self._dealt(samples, rank)) for rank in range(self._ranks.size))
        own = self._dealt(samples, self._ranks.rank)
        shortest = min(range(len(samples)), key=lambda i: len(samples[i].tokens))
        return [*((chosen, True) for chosen in own), *(([shortest], False) for _ in range(num - len(own)))]

    def _backward(self, samples: Sequence[Sample], sums: MetricSums, *, is_first: bool) -> list[Tensor]:
        """Accumulate the gradient of all ranks; return the loss of all.

        Where memory runs out the run ends, because the other ranks wait inside of the same pass.
        """
        self._master_weights.zero_grad()
        config, bonus = self._config, self._entropy_bonus()
        own = self._own_batches(samples)
        partitions, is_read = [chosen for chosen, _ in own], config.prediction_weight > 0
        metrics, unused = MetricSums(), MetricSums()
        total = torch.zeros((), device=self._device)
        batches = iter_micro_batches(samples, config.weight, partitions, self._multiple, with_text=is_read)
        try:
            for batch, (_, counts) in zip(batches, own, strict=True):
                given = (batch if counts else _weightless(batch)).to(self._device)
                kept = metrics if counts else unused
                loss = self._root(self._loss, given, config, bonus, kept, is_first=is_first)
                loss.backward()
                total += loss.detach()
        except torch.OutOfMemoryError:
            raise RankError(
                f"out of memory with learner.token_budget = {self._budget.value}; lower it, as with "
                f"learner.token_budget={max(1, self._budget.value // 2)}"
            ) from None
        dist.all_reduce(total)
        for content in self._ranks.gather(msgspec.msgpack.encode(metrics.numbers())):
            sums.merge(MetricSums.of(*msgspec.msgpack.decode(content)))
        return [total]

    def _per_token(self, samples: Sequence[Sample], compute: Callable[[MicroBatch], Tensor]) -> list[list[Any]]:
        self.model.eval()
        if not samples:
            return []
        own = self._own_batches(samples)
        rows_N: list[Any] = []
        batches = iter_micro_batches(samples, self._config.weight, [chosen for chosen, _ in own], self._multiple)
        for batch, (_, counts) in zip(batches, own, strict=True):
            found_N = self._root(compute, batch.to(self._device))
            rows_N += found_N.tolist() if counts else []
        self._root.reshard()  # type: ignore[operator]
        by_sample: dict[int, list[Any]] = {}
        for rank, content in enumerate(self._ranks.gather(msgspec.msgpack.encode(rows_N))):
            left = iter(msgspec.msgpack.decode(content))
            for index in (index for chosen in self._dealt(samples, rank) for index in chosen):
                by_sample[index] = [next(left) for _ in samples[index].positions]
        return [by_sample[index] for index in range(len(samples))]

    def trained(self) -> dict[str, Tensor]:
        """The trained parameters by name; they are sharded."""
        return dict(self._named_parameters())

    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the state, and those below an adapter, by name; they are sharded."""
        if self._adapter is None:
            found = {WEIGHTS + name: tensor for name, tensor in self.model.state_dict().items()}
        else:
            found = {BASE + name: tensor for name, tensor in self._adapter.base().items()}
            found |= {WEIGHTS + name: tensor for name, tensor in self._adapter.state().items()}
        if self._dtype is not torch.float32:
            found |= {_MASTER + n: p.detach() for n, p in self.model.named_parameters() if p.requires_grad}
        if self._value_head is not None:
            found |= {f"value_head.{name}": tensor for name, tensor in self._value_head.state_dict().items()}
        return found | self._master_weights.state()

    def others(self) -> dict[str, Tensor]:
        """All tensors of the state but the weights, by name; they are sharded."""
        return {name: tensor for name, tensor in self.tensors().items() if not name.startswith((WEIGHTS, BASE))}

    @torch.no_grad()
    def fetch(self, names: Sequence[str], *, to_host: bool = False) -> dict[str, Tensor]:
        """Some of the tensors, gathered one after the other; empty but on rank 0, which may move them to its host.

        Where memory runs out the run ends, because the other ranks wait for this one.
        """
        tensors = self.tensors()
        found: dict[str, Tensor] = {}
        try:
            for name in names:
                gathered = whole(tensors[name])
                if self._ranks.rank == ROOT:
                    is_model = name.startswith((WEIGHTS, BASE))
                    gathered = gathered.to(self._dtype) if is_model else gathered
                    found[name] = gathered.cpu() if to_host else gathered
        except torch.OutOfMemoryError:
            raise RankError("out of memory while weights were gathered; leave more room on this card") from None
        return found

    @torch.no_grad()
    def receive(self, command: Restore, given: dict[str, Tensor]) -> None:
        """Continue from a state that rank 0 gives."""
        tensors: dict[str, Tensor] = {}
        parameters = self.trained()
        for name, shape, dtype in command.tensors:
            room = torch.empty(shape, dtype=getattr(torch, dtype), device=self._device)
            if name in given:
                room.copy_(given[name])
            tensors[name] = received(room, parameters.get(name.partition("/")[2]))
        self._go_on(tensors, command.numbers)

    def save_shards(self, folder: Path) -> None:
        """Write this rank's part of all tensors of the state but the weights."""
        write_shards(folder, self.others(), self._ranks.group)

    @torch.no_grad()
    def load(self, command: Load) -> None:
        """Continue from the files of a state, of which each rank reads its part."""
        tensors: dict[str, Tensor] = {}
        why = ""
        try:
            for folder in (Path(command.folder), Path(command.folder) / SHARDS):
                there = stored(folder)
                names = {name: source for name, source in command.names.items() if source in there}
                own = {name: self._room(name, there[source].shape) for name, source in names.items()}
                read_stored(folder, {source: own[name] for name, source in names.items()})
                tensors |= own
            if missing := command.names.keys() - tensors.keys():
                raise RecordError(f"{command.folder} has no {min(missing)} any more")
        except RecordError as error:
            why = str(error)
        self._agree(why)
        self._go_on(tensors, command.numbers)

    def find(self, path: Path) -> None:
        """Look whether a file of rank 0 is there, as those of the run's other files must be."""
        needed = "the run directory must be on a file system that all machines have, at the same path"
        self._agree("" if path.is_file() else f"{path.parent} is not that of rank 0; {needed}")

    def _agree(self, why: str) -> None:
        """Raise the same `RecordError` on all ranks where one has a reason for it."""
        for rank, said in enumerate(self._ranks.gather(why.encode())):
            if said:
                raise RecordError(f"rank {rank} of {self._ranks.size}: {said.decode()}")

    def _room(self, name: str, shape: torch.Size) -> Tensor:
        """Room for a tensor in files: sharded as the parameter that it belongs to where it has its shape."""
        parameter = self.trained()[name.partition("/")[2]]
        return torch.empty_like(parameter) if parameter.shape == shape else torch.empty(shape)

    def _go_on(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, float]) -> None:
        """Continue with parameters and moments, by their names with prefix, and counters."""
        weights = {n.removeprefix(PARAMETER): tensor for n, tensor in tensors.items() if n.startswith(PARAMETER)}
        self._master_weights.restore({n: t for n, t in tensors.items() if not n.startswith(PARAMETER)}, weights)
        self.restore_numbers(numbers)


def without_threads(settings: LearnerSettings) -> LearnerSettings:
    """Settings for one rank: one micro-batch at a time, and nothing compiled."""
    config = settings.config.model_copy(update={"compile": False})
    return replace(settings, config=config, workers=1)


def _weightless(batch: MicroBatch) -> MicroBatch:
    """A micro-batch whose loss and gradient are zero."""
    return replace(batch, weights_N=torch.zeros_like(batch.weights_N), text_share=0.0)
