"""Mixture of depths: a router decides which tokens a layer computes."""

import math
from collections.abc import Mapping
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from plugformer.interfaces import Residual, ResidualContext, Sublayer


class MixtureOfDepths(Residual):
    """x + r f(x) at the tokens that a layer takes, x at the others; x + f(x) is the layer with pre-norm.

    Mixture-of-Depths, Raposo et al. 2024: https://arxiv.org/abs/2404.02258. A router gives each token a
    score r. In training, the layer takes the tokens of each sequence with the highest scores (equation 1).
    Decoding cannot know the scores of later tokens, and takes every token with r > 0. That both choices agree
    is learned: `auxiliary_loss` is the cross-entropy of r as a logit with the choice of training (section
    3.5, the first method).

    Args:
        model: Names the sublayers and makes their norms.
        capacity: Share of the tokens of a sequence that the layer takes in training.
        balance: Factor on the auxiliary loss.
    """

    takes = "by token"

    def __init__(
        self,
        model: ResidualContext,
        *,
        capacity: Annotated[
            float, Field(gt=0, le=1, description="Share of a sequence's tokens taken in training.")
        ] = 0.5,
        balance: Annotated[float, Field(ge=0, description="Factor on the auxiliary loss.")] = 0.01,
    ) -> None:
        super().__init__()
        self.capacity, self.balance = capacity, balance
        self.norms = nn.ModuleDict({name: model.norm() for name in model.sublayers})
        self.router = nn.Linear(model.width, 1)

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayers: Mapping[str, Sublayer]
    ) -> Float[Tensor, "batch length width"]:
        """Returns the stream after the layer."""
        scores = self.router(x).squeeze(-1)
        tokens = scores > 0
        if self.training:
            real = next(iter(sublayers.values())).real
            tokens = best(scores, real, self.capacity)
            logits, taken = scores[real], tokens[real].to(scores.dtype)
            self.auxiliary_loss = self.balance * binary_cross_entropy_with_logits(logits, taken)
        most = math.ceil(self.capacity * x.shape[1]) if self.training else None
        y = x
        for name, sublayer in sublayers.items():
            y = sublayer.added(y, self.norms[name](y), tokens, most=most)
        return torch.addcmul(x, scores[..., None], y - x)


def best(
    scores: Float[Tensor, "batch length"], real: Bool[Tensor, "batch length"], share: float
) -> Bool[Tensor, "batch length"]:
    """Returns a share of each sequence's real tokens, rounded up: those with the highest scores."""
    order = scores.masked_fill(~real, -math.inf).argsort(dim=1, descending=True, stable=True)
    ranks = order.argsort(dim=1)  # of each token; the first of equal ones ranks first
    return ranks < (share * real.sum(dim=1, keepdim=True)).ceil()
