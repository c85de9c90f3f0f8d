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

Stream = Float[Tensor, "batch length width"]
Heads = Float[Tensor, "batch heads length head_width"]


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
            raise ConfigurationError(f"{model.heads} heads do not divide the width {model.width}")
        self.width = model.width // model.heads
        self.dropout = model.attention_dropout
        self.start = scale
        self.query, self.key, self.value, self.output = (
            nn.Linear(model.width, model.width) for _ in range(4)
        )
        self.factor = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the factor; the linear maps draw their own values."""
        nn.init.constant_(self.factor, self.start)

    def forward(self, x: Stream, context: Context) -> Stream:
        """Returns what each token reads."""
        query = normalize(split_heads(self.query(x), self.width), dim=-1)
        if context.cross:
            key, value = context.once(lambda memory: self.read(memory, context.key))
        else:
            key, value = context.cached(*self.read(x, context.query))
        dropout = self.dropout if self.training else 0.0
        query = context.rotate(query) * self.factor
        read = softmax_attention(query, key, value, context, scale=1.0, dropout=dropout)
        output: Tensor = self.output(read.transpose(1, 2).flatten(-2))
        return output

    def read(self, memory: Stream, positions: Positions) -> tuple[Heads, Heads]:
        """Returns the keys and values of some tokens."""
        key = normalize(split_heads(self.key(memory), self.width), dim=-1)
        return positions.rotate(key), split_heads(self.value(memory), self.width)
