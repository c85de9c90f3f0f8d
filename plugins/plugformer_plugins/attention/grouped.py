"""Multi-head, multi-query and grouped-query attention."""

from typing import Annotated, cast

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Attention, AttentionContext, ModelContext, Positions, State
from plugformer_blocks import PositionwiseState, softmax_attention
from plugformer_plugins.attention.head_width import head_width


class GroupedQueryAttention(Attention):
    """Attention with `heads` query heads and `kv_heads` key-value heads.

    GQA, Ainslie et al. 2023, section 2.2: https://arxiv.org/abs/2305.13245. Query head h reads key-value head
    h // (heads / kv_heads), so that the state is heads / kv_heads times smaller than with as many of each.
    Everything else is Attention Is All You Need, section 3.2.2: project, attend in each head, concatenate,
    project.

    The state holds keys (rotated) and values, each (batch, length, kv_heads, head width).

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
        self.kv_heads = _kv_heads(model.heads, kv_heads)
        self.dropout = model.attention_dropout
        kv_width = self.kv_heads * head_width(model)
        self.query = nn.Linear(model.width, model.width, bias=bias)
        self.key = nn.Linear(model.width, kv_width, bias=bias)
        self.value = nn.Linear(model.width, kv_width, bias=bias)
        self.output = nn.Linear(model.width, model.width, bias=bias)

    def project(self, memory: Float[Tensor, "batch key width"], positions: Positions) -> State:
        """Returns rotated keys and values, each (batch, key, kv_heads, head width)."""
        key = positions.rotate(_split(self.key(memory), self.kv_heads).transpose(1, 2))
        return PositionwiseState(key.transpose(1, 2), _split(self.value(memory), self.kv_heads))

    def attend(
        self, query: Float[Tensor, "batch query width"], state: State, context: AttentionContext
    ) -> Float[Tensor, "batch query width"]:
        """Returns the attention output of each query over the keys and values that it may see."""
        key, value = (tensor.transpose(1, 2) for tensor in cast("PositionwiseState", state).tensors)
        read = softmax_attention(
            context.query.rotate(_split(self.query(query), self.heads).transpose(1, 2)),
            key,
            value,
            context,
            dropout=self.dropout if self.training else 0.0,
        )
        output: Tensor = self.output(read.transpose(1, 2).flatten(-2))
        return output


def _split(
    x: Float[Tensor, "batch length width"], heads: int
) -> Float[Tensor, "batch length heads head_width"]:
    """Cuts the width into heads."""
    return x.view(*x.shape[:-1], heads, -1)


def _kv_heads(heads: int, kv_heads: int | None) -> int:
    """Returns the number of key-value heads, checked, or the default."""
    divisors = [divisor for divisor in range(1, heads + 1) if heads % divisor == 0]
    if kv_heads is None:
        return divisors[-2] if heads > 1 else 1
    if kv_heads not in divisors:
        raise ConfigurationError(
            f"kv_heads {kv_heads} does not divide {heads} heads; "
            f"expected one of {', '.join(map(str, divisors))}: change kv_heads or model.heads"
        )
    return kv_heads


class MultiHeadAttention(GroupedQueryAttention):
    """Attention with as many key-value heads as query heads.

    Attention Is All You Need, Vaswani et al. 2017, section 3.2.2: https://arxiv.org/abs/1706.03762:
    MultiHead(Q, K, V) = Concat(head_1, ..., head_H) W_O with
    head_i = softmax(Q W_Qi (K W_Ki)^T / sqrt(head width)) V W_Vi.

    Args:
        model: Sizes of the model; the width is divided evenly among the heads.
        bias: Whether the projections have biases.

    Raises:
        ConfigurationError: The heads do not divide the width.
    """

    def __init__(self, model: ModelContext, *, bias: bool = True) -> None:
        super().__init__(model, kv_heads=model.heads, bias=bias)


class MultiQueryAttention(GroupedQueryAttention):
    """Attention with one key-value head, which all query heads read; its state is `heads` times smaller.

    Fast Transformer Decoding: One Write-Head is All You Need, Shazeer 2019, section 3:
    https://arxiv.org/abs/1911.02150.

    Args:
        model: Sizes of the model; the width is divided evenly among the heads.
        bias: Whether the projections have biases.

    Raises:
        ConfigurationError: The heads do not divide the width.
    """

    def __init__(self, model: ModelContext, *, bias: bool = True) -> None:
        super().__init__(model, kv_heads=1, bias=bias)
