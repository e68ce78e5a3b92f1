"""The loss of one micro-batch: the policy loss and the terms that the config adds."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from mage.config.sections import LearnerConfig
from mage.learners.batch import MicroBatch
from mage.learners.forward import PolicyModel
from mage.learners.lora import Adapter
from mage.learners.losses import divergence, evenness, imitation_loss, importance_weights, policy_loss
from mage.learners.metric_sums import MetricSums
from mage.types import Divergence


class MicroLoss:
    """The differentiable loss of a micro-batch; its metrics are added to `MetricSums`.

    The reference of the divergence is a frozen copy of the model, or the model without its adapter.
    """

    def __init__(
        self,
        policy: PolicyModel,
        value_head: torch.nn.Linear | None,
        *,
        adapter: Adapter | None,
        reference: PolicyModel | None,
        imitates: bool,
        is_lagged: bool,
    ) -> None:
        self._policy = policy
        self._value_head = value_head
        self._adapter = adapter
        self._reference = reference
        self.imitates = imitates
        """Whether a teacher chose the tokens."""
        self.is_lagged = is_lagged
        """Whether samples may come from older weights than those before the update."""

    def set_temperature(self, temperature: float) -> None:
        """Set the temperature that tokens were sampled at, in the reference too."""
        for policy in (self._policy, self._reference):
            if policy is not None:
                policy.set_temperature(temperature)

    def __call__(
        self, batch: MicroBatch, config: LearnerConfig, bonus: float, sums: MetricSums, *, is_first: bool
    ) -> Tensor:
        """The loss with an entropy bonus; with `is_first`, engine and learner log-probabilities are compared too."""
        states_BTD = self._policy.states(batch)
        hidden_ND = states_BTD[batch.rows_N, batch.before_N]
        regularisers = (evenness,) if config.entropy_even else ()
        logprobs_N, entropy_N, *evenness_N = self._policy.read(hidden_ND, batch, regularisers)
        loss_N = self._policy_loss(logprobs_N, batch, config, sums, is_first=is_first)
        shares_N = torch.where(batch.play_N, 1.0, config.entropy_reflect)
        bonus_N = entropy_N + config.entropy_even * evenness_N[0] if evenness_N else entropy_N
        loss_N = loss_N - bonus * shares_N * bonus_N
        if config.divergence is not Divergence.NONE:
            kl_N = divergence(config.divergence, logprobs_N, self._reference_logprobs(batch))
            loss_N = loss_N + config.divergence_weight * kl_N
            sums.tensor("learner/kl", kl_N)
        if self._value_head is not None:
            error_N = (self._value_head(hidden_ND.float()).squeeze(1) - batch.returns_N).square()
            loss_N = loss_N + config.value_weight * error_N
            sums.tensor("learner/value_error", error_N)
        sums.tensor("entropy/play", entropy_N[batch.played_M])
        sums.tensor("entropy/reflect", entropy_N[batch.reflected_M])
        sums.add("learner/tokens", batch.num_tokens)
        sums.add("learner/trained_tokens", len(batch.targets_N))
        loss = (loss_N * batch.weights_N).sum()
        if config.prediction_weight > 0:
            surprise_P = -self._policy.predict(states_BTD, batch)
            loss = loss + config.prediction_weight * batch.text_share * surprise_P.sum()
            sums.tensor("learner/prediction_loss", surprise_P)
        return loss

    def _policy_loss(
        self, logprobs_N: Tensor, batch: MicroBatch, config: LearnerConfig, sums: MetricSums, *, is_first: bool
    ) -> Tensor:
        """The policy loss of each trained token.

        The ratio is to the engine's probabilities. Where samples may be older it is to the learner's own before the
        update, and importance weights correct for the difference of these two. In the only optimizer step of an update
        the learner's own are those at hand.
        """
        if self.imitates:
            sums.tensor("learner/imitation_loss", -logprobs_N[batch.played_M])
            return imitation_loss(logprobs_N, batch.advantages_N)
        old_N, advantages_N = batch.logprobs_N, batch.advantages_N
        if self.is_lagged:
            old_N = batch.proximal_N if len(batch.proximal_N) else logprobs_N.detach()
            importance_N, truncated_N = importance_weights(old_N, batch.logprobs_N)
            advantages_N = importance_N * advantages_N
            sums.tensor("lag/truncated_share", truncated_N.float())
        loss_N, clipped_N = policy_loss(
            logprobs_N,
            old_N,
            advantages_N,
            clip_low=config.clip_low,
            clip_high=config.clip_high,
            dual_clip=config.dual_clip,
        )
        sums.tensor("learner/clip_share", clipped_N.float())
        if is_first:
            sums.engine_gap(logprobs_N.detach() - batch.logprobs_N)
        return loss_N

    @torch.no_grad()
    def _reference_logprobs(self, batch: MicroBatch) -> Tensor:
        """Log-probabilities of the trained tokens under the reference."""
        if self._adapter is None:
            assert self._reference is not None
            return self._reference.read(self._reference.hidden(batch), batch)[0]
        with self._adapter.disabled():
            return self._policy.read(self._policy.hidden(batch), batch)[0]


def frozen_copy(model: Any) -> Any:
    """A frozen copy of a model: the reference of the divergence penalty."""
    return copy.deepcopy(model).requires_grad_(False)
