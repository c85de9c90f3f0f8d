"""The encoder: a stack of layers that reads a whole sequence at once, above token embeddings."""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN, Context, PositionalEncoding, Positions, View
from plugformer.interfaces.batch import Tokens
from plugformer.model.layer import Dropout, Layer, LayerStates, layer_states


class TokenEmbedding(nn.Module):
    """A vector for each token of a vocabulary.

    Scaled embeddings are multiplied by the square root of the width (Attention Is All You Need, section 3.4,
    https://arxiv.org/abs/1706.03762). Initial values are normal. Their deviation is 1 / sqrt(width) for
    scaled embeddings, so that the stack receives unit variance, and for tied embeddings, so that logits start
    small; otherwise it is 1.

    In training a share of the tokens, other ones in each batch, is UNKNOWN; special tokens never are. This is
    the word dropout of Iyyer et al. 2015, section 3.1, who leave words out: https://aclanthology.org/P15-1162.
    """

    def __init__(
        self, vocabulary: int, width: int, *, scaled: bool, tied: bool, token_dropout: float
    ) -> None:
        super().__init__()
        self.token_dropout = token_dropout
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        self.scale = math.sqrt(width) if scaled else 1.0
        self.deviation = width**-0.5 if scaled or tied else 1.0
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws initial values."""
        nn.init.normal_(self.weight, std=self.deviation)

    def forward(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length width"]:
        """Returns each token's vector."""
        if self.training and self.token_dropout:
            dropped = torch.rand(ids.shape, device=ids.device) < self.token_dropout
            ids = ids.masked_fill(dropped & (ids >= len(SPECIAL_TOKENS)), UNKNOWN)
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
    saves only the inputs of layers, and computes each layer again in the backward pass (Chen et al. 2016,
    section 4: https://arxiv.org/abs/1604.06174).

    Attributes:
        keeps_weights: Whether the last layer's cross-attention leaves its weights for the head, as
            `cross_attention_weights`.
    """

    keeps_weights = False

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
        """Returns the hidden states of tokens.

        Args:
            tokens: The new tokens.
            context: From them to all tokens of the sequence so far.
            cross: From them to those of the other stack, if there is one to read.
            states: What the sublayers of each layer keep; None if nothing.
        """
        x = self.dropout(self.position("embed", self.embedding(tokens.ids), context.query))
        device = x.device.type
        mixed = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
        x = x.to(torch.get_autocast_dtype(device) if mixed else self.embedding.weight.dtype)
        layers = cast("list[Layer]", [*self.layers])
        if states is None and any(layer.reads_layers for layer in layers):
            states = layer_states(layers)
        recompute = self.recompute and self.training and torch.is_grad_enabled()
        if recompute or any(layer.compiled and layer.training for layer in layers):
            context.prepare()  # the backward pass computes again what is computed within a layer
            if cross is not None:
                cross.prepare()
        for number, layer in enumerate(layers):
            if cross is not None and self.keeps_weights and number == len(layers) - 1:
                cross = copy(cross)  # with what it has computed
                cross.observer = partial(self._keep, len(x))
            x = layer(x, context, cross, states and states[number], recompute=recompute)
        return cast("Tensor", self.final_norm(x))

    def _keep(self, rows: int, name: str, value: Tensor) -> None:
        """Keeps the weights of cross-attention, in which rows that read one memory are side by side."""
        if name == "weights":
            by_row = value.unflatten(2, (rows // len(value), -1)).transpose(1, 2)
            self.cross_attention_weights = by_row.flatten(0, 1)

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
