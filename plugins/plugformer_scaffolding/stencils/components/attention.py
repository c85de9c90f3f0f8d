"""Multi-head attention."""

from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Attention, AttentionContext, ModelContext, Positions, State
from plugformer_blocks import PositionwiseState, softmax_attention


class NewComponent(Attention):
    """softmax(q k^T / sqrt(head width)) v in each head, and a linear map of all heads.

    Attention Is All You Need, Vaswani et al. 2017, section 3.2.2: https://arxiv.org/abs/1706.03762.

    Args:
        model: Sizes of the model; `model.heads` divides `model.width`.
        bias: Whether the four maps have biases.
    """

    def __init__(self, model: ModelContext, *, bias: bool = True) -> None:
        super().__init__()
        self.heads = model.heads
        self.dropout = model.attention_dropout
        self.query, self.key, self.value, self.output = (
            nn.Linear(model.width, model.width, bias=bias) for _ in range(4)
        )

    def project(self, memory: Float[Tensor, "batch key width"], positions: Positions) -> State:
        """Returns keys, rotated by the positional encoding, and values: (batch, key, heads, head width)."""
        key = positions.rotate(self._split(self.key(memory)))
        return PositionwiseState(key.transpose(1, 2), self._split(self.value(memory)).transpose(1, 2))

    def attend(
        self, query: Float[Tensor, "batch query width"], state: State, context: AttentionContext
    ) -> Float[Tensor, "batch query width"]:
        """Returns the attention output; `softmax_attention` applies the context's mask and bias."""
        key, value = (tensor.transpose(1, 2) for tensor in cast("PositionwiseState", state).tensors)
        heads = context.query.rotate(self._split(self.query(query)))
        dropout = self.dropout if self.training else 0.0
        read = softmax_attention(heads, key, value, context, dropout=dropout)
        output: Tensor = self.output(read.transpose(1, 2).flatten(-2))
        return output

    def _split(self, x: Tensor) -> Tensor:
        heads: Tensor = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return heads  # (batch, heads, length, head width)
