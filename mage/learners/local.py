"""The learner: PPO-style updates of a causal language model in this process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor

from mage.config.sections import LearnerConfig
from mage.learners.batch import MicroBatch, iter_micro_batches, largest_of, partition, split_by_sample
from mage.learners.forward import PolicyModel, checkpoint_layers, is_compiled
from mage.learners.load_weights import DivergedError, LearnError, load_weights, with_tied
from mage.learners.lora import new_adapter
from mage.learners.lora_init import ADAPTER_FILE
from mage.learners.losses import floor_factor
from mage.learners.master_weights import MasterWeights
from mage.learners.metric_sums import MetricSums
from mage.learners.micro_loss import MicroLoss, frozen_copy
from mage.learners.settings import LearnerSettings
from mage.learners.token_budget import TokenBudget
from mage.learners.workers import GradientWorkers
from mage.seeds import stream
from mage.types import Divergence, Sample
from mage.weights import LearnerState, PolicyWeights

__all__ = ["DivergedError", "LearnError", "LearnerSettings", "LocalLearner", "load_weights"]

_CUDA_MULTIPLE = 16
"""On CUDA sequences are padded to multiples of this: with fewer shapes the allocator reuses more memory."""
ONE_FILE = 2**62
"""Bytes up to which a model is saved as one file, `weights_file`: transformers would split it at 50 GB."""
MAX_GROWTH = 1.25
"""An optimizer step that multiplies the norm of the weights by more than this has destroyed them (docs/method.md)."""
MAX_ADAPTER_GROWTH = 4.0
"""The same for the weights of an adapter, half of which begin at zero."""


class LocalLearner:
    """Clipped policy gradient on a causal language model, which is changed in place.

    With `imitates` the loss is cross-entropy on the trained tokens, which a teacher chose.
    Where the model computes in bfloat16, trained parameters have float32 master weights. With
    `lora_rank` only an adapter is trained, and the model without it is the reference.
    """

    def __init__(
        self,
        model: Any,
        settings: LearnerSettings,
        *,
        with_values: bool = False,
        imitates: bool = False,
        device: torch.device | None = None,
    ) -> None:
        """`device` is where it computes; by default where the model is."""
        self.model = model
        self._settings = settings
        config = settings.config
        self._device = device or next(model.parameters()).device
        self._is_cuda = self._device.type == "cuda"
        self._adapter = new_adapter(model, config, settings.seed)
        compiled = is_compiled(config.compile, self._device)
        is_copied = config.divergence is not Divergence.NONE and self._adapter is None
        reference = self._policy_model(frozen_copy(model), compiled=compiled) if is_copied else None
        if config.gradient_checkpointing:
            checkpoint_layers(model)
        self._policy = self._policy_model(model, compiled=compiled)
        self._value_head = torch.nn.Linear(model.config.hidden_size, 1, device=self._device) if with_values else None
        if self._value_head is not None:
            torch.nn.init.zeros_(self._value_head.weight)
            torch.nn.init.zeros_(self._value_head.bias)
        self._loss = MicroLoss(
            self._policy,
            self._value_head,
            adapter=self._adapter,
            reference=reference,
            imitates=imitates,
            is_lagged=settings.is_lagged,
        )
        self._place(reference)
        self._master_weights = MasterWeights(self._named_parameters(), lr=config.lr, weight_decay=config.weight_decay)
        parameters = [parameter for _, parameter in self._named_parameters()]
        # In bfloat16 gradients are added in float32 one by one, and an adapter is switched off for its reference.
        is_shared = self._adapter is None and not compiled and all(p.dtype is torch.float32 for p in parameters)
        self._workers = GradientWorkers(parameters, settings.workers) if is_shared and settings.workers > 1 else None
        self.num_updates = 0
        self.num_tokens = 0
        """Tokens put through the model in updates so far."""
        self._factor = 1.0
        self._skips = 0
        self._budget = TokenBudget(config.token_budget, self._device)

    def _policy_model(self, model: Any, *, compiled: bool) -> PolicyModel:
        """A model as the loss uses it; on ranks it has no weights yet."""
        return PolicyModel(model, self._settings.temperature, compiled=compiled)

    def _place(self, reference: PolicyModel | None) -> None:
        """Called once, when all modules are built and before the optimizer is; a learner of several ranks shards."""

    @property
    def has_values(self) -> bool:
        """Whether there is a value head."""
        return self._value_head is not None

    @property
    def weights_file(self) -> str:
        """The name of the file in which `save` writes the trained weights."""
        return "model.safetensors" if self._adapter is None else ADAPTER_FILE

    def weights(self, trained: Mapping[str, Tensor] | None = None) -> PolicyWeights:
        """The weights to publish: the current ones, or those with `trained`, the weights of another state."""
        if self._adapter is not None:
            return self._adapter.weights(trained)
        return PolicyWeights(self.model.state_dict() if trained is None else with_tied(self.model, trained))

    def set_settings(self, settings: LearnerSettings) -> None:
        """Use other settings from now on; those that the model was built with must be the same."""
        for name in ("lora_rank", "lora_alpha", "lora_targets", "compile", "gradient_checkpointing", "weight_decay"):
            assert getattr(settings.config, name) == getattr(self._config, name)
        self._settings = settings
        self._loss.set_temperature(settings.temperature)

    def save(self, folder: Path, base: str) -> None:
        """Write the model in Hugging Face layout, or the adapter as PEFT does, with the name of its base."""
        if self._adapter is None:
            self.model.save_pretrained(folder, max_shard_size=ONE_FILE)
        else:
            self._adapter.save(folder, base)

    def update(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Update the weights on one batch and return metrics. Steps with a non-finite loss or gradient are skipped.

        Raises a `DivergedError` where that repeats, and where the weights explode.
        """
        config = self._config
        if self._loss.is_lagged and not self._loss.imitates and config.epochs * config.minibatches > 1:
            samples = self._with_proximal(samples)
        self.model.train()
        sums = MetricSums()
        rate, bonus = self._learning_rate(), self._entropy_bonus()
        order = list(range(len(samples)))
        norms = [self._master_weights.norm()]
        self._budget.begin()
        for epoch in range(config.epochs):
            if config.minibatches > 1:
                stream(self._settings.seed, "minibatches", self.num_updates, epoch).shuffle(order)
            for part in range(config.minibatches):
                chosen = [samples[i] for i in order[part :: config.minibatches]]
                if chosen:
                    self._optimise(chosen, sums, is_first=epoch == 0 and part == 0)
                    norms.append(self._master_weights.norm())
        report = sums.report()  # waits for the device, so that the norms are there as well
        report["learner/weight_norm"] = self._checked_norm(torch.stack(norms).tolist())
        entropy = report.get("entropy/play", config.entropy_floor)
        self._factor = floor_factor(self._factor, entropy, config.entropy_floor)
        self.num_updates += 1
        self.num_tokens += int(report["learner/tokens"])
        report |= self._budget.metrics()
        self._budget.end()
        return {**report, "learner/lr": rate, "learner/entropy_bonus": bonus}

    @torch.no_grad()
    def _with_proximal(self, samples: Sequence[Sample]) -> list[Sample]:
        """The samples with log-probabilities under the present weights."""
        found = self._per_token(samples, lambda batch: self._policy.read(self._policy.hidden(batch), batch)[0])
        return [replace(sample, proximal=tuple(own)) for sample, own in zip(samples, found, strict=True)]

    @torch.no_grad()
    def values(self, samples: Sequence[Sample]) -> list[list[float]]:
        """The value head's output at each trained token, aligned with the samples' positions."""
        head = self._value_head
        assert head is not None
        return self._per_token(samples, lambda batch: head(self._policy.hidden(batch).float()).squeeze(1))

    @torch.no_grad()
    def evaluate_tokens(self, samples: Sequence[Sample]) -> list[list[tuple[float, float]]]:
        """The log-probability and the entropy of each trained token under the current weights, aligned with positions.

        Runs uncompiled, because it is called rarely and for few samples.
        """

        def read(batch: MicroBatch) -> Tensor:
            return torch.stack(self._policy.read(self._policy.hidden(batch), batch), dim=1)

        with torch.compiler.set_stance("force_eager"):
            return self._per_token(samples, read)

    def _per_token(self, samples: Sequence[Sample], compute: Callable[[MicroBatch], Tensor]) -> list[list[Any]]:
        """Rows of `compute` for each trained token of each sample."""
        self.model.eval()
        partitions = partition(samples, self._budget.value, self._multiple)
        batches = iter_micro_batches(samples, self._config.weight, partitions, self._multiple)
        rows_N = [compute(batch.to(self._device)) for batch in batches]
        return split_by_sample(samples, partitions, torch.cat(rows_N).tolist() if rows_N else [])

    def _optimise(self, samples: Sequence[Sample], sums: MetricSums, *, is_first: bool) -> None:
        """One optimizer step. Where memory runs out, it is retried once with smaller micro-batches."""
        losses = self._backward(samples, sums, is_first=is_first)
        if losses is None:
            self._halve_budget(samples)
            sums.add("learner/out_of_memory", 1.0)
            losses = self._backward(samples, sums, is_first=is_first)
        if losses is None:
            raise LearnError(
                f"out of memory again with learner.token_budget = {self._budget.value}, half of what was tried before; "
                "lower it, shorten trials, or set learner.gradient_checkpointing = true"
            )
        norm_and_losses = [self._master_weights.clip(self._config.grad_clip), *losses]
        norm, *numbers = torch.stack(norm_and_losses).tolist()  # one wait for the device, not one per micro-batch
        total = sum(numbers)
        if not (math.isfinite(norm) and math.isfinite(total)):
            self._count_skip()
            sums.add("learner/skipped_updates", 1.0)
            return
        self._skips = 0
        try:
            self._master_weights.step(self._learning_rate())
        except torch.OutOfMemoryError:
            raise LearnError(
                "out of memory: weights, gradients and the optimizer's moments do not fit together; "
                "train an adapter (learner.lora_rank) or a smaller model"
            ) from None
        sums.mean("learner/loss", total, 1)
        sums.mean("learner/grad_norm", norm, 1)

    def _backward(self, samples: Sequence[Sample], sums: MetricSums, *, is_first: bool) -> list[Tensor] | None:
        """Accumulate the gradient; return the losses of the micro-batches, or None when memory ran out.

        Metrics are added to `sums` only on success.
        """
        self._master_weights.zero_grad()
        metrics = MetricSums()
        losses: list[Tensor] = []
        partitions = partition(samples, self._budget.value, self._multiple)
        self._budget.note(largest_of(samples, partitions, self._multiple))
        try:
            is_read = self._config.prediction_weight > 0
            batches = iter_micro_batches(samples, self._config.weight, partitions, self._multiple, with_text=is_read)
            bonus = self._entropy_bonus()

            def loss_of(batch: MicroBatch, sums: MetricSums) -> Tensor:
                return self._loss(batch.to(self._device), self._config, bonus, sums, is_first=is_first)

            if self._workers is not None:
                losses = self._workers.accumulate(batches, loss_of, metrics)
                self._master_weights.accumulate()
            else:
                for batch in batches:
                    loss = loss_of(batch, metrics)
                    loss.backward()  # type: ignore[no-untyped-call]
                    self._master_weights.accumulate()
                    losses.append(loss.detach())
        except torch.OutOfMemoryError:
            return None
        sums.merge(metrics)
        return losses

    def _halve_budget(self, samples: Sequence[Sample]) -> None:
        """Free memory, and halve the size of the largest micro-batch from now on."""
        self._master_weights.zero_grad()
        if self._is_cuda:
            torch.cuda.empty_cache()
        partitions = partition(samples, self._budget.value, self._multiple)
        self._budget.halve(largest_of(samples, partitions, self._multiple))

    def _count_skip(self) -> None:
        self._skips += 1
        if self._skips > self._config.max_skips:
            raise DivergedError(
                f"the loss or its gradient was not finite in {self._skips} updates in a row; "
                f"lower learner.lr (now {self._config.lr}) or learner.grad_clip ({self._config.grad_clip})"
            )

    def _checked_norm(self, norms: Sequence[float]) -> float:
        """The last of the norms of the weights, before the update and after each of its optimizer steps."""
        limit = MAX_GROWTH if self._adapter is None else MAX_ADAPTER_GROWTH
        for before, after in pairwise(norms):
            lower = f"lower learner.lr (now {self._config.lr:g})"
            if not math.isfinite(after):
                raise DivergedError(f"the weights are not finite after an optimizer step; {lower}")
            if after > limit * before > 0:
                raise DivergedError(
                    f"the weights exploded: an optimizer step took their norm from {before:.3g} to {after:.3g}; {lower}"
                )
        return norms[-1]

    @property
    def _config(self) -> LearnerConfig:
        return self._settings.config

    @property
    def _multiple(self) -> int:
        return _CUDA_MULTIPLE if self._is_cuda else 1

    def _learning_rate(self) -> float:
        """The learning rate now."""
        return self._settings.learning_rate(self.num_updates, self.num_tokens)

    def _entropy_bonus(self) -> float:
        """The entropy bonus now: annealed over the run, raised while entropy is below its floor."""
        return self._factor * self._settings.entropy_bonus(self.num_updates, self.num_tokens)

    def _named_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        named = [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]
        if self._value_head is not None:
            named += [(f"value_head.{n}", p) for n, p in self._value_head.named_parameters()]
        return named

    def state(self) -> LearnerState:
        """What an exact continuation needs; the weights are the adapter's where there is one, else the model's."""
        weights = self.model.state_dict() if self._adapter is None else self._adapter.state()
        tensors = {f"value_head.{n}": t for n, t in (self._value_head.state_dict() if self._value_head else {}).items()}
        tensors |= self._master_weights.state()
        return LearnerState(weights, tensors, self.numbers())

    def numbers(self) -> dict[str, float]:
        """The counters of the state."""
        return {
            "num_updates": self.num_updates,
            "num_tokens": self.num_tokens,
            "entropy_factor": self._factor,
            "skips": self._skips,
            **self._budget.numbers(),
        }

    def restore(self, state: LearnerState) -> None:
        """Continue from a state, in memory or read from files."""
        weights, tensors, numbers = state.weights, state.tensors, state.numbers
        if self._adapter is None:
            load_weights(self.model, weights)
        else:
            weights = self._adapter.by_parameter(weights)
        if self._value_head is not None:
            self._value_head.load_state_dict({n: tensors[f"value_head.{n}"] for n in self._value_head.state_dict()})
        self._master_weights.restore(tensors, weights)
        self.restore_numbers(numbers)

    def restore_numbers(self, numbers: Mapping[str, float]) -> None:
        """Continue with the counters of a state."""
        self.num_updates = int(numbers["num_updates"])
        self.num_tokens = int(numbers.get("num_tokens", 0))  # earlier versions did not count them
        self._factor = numbers["entropy_factor"]
        self._skips = int(numbers["skips"])
        self._budget.restore(numbers, self._config.token_budget)
