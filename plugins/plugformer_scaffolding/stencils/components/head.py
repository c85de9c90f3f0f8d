"""The next token at every position."""

from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import linear

from plugformer.interfaces import Head, HeadContext, Level
from plugformer_blocks import linear_cross_entropy


class NewComponent(Head):
    """A linear map to the vocabulary, and cross-entropy at the real targets.

    The weight is (outputs, width). It may be the embedding's: Using the Output Embedding to Improve Language
    Models, Press and Wolf 2017, https://arxiv.org/abs/1608.05859.

    Args:
        model: Sizes of the model; the weight is `model.tied` where that is given.
        scale: Factor on the logits.
    """

    levels = frozenset({Level.NEXT_TOKEN, Level.TOKEN})

    def __init__(
        self,
        model: HeadContext,
        *,
        scale: Annotated[float, Field(gt=0)] = 1.0,
    ) -> None:
        super().__init__()
        self.scale = scale
        self.label_smoothing = model.label_smoothing
        self.tied = model.tied is not None
        own = model.tied if model.tied is not None else nn.Parameter(torch.empty(model.outputs, model.width))
        self.weight = own
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weight as torch.nn.Linear does, unless it is the embedding's."""
        if not self.tied:
            nn.init.kaiming_uniform_(self.weight, a=5**0.5)  # uniform on ±1 / sqrt(width)

    def logits(
        self,
        hidden: Float[Tensor, "batch length width"],
        real: Bool[Tensor, "batch length"],  # noqa: ARG002 (for heads that pool; this one scores every position)
    ) -> Float[Tensor, "batch length outputs"]:
        """Returns the scores of every token of the vocabulary at every position."""
        return linear(hidden, self.weight) * self.scale

    def loss(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Int[Tensor, "batch length"],
        real: Bool[Tensor, "batch length"],
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the cross-entropy summed over the real targets, smoothed in training, and their number."""
        loss = linear_cross_entropy(
            hidden[real] * self.scale,  # (real targets, width)
            self.weight,
            targets[real],
            label_smoothing=self.label_smoothing if self.training else 0.0,
        )
        return loss, real.sum()
