"""The regressor: a number for a sequence, from its pooled hidden states."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plugformer.interfaces import Answer, Likelihoods
from plugformer_plugins.head.pooled import Pooled


class Regressor(Pooled):
    """A linear map of the pooled hidden states, and the squared error."""

    answer_types = frozenset({Answer.NUMBER})

    def loss(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Float[Tensor, " batch"],
        real: Bool[Tensor, "batch length"],
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the squared errors summed over the sequences, and their number."""
        errors = self.logits(hidden, real)[:, 0] - targets
        return errors.square().sum(), torch.tensor(len(targets), device=targets.device)

    def likelihoods(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Float[Tensor, " batch"],
        real: Bool[Tensor, "batch length"],
    ) -> Likelihoods:
        """Returns the negative squared error of each sequence; no number is right or wrong."""
        errors = (self.logits(hidden, real)[:, 0] - targets).float()
        ones = torch.ones(len(targets), dtype=torch.int64, device=targets.device)
        return Likelihoods(-errors.square(), ones, correct=None)
