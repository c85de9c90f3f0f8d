"""Attention in a sliding window, with a cache as long as the window."""

from dataclasses import replace
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import BIDIRECTIONAL, CAUSAL, Attention, Context, ModelContext, View
from plugformer_blocks import project_heads, softmax_attention, split_heads
from plugformer_gallery.heads import merged, require_divisible

Heads = Float[Tensor, "batch heads length head_width"]


class SlidingWindowAttention(Attention):
    """Multi-head attention in which a token sees those less than `window` positions away.

    Longformer, Beltagy et al. 2020, section 3.1: https://arxiv.org/abs/2004.05150; in decoders as in Mistral
    7B, section 2: https://arxiv.org/abs/2310.06825, whose cache is as long as the window. Cross-attention,
    whose positions belong to two sequences, has no window.

    Args:
        model: Sizes of the model, and the place of the attention.
        window: Tokens that a query sees to each side, itself counted.

    Raises:
        ConfigurationError: The heads do not divide the width.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        window: Annotated[
            int, Field(ge=2, description="Tokens seen to each side, the own one counted.")
        ] = 64,
    ) -> None:
        super().__init__()
        require_divisible(model)
        self.width, self.window = model.width // model.heads, window
        self.dropout = model.attention_dropout
        self.query, self.key, self.value, self.output = (
            nn.Linear(model.width, model.width) for _ in range(4)
        )

    def follows(self, view: View) -> bool:
        """Returns whether a view reads no marks, which the window does not keep."""
        return view in (BIDIRECTIONAL, CAUSAL)

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns what each token reads of the tokens near it."""
        near = None
        if context.cross:
            query, key, value = project_heads(x, context, self.query, self.key, self.value, width=self.width)
        else:
            heads = split_heads(context.product(x, self.query, self.key, self.value), self.width)
            query, key, value = heads.chunk(3, dim=1)
            query, key = context.rotate(query), context.rotate(key)
            if context.slots is not None:
                key, value, context = self._recent(key, value, context)
            distance = context.query.index[:, None, :, None] - context.key.index[:, None, None, :]
            near = distance.abs() < self.window
        dropout = self.dropout if self.training else 0.0
        output: Tensor = self.output(
            merged(softmax_attention(query, key, value, context, dropout=dropout, mask=near))
        )
        return output

    def _recent(self, key: Heads, value: Heads, context: Context) -> tuple[Heads, Heads, Context]:
        """Returns keys and values behind those of the last tokens, and their context; keeps the last."""
        at = context.query.index.expand(key.shape[0], -1)
        real = torch.ones_like(at, dtype=torch.bool) if context.real is None else context.real
        new = (key, value, at, real)
        past = context.past
        if past is None:
            shape = (*key.shape[:2], self.window, self.width)
            nothing = at.new_zeros(at.shape[0], self.window)
            past = (key.new_zeros(shape), key.new_zeros(shape), nothing, nothing > 0)
        keys, values = (torch.cat(pair, dim=2) for pair in zip(past[:2], new[:2], strict=True))
        index, there = (torch.cat(pair, dim=1) for pair in zip(past[2:], new[2:], strict=True))
        last = index.where(there, -1).argsort(dim=1)[:, -self.window :]  # the real ones, in their order
        columns = last[:, None, :, None].expand(-1, keys.shape[1], -1, self.width)
        kept = (each.gather(2, columns) for each in (keys, values))
        context.keep(*kept, index.gather(1, last), there.gather(1, last))
        return (
            keys,
            values,
            replace(context, key=replace(context.query, index=index, mask=there), partial=True),
        )
