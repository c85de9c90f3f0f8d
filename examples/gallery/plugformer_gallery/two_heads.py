"""Two heads above one model: one for a label, one for a number."""

from typing import Annotated

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import Head, HeadContext, HeadInput, Level
from plugformer_gallery.multi_task import LABEL_AND_NUMBER


class TwoHeads(Head):
    """Linear maps of the mean hidden state to the classes and to a number; their losses are added.

    MT-DNN, Liu et al. 2019, equations 3 to 6: https://arxiv.org/abs/1901.11504. Cross-entropy of the class,
    and squared error of the number.

    Args:
        model: Sizes of the model; its outputs are the classes and the number.
        weight: Of the squared error.
    """

    levels = frozenset({Level.SEQUENCE})
    output_types = frozenset({LABEL_AND_NUMBER})
    probabilities = False

    def __init__(
        self,
        model: HeadContext,
        *,
        weight: Annotated[float, Field(gt=0, description="Of the squared error.")] = 1.0,
    ) -> None:
        super().__init__()
        self.weight = weight
        self.label = nn.Linear(model.width, model.outputs - 1)
        self.number = nn.Linear(model.width, 1)

    def logits(
        self, hidden: Float[Tensor, "batch length width"], context: HeadInput
    ) -> Float[Tensor, "batch outputs"]:
        """Returns the scores of the classes, and the number."""
        real = context.real
        total = hidden.masked_fill(~real[..., None], 0.0).sum(dim=1)
        mean = total / real.sum(dim=1, keepdim=True).clamp(min=1)
        return torch.cat([self.label(mean), self.number(mean)], dim=1)

    @classmethod
    def check_case(cls, real: Bool[Tensor, "batch length"]) -> tuple[Float[Tensor, "batch 2"], int]:
        """Returns classes from 0 to 2 with numbers, and the number of outputs."""
        classes = torch.randint(3, real.shape[:1]).double()
        return torch.stack([classes, torch.randn_like(classes)], dim=1), 4

    def losses(
        self, logits: Float[Tensor, "batch outputs"], targets: Float[Tensor, "batch 2"]
    ) -> Float[Tensor, " batch"]:
        """Returns the cross-entropy of each class and the squared error of each number, added."""
        label = functional.cross_entropy(logits[:, :-1], targets[:, 0].long(), reduction="none")
        return label + self.weight * (logits[:, -1] - targets[:, 1]).square()
