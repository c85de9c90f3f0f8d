"""Attention in a sliding window, with a cache that grows no further than the window."""

from typing import Annotated, cast

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import (
    EVERYTHING,
    PAST,
    Attention,
    AttentionContext,
    ModelContext,
    Positions,
    State,
    View,
)
from plugformer_blocks import PositionwiseState, softmax_attention
from plugformer_gallery.heads import merged, require_divisible, split


class Recent(PositionwiseState):
    """Keys, values, positions and which of them are real: of the last tokens, at most two windows of them."""

    def __init__(self, window: int, *tensors: Tensor) -> None:
        super().__init__(*tensors)
        self.window = window

    def append(self, new: "Recent") -> "Recent":
        """Appends; now and then drops what no later query sees, so that few steps move old tokens.

        An exported program keeps everything: its shapes must not depend on lengths.
        """
        *_, real = self.tensors
        if torch.compiler.is_exporting() or real.shape[1] < 2 * self.window:
            return super().append(new)
        # The last real tokens of each row in their order: rows may have padding in different places.
        last = real.long().argsort(dim=1, stable=True)[:, -self.window :]
        rows = torch.arange(len(real), device=real.device)[:, None]
        return Recent(self.window, *(tensor[rows, last] for tensor in self.tensors)).append(new)


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
        self.heads, self.window, self.dropout = model.heads, window, model.attention_dropout
        self.cross = model.place.cross
        self.query, self.key, self.value, self.output = (
            nn.Linear(model.width, model.width) for _ in range(4)
        )

    def follows(self, view: View) -> bool:
        """Returns whether a view reads no marks, which the window does not keep."""
        return view in (EVERYTHING, PAST)

    def project(self, memory: Float[Tensor, "batch key width"], positions: Positions) -> State:
        """Returns rotated keys, values, and in a window their positions."""
        key = positions.rotate(split(self.key(memory), self.heads)).transpose(1, 2)
        value = self.value(memory).unflatten(-1, (self.heads, -1))
        if self.cross:
            return PositionwiseState(key, value)
        return Recent(self.window, key, value, positions.index.expand_as(positions.mask), positions.mask)

    def attend(
        self, query: Float[Tensor, "batch query width"], state: State, context: AttentionContext
    ) -> Float[Tensor, "batch query width"]:
        """Returns what each query reads of the tokens near it."""
        key, value, *kept = cast("PositionwiseState", state).tensors
        near = None
        if kept:
            if kept[0].shape[1] < context.key.length:
                context = context.over(Positions(kept[0], kept[1], context.key.padding, context.key.encoding))
            distance = context.query.index[:, None, :, None] - context.key.index[:, None, None, :]
            near = distance.abs() < self.window
        heads = context.query.rotate(split(self.query(query), self.heads))
        dropout = self.dropout if self.training else 0.0
        read = softmax_attention(
            heads, key.transpose(1, 2), value.transpose(1, 2), context, dropout=dropout, mask=near
        )
        output: Tensor = self.output(merged(read))
        return output
