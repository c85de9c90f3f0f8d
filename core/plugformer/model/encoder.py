"""The encoder: a stack of layers that reads a whole sequence at once, above token embeddings."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from plugformer.interfaces import AttentionContext, PositionalEncoding, Positions, View
from plugformer.interfaces.batch import Tokens
from plugformer.model.layer import AttentionCache, Dropout, Layer, attention_caches, compute_layers


class TokenEmbedding(nn.Module):
    """A vector for each token of a vocabulary.

    Scaled embeddings are multiplied by the square root of the width (Attention Is All You Need, section 3.4,
    https://arxiv.org/abs/1706.03762). Initial values are normal. Their deviation is 1 / sqrt(width) for
    scaled embeddings, so that the stack receives unit variance, and for tied embeddings, so that logits start
    small; otherwise it is 1.
    """

    def __init__(self, vocabulary: int, width: int, *, scaled: bool, tied: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        self.scale = math.sqrt(width) if scaled else 1.0
        self.deviation = width**-0.5 if scaled or tied else 1.0
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws initial values."""
        nn.init.normal_(self.weight, std=self.deviation)

    def forward(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length width"]:
        """Returns each token's vector."""
        return embedding(ids, self.weight) * self.scale


@dataclass(frozen=True)
class Memory:
    """The output of an encoder: hidden states, and the positions of the tokens."""

    hidden: Float[Tensor, "batch length width"]
    positions: Positions


class LayerStack(nn.Module):
    """Embeddings with positions, layers, and a final norm (the identity where the task has none).

    Layers share `position` and `view`. `dropout` is the rate on the embeddings. With `recompute`, training
    computes each layer twice, to save memory.
    """

    def __init__(
        self,
        *,
        embedding: TokenEmbedding,
        view: View,
        position: PositionalEncoding,
        layers: Sequence[Layer],
        final_norm: nn.Module,
        dropout: float,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.view = view
        self.position = position
        self.layers = nn.ModuleList(layers)
        self.final_norm = final_norm
        self.dropout = Dropout(dropout)
        self.recompute = recompute

    def compute(
        self,
        tokens: Tokens,
        context: AttentionContext,
        caches: Iterable[AttentionCache | None],
        cross: AttentionContext | None,
        sources: Iterable[AttentionCache | None],
    ) -> Float[Tensor, "batch length width"]:
        """Returns the hidden states of tokens; see `compute_layers` for the arguments."""
        x = self.dropout(self.position.embed(self.embedding(tokens.ids), context.query))
        recompute, layers = self.recompute and self.training, cast("Iterable[Layer]", self.layers)
        x = compute_layers(layers, x, context, caches, cross, sources, recompute=recompute)
        return cast("Tensor", self.final_norm(x))


class Encoder(LayerStack):
    """A stack that reads a whole sequence at once."""

    def forward(self, tokens: Tokens) -> Memory:
        """Returns the hidden states of a batch."""
        at = self.view.positions(tokens, self.position)
        layers = list(cast("Iterable[Layer]", self.layers))
        nothing = [None] * len(layers)
        shared = any(layer.reads_layers for layer in layers)
        caches = attention_caches([layer.attention for layer in layers], nothing) if shared else nothing
        context = AttentionContext(at, at, view=self.view)
        return Memory(self.compute(tokens, context, caches, None, nothing), at)
