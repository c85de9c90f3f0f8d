"""Attention with normalized queries and keys."""

from typing import Annotated, cast

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Attention, AttentionContext, ModelContext, Positions, State
from plugformer_blocks import PositionwiseState, softmax_attention


class QueryKeyNormAttention(Attention):
    """softmax(g q/|q| · k/|k|) v in each head, with one learned factor g.

    Query-Key Normalization, Henry et al. 2020: https://arxiv.org/abs/2010.04245. The state holds keys
    (normalized and rotated) and values, each (batch, length, heads, head width).

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
        self.heads = model.heads
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

    def project(self, memory: Float[Tensor, "batch key width"], positions: Positions) -> State:
        """Returns normalized, rotated keys, and values."""
        key = positions.rotate(normalize(self._split(self.key(memory)), dim=-1))
        value = self._split(self.value(memory))
        return PositionwiseState(key.transpose(1, 2), value.transpose(1, 2))

    def attend(
        self, query: Float[Tensor, "batch query width"], state: State, context: AttentionContext
    ) -> Float[Tensor, "batch query width"]:
        """Returns what each query reads."""
        key, value = (tensor.transpose(1, 2) for tensor in cast("PositionwiseState", state).tensors)
        heads = context.query.rotate(normalize(self._split(self.query(query)), dim=-1))
        dropout = self.dropout if self.training else 0.0
        read = softmax_attention(heads * self.factor, key, value, context, scale=1.0, dropout=dropout)
        output: Tensor = self.output(read.transpose(1, 2).flatten(-2))
        return output

    def _split(
        self, x: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch heads length head_width"]:
        heads: Tensor = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return heads
