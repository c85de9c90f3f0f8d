"""The regressor: a number for a sequence, from its pooled hidden states."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plugformer.interfaces import Likelihoods, OutputType
from plugformer_plugins.head.pooling import Hidden, Pooled, Real


class Regressor(Pooled):
    """A linear map of the pooled hidden states, and the squared error."""

    output_types = frozenset({OutputType.NUMBER})

    def loss(
        self, hidden: Hidden, targets: Float[Tensor, " batch"], real: Real
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the squared errors summed over the sequences, and their number."""
        errors = self.logits(hidden, real)[:, 0] - targets
        return errors.square().sum(), torch.tensor(len(targets), device=targets.device)

    def likelihoods(self, hidden: Hidden, targets: Float[Tensor, " batch"], real: Real) -> Likelihoods:
        """Returns the negative squared error of each sequence; no number is right or wrong."""
        errors = (self.logits(hidden, real)[:, 0] - targets).float()
        ones = torch.ones(len(targets), dtype=torch.int64, device=targets.device)
        return Likelihoods(-errors.square(), ones, correct=None)
