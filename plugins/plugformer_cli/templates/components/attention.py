"""Multi-head attention."""

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Attention, Context, ModelContext
from plugformer_blocks import project_heads, softmax_attention


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

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns the attention output; `softmax_attention` applies the context's mask and bias."""
        width = self.output.in_features // self.heads
        query, key, value = project_heads(x, context, self.query, self.key, self.value, width=width)
        dropout = self.dropout if self.training else 0.0
        read = softmax_attention(query, key, value, context, dropout=dropout)  # (batch, heads, length, width)
        output: Tensor = self.output(read.transpose(1, 2).flatten(-2))
        return output
