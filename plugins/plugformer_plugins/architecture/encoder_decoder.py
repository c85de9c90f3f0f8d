"""Encoder and decoder: one stack reads the input, the other continues the output with the input in view."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy import ndarray
from torch import Tensor

from plugformer.interfaces import (
    BEGIN,
    BIDIRECTIONAL,
    CAUSAL,
    Architecture,
    Batch,
    Encoded,
    Generative,
    Head,
    HeadInput,
    Level,
    Ragged,
    Tokens,
)
from plugformer.model import Builder, Cache, Decoder, Encoder, Limits, Sizes
from plugformer_blocks import before_next, next_tokens, pad, pad_targets


class EncoderDecoder(Architecture):
    """An encoder reads the input, and a decoder that attends to it generates the output.

    Attention Is All You Need, section 3.1: https://arxiv.org/abs/1706.03762.

    The encoder reads the input and END, the decoder the output from BEGIN on. Where a task predicts from the
    whole input, the decoder reads BEGIN alone: its one state has attended to all of the input.
    """

    levels = frozenset({Level.NEXT_TOKEN, Level.SEQUENCE})
    stacks = (("encoder", BIDIRECTIONAL), ("decoder", CAUSAL))

    def collate(self, encoded: Encoded, level: Level, *, lengths: Sequence[int] = ()) -> Batch:
        """Returns the inputs as the source and the outputs, from BEGIN to END, as the target."""
        assert encoded.input is not None  # noqa: S101 (refused for task types without)
        read, written = lengths or (0, 0)
        source, output = pad(encoded.input, length=read), encoded.output
        if level is Level.SEQUENCE:
            begin = pad(Ragged.of([[]] * len(encoded)), begin=True, end=False, length=written)
            return Batch(source, begin, pad_targets(encoded.targets))
        return Batch(source) if output is None else Batch(source, pad(output, begin=True, length=written))

    def positions(
        self, lengths: Int[ndarray, "examples parts"], level: Level
    ) -> Int[ndarray, "examples sequences"]:
        """Returns the lengths of source and target in a batch."""
        source, target = lengths.T
        generated = np.where(target >= 0, target + 2, int(level is Level.SEQUENCE))
        return np.stack([source + 1, generated], axis=1)

    def limits(self, max_length: int, level: Level) -> Limits:
        """Returns the room that END leaves to the source, and BEGIN to the target."""
        return Limits(max_length - 1, max_length - 1, sys.maxsize)

    def build(self, builder: Builder, sizes: Sizes, level: Level) -> Generative:
        """Returns both stacks and a head."""
        spec = builder.spec
        source = builder.embedding(sizes.source, tied=spec.tied_embeddings and spec.shared_embeddings)
        outputs = sizes.outputs if level is Level.NEXT_TOKEN else sizes.source
        target = source if spec.shared_embeddings else builder.embedding(outputs, tied=spec.tied_embeddings)
        return EncoderDecoderModel(
            builder.encoder(source),
            builder.decoder(target),
            builder.head(sizes.outputs, target),
            level,
            spec.max_length,
        )


class EncoderDecoderModel(Generative):
    """Reads a source sequence and continues a target sequence."""

    def __init__(self, encoder: Encoder, decoder: Decoder, head: Head, level: Level, max_length: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self.level = level
        self._max_length = max_length

    def targets(self, batch: Batch) -> tuple[Shaped[Tensor, "..."], Bool[Tensor, "batch length"]]:
        """Returns the target tokens after BEGIN: each is predicted from those before it; or the classes."""
        if self.level is Level.NEXT_TOKEN:
            return next_tokens(batch.target)
        return batch.targets, batch.target.mask

    def hidden(self, batch: Batch) -> Float[Tensor, "batch length width"]:
        """Returns the decoder's hidden states over the target, the encoder's output in view."""
        return self.read(batch)[0]

    def read(self, batch: Batch) -> tuple[Float[Tensor, "batch length width"], HeadInput]:
        """Returns these, and the encoder's output for the head."""
        target = batch.target
        if self.level is Level.NEXT_TOKEN:
            target = before_next(target)
        memory = self.encoder(batch.source)
        hidden: Tensor = self.decoder(target, memory)
        weights, real = self.take_cross_attention(), self.targets(batch)[1]
        return hidden, HeadInput(real, batch.source, memory.hidden, weights, batch.weights)

    def begin(self, batch: Batch) -> tuple[Cache, Float[Tensor, "batch width"]]:
        """Returns the decoder's cache for the source and BEGIN, and the hidden state of BEGIN."""
        cache = self.decoder.start(self.encoder(batch.source))
        begin = torch.full_like(batch.source.ids[:, :1], BEGIN)
        tokens = Tokens(begin, torch.ones_like(begin, dtype=torch.bool), full=True)
        return cache, self.step(tokens, cache)[:, -1]

    def step(self, tokens: Tokens, past: Cache) -> Float[Tensor, "rows new width"]:
        """Returns the decoder's hidden states of the next tokens."""
        hidden: Tensor = self.decoder(tokens, cache=past)
        return hidden

    def head_input(self, batch: Batch, past: Cache, hidden: Float[Tensor, "batch width"]) -> HeadInput:
        """Returns the source and the encoder's output."""
        memory = None if past.memory is None else past.memory.hidden
        context = super().head_input(batch, past, hidden)
        return replace(context, memory=memory, cross_attention=self.take_cross_attention())

    def input_lengths(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns the lengths of the sources without END."""
        return batch.source.mask.sum(dim=1) - 1

    def room(self, batch: Batch) -> Int[Tensor, " batch"]:
        """Returns the room that BEGIN leaves."""
        return torch.full_like(batch.source.ids[:, 0], self._max_length - 1)
