"""Scaled dot-product attention over heads: a fused kernel, or the formula where weights are observed.

The formula's two halves, `attention_scores` and `attention_weights`, serve attentions that do something
between them or after them, which no kernel does.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention

from plugformer.interfaces import Context

_WIDEST_FLASH_HEAD = 256  # by `check_head_dim_size_flash` in PyTorch's `sdp_utils.cpp`


def softmax_attention(
    query: Float[Tensor, "batch heads query head_width"],
    key: Float[Tensor, "batch groups key head_width"],
    value: Float[Tensor, "batch groups key value_width"],
    context: Context,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
    mask: Bool[Tensor, "#batch #heads #query #key"] | None = None,
    bias: Float[Tensor, "#batch #heads #query #key"] | None = None,
) -> Float[Tensor, "batch heads query value_width"]:
    """Returns softmax(q k^T * scale + bias) v, masked as the context says; heads may share key-value groups.

    Attention Is All You Need, equation 1: https://arxiv.org/abs/1706.03762. PyTorch's fused kernels compute
    it without keeping the scores; only where an observer wants the weights are they computed openly. A query
    that may see nothing reads zeros. What the positional encoding adds to the scores is added here.

    With a mask or a bias beyond the context's, the kernel skips no part of the future. On a CPU, PyTorch has
    no fused kernel for a bias that itself gets gradients. On a GPU, the fused kernel that takes masks and
    float32 reads no groups: each query head is then given its group.

    Args:
        query: Query heads, already rotated.
        key: Key heads, already rotated; their number divides the number of query heads.
        value: Value heads, as many as key heads.
        context: Positions, masks and bias.
        scale: Factor on the scores; one over the square root of the head width if None.
        dropout: Rate at which weights are dropped; give 0 in evaluation mode.
        mask: True where a query may attend, among the keys that the context allows; all of them if None.
        bias: Added to the scores after scaling, in addition to the encoding's; finite.
    """
    if context.observed:
        scores = attention_scores(query, key, context, scale=scale, bias=bias)
        weights = attention_weights(scores, context, dropout=dropout, mask=mask)
        return weights @ _shared(value, query.shape[1])
    bias = _added(query, key, context, scale, bias)
    causal = context.is_causal and context.bias is None and bias is None and mask is None
    merged = None if causal else _merged(context.attn_mask, bias, mask)
    if merged is not None and merged.dtype != torch.bool:
        merged = merged.to(query.dtype)
    if query.shape[1] != key.shape[1] and not _kernel_reads_groups(query, merged):
        key, value = _shared(key, query.shape[1]), _shared(value, query.shape[1])
    return scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=merged,
        dropout_p=dropout,
        is_causal=causal,
        scale=scale,
        enable_gqa=query.shape[1] != key.shape[1],
    )


def attention_scores(
    query: Float[Tensor, "batch heads query head_width"],
    key: Float[Tensor, "batch groups key head_width"],
    context: Context,
    *,
    scale: float | None = None,
    bias: Float[Tensor, "#batch #heads #query #key"] | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """Returns q k^T * scale and all that is added to it, unmasked; arguments as for `softmax_attention`."""
    scores = query @ _shared(key, query.shape[1]).transpose(-2, -1) * _factor(query, scale)
    for added in (context.bias, _added(query, key, context, scale, bias)):
        scores = scores if added is None else scores + added.to(scores.dtype)
    return scores


def attention_weights(
    scores: Float[Tensor, "batch heads query key"],
    context: Context,
    *,
    dropout: float = 0.0,
    mask: Bool[Tensor, "#batch #heads #query #key"] | None = None,
) -> Float[Tensor, "batch heads query key"]:
    """Returns the softmax over the keys that may be seen, and records it; see `softmax_attention`."""
    allowed = context.mask if mask is None else context.mask & mask
    # A query that may see nothing has only -inf: its softmax is NaN, its weights are defined as zero.
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1).masked_fill(~allowed, 0.0)
    weights = drop(weights, dropout) if dropout else weights
    context.record("weights", weights)
    return weights


def _shared(groups: Tensor, heads: int) -> Tensor:
    """Returns for each query head the group that it reads; of one group, without a copy."""
    if groups.shape[1] == 1:
        return groups.expand(-1, heads, -1, -1)
    return groups.repeat_interleave(heads // groups.shape[1], dim=1)


def _kernel_reads_groups(query: Tensor, mask: Tensor | None) -> bool:
    """Returns whether the kernel that PyTorch chooses reads groups that several query heads share.

    On CUDA that is FlashAttention, for 16 bits and no mask. The memory-efficient kernel needs as many key
    heads as query heads: check_batch_size_and_num_heads_dense<false /*supports_gqa*/> in PyTorch's
    aten/src/ATen/native/transformers/cuda/sdp_utils.cpp.
    """
    if query.device.type == "cpu":
        return True
    half = query.dtype in (torch.float16, torch.bfloat16)
    return query.device.type == "cuda" and half and mask is None and query.shape[-1] <= _WIDEST_FLASH_HEAD


def _factor(query: Tensor, scale: float | None) -> float:
    return float(query.shape[-1] ** -0.5) if scale is None else scale


def _added(
    query: Tensor, key: Tensor, context: Context, scale: float | None, bias: Tensor | None
) -> Tensor | None:
    """Returns the bias of scaled scores in this layer alone, or None."""
    content = context.content_bias(query, key)
    if content is None:
        return bias
    scaled = content * _factor(query, scale)
    return scaled if bias is None else scaled + bias


def _merged(merged: Tensor | None, bias: Tensor | None, mask: Tensor | None) -> Tensor | None:
    """Returns the context's mask and bias with a further bias and a further mask."""
    if merged is None or bias is None:
        merged = bias if merged is None else merged
    else:
        merged = bias.masked_fill(~merged, -torch.inf) if merged.dtype == torch.bool else merged + bias
    if merged is None or mask is None:
        return mask if merged is None else merged
    return merged & mask if merged.dtype == torch.bool else merged.masked_fill(~mask, -torch.inf)
