"""An encoder reads the input, and a decoder continues the output."""

import sys

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from plugformer.interfaces import (
    BEGIN,
    NO_TOKENS,
    Architecture,
    Batch,
    Encoded,
    Generative,
    Head,
    Level,
    Limits,
    Side,
    Sizes,
    Stack,
    Tokens,
    next_tokens,
)
from plugformer.model import Builder, Cache, Decoder, Encoder
from plugformer_blocks import pad


class NewComponent(Architecture):
    """The encoder reads the input and END; the decoder reads the output from BEGIN on.

    Attention Is All You Need, Vaswani et al. 2017, section 3.1: https://arxiv.org/abs/1706.03762.
    """

    levels = frozenset({Level.NEXT_TOKEN})
    stacks = (Stack("encoder", causal=False), Stack("decoder", causal=True, cross=True))

    def collate(
        self, encoded: Encoded, level: Level, *, side: Side = "right", length: int | None = None
    ) -> Batch:
        """Returns the inputs as the source and the outputs, from BEGIN to END, as the target."""
        assert encoded.input is not None
        output = encoded.output
        target = NO_TOKENS if output is None else pad(output, begin=True, side=side, length=length)
        return Batch(pad(encoded.input, side=side, length=length), target)

    def positions(self, lengths: Int[ndarray, "examples 2"], level: Level) -> Int[ndarray, "examples 2"]:
        """Returns the lengths of source and target in a batch."""
        source, target = lengths.T
        return np.stack([source + 1, np.where(target >= 0, target + 2, 0)], axis=1)

    def limits(self, max_length: int, level: Level) -> Limits:
        """Returns the largest lengths of source and target; END and BEGIN take one position each."""
        return Limits(max_length - 1, max_length - 1, sys.maxsize)

    def build(self, builder: Builder, sizes: Sizes, level: Level) -> Generative:
        """Returns both stacks and a head."""
        spec = builder.spec
        source = builder.embedding(sizes.source, tied=spec.tied_embeddings and spec.shared_embeddings)
        target = (
            source if spec.shared_embeddings else builder.embedding(sizes.outputs, tied=spec.tied_embeddings)
        )
        encoder, decoder = builder.encoder(source), builder.decoder(target)
        head = builder.head(sizes.outputs, target)
        return NewComponentModel(encoder, decoder, head, spec.max_length)


class NewComponentModel(Generative):
    """Reads a source sequence and continues a target sequence."""

    level = Level.NEXT_TOKEN

    def __init__(self, encoder: Encoder, decoder: Decoder, head: Head, max_length: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self._max_length = max_length

    def targets(self, batch: Batch) -> tuple[Int[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
        """Returns the target tokens after BEGIN: the model predicts each from those before it."""
        return next_tokens(batch.target)

    def hidden(self, batch: Batch) -> Float[Tensor, "batch length width"]:
        """Returns the decoder's hidden states over the target."""
        target = Tokens(batch.target.ids[:, :-1], next_tokens(batch.target)[1], batch.target.padding)
        hidden: Tensor = self.decoder(target, self.decoder.start(self.encoder(batch.source)))
        return hidden

    def begin(self, batch: Batch) -> tuple[Cache, Int[Tensor, " batch"]]:
        """Returns the decoder's cache for the source, and BEGIN."""
        cache = self.decoder.start(self.encoder(batch.source))
        return cache, torch.full_like(batch.source.ids[:, 0], BEGIN)

    def step(self, tokens: Tokens, past: Cache) -> Float[Tensor, "rows new width"]:
        """Returns the decoder's hidden states of the next tokens."""
        hidden: Tensor = self.decoder(tokens, past)
        return hidden

    def input_lengths(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns the lengths of the sources without END."""
        return batch.source.mask.sum(dim=1) - 1

    def room(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns the largest output length; BEGIN takes one position."""
        return torch.full_like(batch.source.ids[:, 0], self._max_length - 1)
