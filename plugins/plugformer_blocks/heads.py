"""The heads of attention: queries, keys and values as most attentions make them."""

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Context

Heads = Float[Tensor, "batch heads length head_width"]
KeyHeads = Float[Tensor, "batch groups key head_width"]


def split_heads(x: Float[Tensor, "batch length width"], width: int) -> Heads:
    """Cuts the last axis into heads of this width."""
    heads: Tensor = x.unflatten(-1, (-1, width)).transpose(1, 2)
    return heads


def project_heads(
    x: Float[Tensor, "batch length width"],
    context: Context,
    query: nn.Linear,
    key: nn.Linear,
    value: nn.Linear,
    *,
    width: int,
) -> tuple[Heads, KeyHeads, KeyHeads]:
    """Returns query heads, and key and value heads of all tokens that may be read; positions rotate them.

    Keys and values are those of `x`, in decoding also of the tokens before it, in cross-attention of the
    memory, which are computed once.

    Args:
        x: The input of a sublayer.
        context: Its context.
        query: Makes queries.
        key: Makes keys.
        value: Makes values.
        width: Width of a head.
    """

    def read(memory: Tensor) -> tuple[Tensor, Tensor]:
        heads = split_heads(context.product(memory, key, value), width)
        keys, values = heads.split([key.out_features // width, value.out_features // width], dim=1)
        return context.key.rotate(keys), values

    if context.cross:
        keys, values = context.once(read)
        return context.rotate(split_heads(query(x), width)), keys, values
    sizes = [query.out_features // width, key.out_features // width]
    heads = split_heads(context.product(x, query, key, value), width)
    turned, values = heads.split([sum(sizes), value.out_features // width], dim=1)
    queries, keys = context.rotate(turned).split(sizes, dim=1)
    keys, values = context.cached(keys, values)
    return queries, keys, values
