"""The encoder: a stack of layers that reads a whole sequence at once, above token embeddings."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from plugformer.interfaces import Context, PositionalEncoding, Positions, View
from plugformer.interfaces.batch import Tokens
from plugformer.model.layer import Dropout, Layer, LayerStates, compute_layers, layer_states


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
    """The output of an encoder, None in an exported step of decoding, and the positions of the tokens."""

    hidden: Float[Tensor, "batch length width"] | None
    positions: Positions

    def select(self, examples: Int[Tensor, " examples"]) -> "Memory":
        """Returns that of some examples."""
        hidden = None if self.hidden is None else self.hidden.index_select(0, examples)
        return Memory(hidden, self.positions.select(examples))


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
        context: Context,
        cross: Context | None = None,
        states: Sequence[LayerStates] | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """Returns the hidden states of tokens; see `compute_layers` for the arguments."""
        x = self.dropout(self.position("embed", self.embedding(tokens.ids), context.query))
        device = x.device.type
        mixed = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        x = x.to(torch.get_autocast_dtype(device) if mixed else self.embedding.weight.dtype)
        layers = cast("list[Layer]", [*self.layers])
        if states is None and any(layer.reads_layers for layer in layers):
            states = layer_states(layers)
        recompute = self.recompute and self.training
        x = compute_layers(layers, x, context, cross, states, recompute=recompute)
        return cast("Tensor", self.final_norm(x))

    def whole(self, tokens: Tokens) -> Positions:
        """Returns the positions of whole sequences."""
        mask = None if tokens.full else tokens.mask
        at = Positions.of(tokens.ids.shape[1], self.position, mask, device=tokens.ids.device)
        if torch.compiler.is_exporting():
            at = replace(at, end=None, start=None)
        return self.view.positions(replace(at, marks=tokens.marks), tokens.ids)


class Encoder(LayerStack):
    """A stack that reads a whole sequence at once."""

    def forward(self, tokens: Tokens) -> Memory:
        """Returns the hidden states of a batch."""
        at = self.whole(tokens)
        return Memory(self.compute(tokens, Context(at, at, view=self.view)), at)
