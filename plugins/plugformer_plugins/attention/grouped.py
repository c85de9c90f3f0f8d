"""Multi-head, multi-query and grouped-query attention."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Attention, Context, ModelContext
from plugformer_blocks import project_heads, softmax_attention


def head_width(model: ModelContext) -> int:
    """Returns the width of each of the model's heads.

    Raises:
        ConfigurationError: The heads do not divide the width.
    """
    if model.width % model.heads:
        below = model.width // model.heads * model.heads
        nearest = " and ".join(str(width) for width in (below, below + model.heads) if width)
        raise ConfigurationError(
            f"{model.heads} heads do not divide the width {model.width}; with {model.heads} heads the "
            f"nearest widths are {nearest}: change model.width or model.heads"
        )
    return model.width // model.heads


class GroupedQueryAttention(Attention):
    """Grouped-query attention; groups of query heads share one key-value head.

    Attention with `heads` query heads and `kv_heads` key-value heads.

    GQA, Ainslie et al. 2023, section 2.2: https://arxiv.org/abs/2305.13245. Query head h reads key-value head
    h // (heads / kv_heads), so that the cache is heads / kv_heads times smaller than with as many of each.
    Everything else is Attention Is All You Need, section 3.2.2: project, attend in each head, concatenate,
    project.

    The cache holds keys (rotated) and values, each (batch, kv_heads, length, head width).

    Args:
        model: Sizes of the model; the width is divided evenly among the heads.
        kv_heads: Number of key-value heads; must divide the number of heads. None halves the heads (exactly:
            takes their largest proper divisor).
        bias: Whether the projections have biases.

    Raises:
        ConfigurationError: The heads do not divide the width, or kv_heads does not divide the heads.
    """

    def __init__(
        self, model: ModelContext, *, kv_heads: Annotated[int | None, Field(ge=1)] = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.heads = model.heads
        divisors = [number for number in range(1, model.heads + 1) if model.heads % number == 0]
        self.kv_heads = ([1, *divisors][-2]) if kv_heads is None else kv_heads
        if self.kv_heads not in divisors:
            raise ConfigurationError(
                f"kv_heads {kv_heads} does not divide {model.heads} heads; "
                f"expected one of {', '.join(map(str, divisors))}: change kv_heads or model.heads"
            )
        self.dropout = model.attention_dropout
        self.width = head_width(model)
        kv_width = self.kv_heads * self.width
        self.query = nn.Linear(model.width, model.width, bias=bias)
        self.key = nn.Linear(model.width, kv_width, bias=bias)
        self.value = nn.Linear(model.width, kv_width, bias=bias)
        self.output = nn.Linear(model.width, model.width, bias=bias)

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns the attention output of each token over the keys and values that it may see."""
        query, key, value = project_heads(x, context, self.query, self.key, self.value, width=self.width)
        read = softmax_attention(query, key, value, context, dropout=self.dropout if self.training else 0.0)
        output: Tensor = self.output(read.transpose(1, 2).flatten(-2))
        return output


class MultiHeadAttention(GroupedQueryAttention):
    """Multi-head attention; every query head has its own key-value head.

    Attention with as many key-value heads as query heads.

    Attention Is All You Need, Vaswani et al. 2017, section 3.2.2: https://arxiv.org/abs/1706.03762:
    MultiHead(Q, K, V) = Concat(head_1, ..., head_H) W_O with
    head_i = softmax(Q W_Qi (K W_Ki)^T / sqrt(head width)) V W_Vi.

    Args:
        bias: Whether the projections have biases.
    """

    def __init__(self, model: ModelContext, *, bias: bool = True) -> None:
        super().__init__(model, kv_heads=model.heads, bias=bias)


class MultiQueryAttention(GroupedQueryAttention):
    """Multi-query attention; all query heads share one key-value head.

    Attention with one key-value head, which all query heads read; its state is `heads` times smaller.

    Fast Transformer Decoding: One Write-Head is All You Need, Shazeer 2019, section 3:
    https://arxiv.org/abs/1911.02150.

    Args:
        bias: Whether the projections have biases.
    """

    def __init__(self, model: ModelContext, *, bias: bool = True) -> None:
        super().__init__(model, kv_heads=1, bias=bias)
