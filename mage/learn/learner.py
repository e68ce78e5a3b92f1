"""The learner: samples in, better weights out."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from mage.errors import ConfigError, MageError
from mage.learn.batch import MicroBatch, micro_batches
from mage.learn.losses import divergence, floor_factor, policy_loss, read_logits
from mage.learn.tally import Tally
from mage.seeds import stream
from mage.types import Divergence, Sample, Weight


class LearnError(MageError):
    """Learning went wrong and does not mend itself."""


class LearnerSettings(msgspec.Struct, frozen=True):
    """How to learn."""

    lr: float
    warmup: int
    """Updates over which the learning rate rises."""
    decay: bool
    """Let the learning rate fall to zero over the run."""
    weight_decay: float
    grad_clip: float
    epochs: int
    """Passes over each batch."""
    minibatches: int
    """Optimizer steps per pass."""
    token_budget: int
    """Positions per micro-batch; memory, not results, depends on it."""
    weight: Weight
    clip_low: float
    clip_high: float
    dual_clip: float
    divergence: Divergence
    divergence_weight: float
    entropy_start: float
    entropy_end: float
    """The entropy bonus goes from start to end over the run."""
    entropy_reflect: float
    """What a reflection's entropy counts for, relative to that of play turns."""
    entropy_floor: float
    """The bonus is raised while the normalised entropy of play turns is under this; 0 is off."""
    entropy_rate: float
    value_weight: float
    """Weight of the value loss, for estimators that use values."""
    temperature: float
    """The temperature that the samples were drawn with."""
    steps: int
    """Length of the run, for schedules."""
    seed: int
    max_skips: int
    """Updates in a row that may be skipped because something was not finite."""


class Learner:
    """Clipped policy gradient on a causal language model. Parameters are float32."""

    def __init__(self, model: Any, settings: LearnerSettings, *, with_values: bool = False) -> None:
        _check(settings)
        self.model = model
        self._settings = settings
        self._has_plain_head = _has_plain_head(model)
        self._device = next(model.parameters()).device
        needs_reference = settings.divergence is not Divergence.NONE
        self._reference = copy.deepcopy(model).requires_grad_(False) if needs_reference else None
        self._value_head = torch.nn.Linear(model.config.hidden_size, 1, device=self._device) if with_values else None
        if self._value_head is not None:
            torch.nn.init.zeros_(self._value_head.weight)
            torch.nn.init.zeros_(self._value_head.bias)
        self._optimizer = torch.optim.AdamW(
            [parameter for _, parameter in self._named()], lr=settings.lr, weight_decay=settings.weight_decay
        )
        self.num_updates = 0
        self._factor = 1.0
        self._skips = 0

    @property
    def has_values(self) -> bool:
        """Whether there is a value head."""
        return self._value_head is not None

    def weights(self) -> Mapping[str, Tensor]:
        """The model's parameters by name, to be published or saved."""
        weights: Mapping[str, Tensor] = self.model.state_dict()
        return weights

    def update(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Improve the weights by one batch and report what happened. An update that is not finite is skipped."""
        settings = self._settings
        self.model.train()
        tally = Tally()
        rate, bonus = self._rate(), self._bonus()
        order = list(range(len(samples)))
        for epoch in range(settings.epochs):
            if settings.minibatches > 1:
                stream(settings.seed, "minibatches", self.num_updates, epoch).shuffle(order)
            for part in range(settings.minibatches):
                chosen = [samples[i] for i in order[part :: settings.minibatches]]
                if chosen:
                    self._optimise(chosen, tally, is_first=epoch == 0 and part == 0)
        report = tally.report()
        entropy = report.get("entropy/play", settings.entropy_floor)
        self._factor = floor_factor(self._factor, entropy, settings.entropy_floor, settings.entropy_rate)
        self.num_updates += 1
        return {**report, "learner/lr": rate, "learner/entropy_bonus": bonus}

    @torch.no_grad()
    def values(self, samples: Sequence[Sample]) -> list[list[float]]:
        """What the value head expects at each trained token, aligned with the samples' positions."""
        assert self._value_head is not None
        self.model.eval()
        found: list[list[float]] = []
        for sample in samples:
            (batch,) = micro_batches([sample], self._settings.weight, self._settings.token_budget)
            hidden_ND = self._hidden(self.model, batch.to(self._device))
            found.append(self._value_head(hidden_ND).squeeze(1).tolist())
        return found

    def _optimise(self, samples: Sequence[Sample], tally: Tally, *, is_first: bool) -> None:
        settings = self._settings
        self._optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for batch in micro_batches(samples, settings.weight, settings.token_budget):
            loss = self._loss(batch.to(self._device), tally, is_first=is_first)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        parameters = [p for _, p in self._named() if p.grad is not None]
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, settings.grad_clip))
        if not (math.isfinite(norm) and math.isfinite(total)):
            self._skip()
            tally.add("learner/skipped_updates", 1.0)
            return
        self._skips = 0
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate()
        self._optimizer.step()
        tally.mean("learner/loss", total, 1)
        tally.mean("learner/grad_norm", norm, 1)

    def _skip(self) -> None:
        self._skips += 1
        if self._skips > self._settings.max_skips:
            raise LearnError(
                f"the loss or its gradient was not finite in {self._skips} updates in a row; "
                f"lower learner.lr (now {self._settings.lr}) or learner.grad_clip ({self._settings.grad_clip})"
            )

    def _loss(self, batch: MicroBatch, tally: Tally, *, is_first: bool) -> Tensor:
        settings = self._settings
        hidden_ND = self._hidden(self.model, batch)
        logprobs_N, entropy_N = self._read(self.model, hidden_ND, batch)
        loss_N, clipped_N = policy_loss(
            logprobs_N,
            batch.logprobs_N,
            batch.advantages_N,
            clip_low=settings.clip_low,
            clip_high=settings.clip_high,
            dual_clip=settings.dual_clip,
        )
        shares_N = torch.where(batch.play_N, 1.0, settings.entropy_reflect)
        loss_N = loss_N - self._bonus() * shares_N * entropy_N
        if self._reference is not None:
            with torch.no_grad():
                reference_N, _ = self._read(self._reference, self._hidden(self._reference, batch), batch)
            kl_N = divergence(settings.divergence, logprobs_N, reference_N)
            loss_N = loss_N + settings.divergence_weight * kl_N
            tally.tensor("learner/kl", kl_N)
        if self._value_head is not None:
            error_N = (self._value_head(hidden_ND).squeeze(1) - batch.returns_N).square()
            loss_N = loss_N + settings.value_weight * error_N
            tally.tensor("learner/value_error", error_N)
        tally.tensor("learner/clip_share", clipped_N.float())
        tally.tensor("entropy/play", entropy_N[batch.play_N])
        tally.tensor("entropy/reflect", entropy_N[~batch.play_N])
        if is_first:
            tally.engine_gap(logprobs_N.detach() - batch.logprobs_N)
        tally.add("learner/tokens", batch.num_tokens)
        tally.add("learner/trained_tokens", len(batch.targets_N))
        return (loss_N * batch.weights_N).sum()

    def _hidden(self, model: Any, batch: MicroBatch) -> Tensor:
        """Hidden states where trained tokens are predicted: logits are computed nowhere else."""
        states_BTD = model.model(input_ids=batch.tokens_BT, use_cache=False).last_hidden_state
        hidden_ND: Tensor = states_BTD[batch.rows_N, batch.before_N]
        return hidden_ND

    def _read(self, model: Any, hidden_ND: Tensor, batch: MicroBatch) -> tuple[Tensor, Tensor]:
        if self._has_plain_head:
            logits_NV = model.lm_head(hidden_ND)
        else:
            logits_NV = model(input_ids=batch.tokens_BT, use_cache=False).logits[batch.rows_N, batch.before_N]
        return read_logits(logits_NV.float() / self._settings.temperature, batch.targets_N, batch.allowed_NK)

    def _bonus(self) -> float:
        """The entropy bonus now: annealed over the run, raised while entropy is under its floor."""
        settings = self._settings
        done = min(1.0, self.num_updates / max(1, settings.steps - 1))
        return self._factor * (settings.entropy_start + (settings.entropy_end - settings.entropy_start) * done)

    def _rate(self) -> float:
        settings = self._settings
        rise = min(1.0, (self.num_updates + 1) / max(1, settings.warmup))
        fall = max(0.0, 1.0 - self.num_updates / max(1, settings.steps)) if settings.decay else 1.0
        return settings.lr * rise * fall

    def _named(self) -> list[tuple[str, torch.nn.Parameter]]:
        named = [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]
        if self._value_head is not None:
            named += [(f"value_head.{n}", p) for n, p in self._value_head.named_parameters()]
        return named

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]:
        """All that an exact continuation needs beside the weights: tensors and numbers."""
        tensors = {f"value_head.{n}": t for n, t in (self._value_head.state_dict() if self._value_head else {}).items()}
        for name, parameter in self._named():
            for key, value in self._optimizer.state.get(parameter, {}).items():
                tensors[f"{key}/{name}"] = value
        return tensors, {"num_updates": self.num_updates, "entropy_factor": self._factor, "skips": self._skips}

    def restore(
        self, weights: Mapping[str, Tensor], tensors: Mapping[str, Tensor], numbers: Mapping[str, float]
    ) -> None:
        """Go on exactly where `state` was taken."""
        load_weights(self.model, weights)
        if self._value_head is not None:
            self._value_head.load_state_dict({n: tensors[f"value_head.{n}"] for n in self._value_head.state_dict()})
        self._optimizer.state.clear()
        for name, parameter in self._named():
            saved = {k.removesuffix(f"/{name}"): t.clone() for k, t in tensors.items() if k.endswith(f"/{name}")}
            if saved:
                self._optimizer.state[parameter] = saved
        self.num_updates = int(numbers["num_updates"])
        self._factor = numbers["entropy_factor"]
        self._skips = int(numbers["skips"])


def _check(settings: LearnerSettings) -> None:
    """Refuse settings under which nothing, or not what was asked for, would be learned."""
    if settings.temperature == 0.0:
        raise ConfigError("agent.temperature = 0: a certain policy has no gradient; train at a temperature above 0")
    if settings.entropy_floor > 0.0 and not (settings.entropy_start > 0.0 and settings.entropy_end > 0.0):
        raise ConfigError(
            f"learner.entropy_floor = {settings.entropy_floor} raises the entropy bonus, "
            "so learner.entropy_start and learner.entropy_end must be above 0"
        )


@torch.no_grad()
def _has_plain_head(model: Any) -> bool:
    """Whether logits are the head's output and nothing more; caps and scales need a plain forward pass.

    A cap hardly shows while logits are small, so the config is asked as well.
    """
    if getattr(model.config, "final_logit_softcapping", None) is not None:
        return False
    ids_BT = torch.arange(min(8, model.config.vocab_size), device=next(model.parameters()).device)[None]
    states_BTD = model.model(input_ids=ids_BT, use_cache=False).last_hidden_state
    logits_BTV = model(input_ids=ids_BT, use_cache=False).logits
    return torch.allclose(model.lm_head(states_BTD), logits_BTV, rtol=1e-4, atol=1e-5)


def load_weights(model: Any, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model in place. Tied weights may be given once, as they are saved."""
    own: Mapping[str, Tensor] = model.state_dict()
    given = {own[name].data_ptr() for name in weights if name in own}
    unknown = [name for name in weights if name not in own]
    missing = [name for name, tensor in own.items() if name not in weights and tensor.data_ptr() not in given]
    if unknown or missing:
        raise LearnError(f"the weights do not fit the model: unknown {unknown[:3]}, missing {missing[:3]}")
    for name, tensor in weights.items():
        if tensor.shape != own[name].shape:
            found, needed = tuple(tensor.shape), tuple(own[name].shape)
            raise LearnError(f"the weights do not fit the model: {name} has shape {found}, not {needed}")
    model.load_state_dict(weights, strict=False)
