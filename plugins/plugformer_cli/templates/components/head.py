"""A linear map to the vocabulary."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from plugformer.interfaces import Head, HeadContext, HeadInput, Level


class NewComponent(Head):
    """Logits at every position; their loss is cross-entropy, since `losses` is not overridden.

    The weight, (outputs, width), may be the embedding's: Using the Output Embedding to Improve Language
    Models, Press and Wolf 2017, https://arxiv.org/abs/1608.05859.

    Args:
        model: Sizes of the model; `model.tied` is the embedding's weight, or None.
    """

    levels = frozenset({Level.NEXT_TOKEN, Level.TOKEN})

    def __init__(self, model: HeadContext) -> None:
        super().__init__()
        self.tied = model.tied is not None
        new = torch.empty(model.outputs, model.width)
        self.weight = nn.Parameter(new) if model.tied is None else model.tied
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weight as torch.nn.Linear does, unless it is the embedding's."""
        if not self.tied:
            nn.init.kaiming_uniform_(self.weight, a=5**0.5)

    def logits(
        self, hidden: Float[Tensor, "batch length width"], context: HeadInput
    ) -> Float[Tensor, "batch length outputs"]:
        """Returns the logits of every token of the vocabulary."""
        return linear(hidden, self.weight)
