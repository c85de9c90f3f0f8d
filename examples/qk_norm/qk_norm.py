"""Attention with normalized queries and keys."""

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Attention, Context, ModelContext, Positions
from plugformer_blocks import softmax_attention, split_heads


class QueryKeyNormAttention(Attention):
    """softmax(g q/|q| · k/|k|) v in each head, with one learned factor g.

    Query-Key Normalization, Henry et al. 2020: https://arxiv.org/abs/2010.04245. The cache holds keys
    (normalized and rotated) and values, each (batch, heads, length, head width).

    Args:
        model: Sizes of the model.
        scale: Initial value of g.

    Raises:
        ConfigurationError: The heads do not divide the width.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        scale: Annotated[float, Field(gt=0, description="Initial value of the factor on the scores.")] = 10.0,
    ) -> None:
        super().__init__()
        if model.width % model.heads:
            raise ConfigurationError(
                f"{model.heads} heads do not divide the width {model.width}; "
                "change model.width or model.heads"
            )
        self.width = model.width // model.heads
        self.dropout = model.attention_dropout
        self.start = scale
        self.query = nn.Linear(model.width, model.width)
        self.key = nn.Linear(model.width, model.width)
        self.value = nn.Linear(model.width, model.width)
        self.output = nn.Linear(model.width, model.width)
        self.factor = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the factor; the linear maps draw their own values."""
        nn.init.constant_(self.factor, self.start)

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns what each token reads."""

        def read(memory: Tensor, positions: Positions) -> tuple[Tensor, Tensor]:
            key, value = (
                split_heads(self.key(memory), self.width),
                split_heads(self.value(memory), self.width),
            )
            return positions.rotate(normalize(key, dim=-1)), value

        query = context.rotate(normalize(split_heads(self.query(x), self.width), dim=-1))
        if context.cross:
            key, value = context.once(lambda memory: read(memory, context.key))
        else:
            key, value = context.cached(*read(x, context.query))
        dropout = self.dropout if self.training else 0.0
        found = softmax_attention(query * self.factor, key, value, context, scale=1.0, dropout=dropout)
        output: Tensor = self.output(found.transpose(1, 2).flatten(-2))
        return output
