"""Scaled dot-product attention over heads: the kernel when nobody looks, the formula when somebody does."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention

from plugformer.interfaces.scope import Scope


def softmax_attention(
    query: Float[Tensor, "batch heads query head_width"],
    key: Float[Tensor, "batch groups key head_width"],
    value: Float[Tensor, "batch groups key value_width"],
    scope: Scope,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
    mask: Bool[Tensor, "#batch #heads #query #key"] | None = None,
) -> Float[Tensor, "batch heads query value_width"]:
    """Returns softmax(q k^T * scale + bias) v, masked as the scope says; heads may share key-value groups.

    Attention Is All You Need, equation 1: https://arxiv.org/abs/1706.03762. PyTorch's fused kernels compute
    it without keeping the scores; only where an observer wants the weights are they computed openly. A query
    that may see nothing reads zeros.

    Args:
        query: Query heads, already rotated.
        key: Key heads, already rotated; their number divides the number of query heads.
        value: Value heads, as many as key heads.
        scope: Positions, masks and bias.
        scale: Factor on the scores; one over the square root of the head width if None.
        dropout: Rate at which weights are dropped; give 0 in evaluation mode.
        mask: True where a query may attend, among the keys that the scope allows; all of them if None.
    """
    if scope.observed:
        return _plain(query, key, value, scope, scale=scale, dropout=dropout, mask=mask)
    causal = scope.top_left_causal and scope.bias is None and mask is None
    return scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=None if causal else _cast(_narrowed(scope.merged, mask), query.dtype),
        dropout_p=dropout,
        is_causal=causal,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )


def _plain(
    query: Float[Tensor, "batch heads query head_width"],
    key: Float[Tensor, "batch groups key head_width"],
    value: Float[Tensor, "batch groups key value_width"],
    scope: Scope,
    *,
    scale: float | None,
    dropout: float,
    mask: Bool[Tensor, "#batch #heads #query #key"] | None,
) -> Float[Tensor, "batch heads query value_width"]:
    """Computes the formula step by step and records the weights that are used."""
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if scope.bias is not None:
        scores = scores + scope.bias.to(scores.dtype)
    allowed = scope.allowed if mask is None else scope.allowed & mask
    scores = scores.masked_fill(~allowed, -torch.inf)
    # A query that may see nothing has only -inf: its softmax is NaN, its weights are defined as zero.
    weights = scores.softmax(dim=-1).masked_fill(~allowed, 0.0)
    weights = drop(weights, dropout) if dropout else weights
    scope.record("weights", weights)
    return weights @ value


def _narrowed(merged: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """Returns the scope's mask and bias, of which a mask takes away where it is False."""
    if merged is None or mask is None:
        return mask if merged is None else merged
    return merged & mask if merged.dtype == torch.bool else merged.masked_fill(~mask, -torch.inf)


def _cast(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Gives an additive mask the dtype of the queries; a boolean one stays as it is."""
    return mask if mask is None or mask.dtype == torch.bool else mask.to(dtype)
