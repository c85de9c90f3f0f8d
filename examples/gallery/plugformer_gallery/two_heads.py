"""Two heads above one model: one for a label, one for a number."""

from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import Head, HeadContext, Level, Likelihoods
from plugformer_gallery.multi_task import LABEL_AND_NUMBER


class TwoHeads(Head):
    """Linear maps of the mean hidden state to the classes and to a number; their losses are added.

    MT-DNN, Liu et al. 2019, equations 3 to 6: https://arxiv.org/abs/1901.11504. Cross-entropy of the class,
    with the model's label smoothing, and squared error of the number.

    Args:
        model: Sizes of the model; its outputs are the classes and the number.
        weight: Of the squared error.
    """

    levels = frozenset({Level.SEQUENCE})
    output_types = frozenset({LABEL_AND_NUMBER})
    probabilities = False
    check_targets = ((0, -1.5), (1, 0.25), (0, 2.0))

    def __init__(
        self,
        model: HeadContext,
        *,
        weight: Annotated[float, Field(gt=0, description="Of the squared error.")] = 1.0,
    ) -> None:
        super().__init__()
        self.weight, self.label_smoothing = weight, model.label_smoothing
        self.label = nn.Linear(model.width, model.outputs - 1)
        self.number = nn.Linear(model.width, 1)

    def logits(
        self, hidden: Float[Tensor, "batch length width"], real: Bool[Tensor, "batch length"]
    ) -> Float[Tensor, "batch outputs"]:
        """Returns the scores of the classes, and the number."""
        total = hidden.masked_fill(~real[..., None], 0.0).sum(dim=1)
        mean = total / real.sum(dim=1, keepdim=True).clamp(min=1)
        return torch.cat([self.label(mean), self.number(mean)], dim=1)

    def loss(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Float[Tensor, "batch 2"],
        real: Bool[Tensor, "batch length"],
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns both losses summed over the sequences, and the number of sequences."""
        smoothing = self.label_smoothing if self.training else 0.0
        total = self._losses(self.logits(hidden, real), targets, smoothing).sum()
        return total, torch.tensor(len(targets), device=targets.device)

    def likelihoods(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Float[Tensor, "batch 2"],
        real: Bool[Tensor, "batch length"],
    ) -> Likelihoods:
        """Returns the loss of each sequence, and whether its label is right."""
        logits = self.logits(hidden, real)
        right = (logits[:, :-1].argmax(dim=-1) == targets[:, 0]).long()
        return Likelihoods(self._losses(logits, targets), torch.ones_like(right), None, right)

    def _losses(
        self,
        logits: Float[Tensor, "batch outputs"],
        targets: Float[Tensor, "batch 2"],
        smoothing: float = 0.0,
    ) -> Float[Tensor, " batch"]:
        label = functional.cross_entropy(
            logits[:, :-1], targets[:, 0].long(), reduction="none", label_smoothing=smoothing
        )
        return label + self.weight * (logits[:, -1] - targets[:, 1]).square()
