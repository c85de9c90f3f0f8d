"""The multi-label head: for each label whether it applies to a sequence, from its pooled hidden states."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from plugformer.interfaces import Likelihoods, OutputType
from plugformer_plugins.head.pooling import Hidden, Pooled, Real


class MultiLabelClassifier(Pooled):
    """A linear map of the pooled hidden states, and a binary cross-entropy for each label."""

    output_types = frozenset({OutputType.LABELS})

    def loss(
        self, hidden: Hidden, targets: Float[Tensor, "batch outputs"], real: Real
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the cross-entropies summed over labels and sequences, and the number of sequences.

        In training mode targets are smoothed towards one half.
        """
        smoothing = self.label_smoothing if self.training else 0.0
        smoothed = targets * (1 - smoothing) + smoothing / 2
        loss = functional.binary_cross_entropy_with_logits(
            self.logits(hidden, real), smoothed, reduction="sum"
        )
        return loss, torch.tensor(len(targets), device=targets.device)

    def likelihoods(self, hidden: Hidden, targets: Float[Tensor, "batch outputs"], real: Real) -> Likelihoods:
        """Returns the joint likelihood of each sequence's labels, and whether all are right."""
        logits = self.logits(hidden, real).float()
        losses = functional.binary_cross_entropy_with_logits(logits, targets.float(), reduction="none")
        right = ((logits >= 0) == (targets > 0.5)).all(dim=-1).long()
        return Likelihoods(-losses.sum(dim=-1), torch.ones_like(right), right)
