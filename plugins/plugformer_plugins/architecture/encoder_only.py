"""An encoder alone: a stack that reads a sequence and predicts from it, from its tokens, or from vectors."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy import ndarray
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    BIDIRECTIONAL,
    END,
    Architecture,
    Batch,
    Encoded,
    Head,
    Input,
    Level,
    Model,
    Tokens,
)
from plugformer.model import Builder, Encoder, Limits, Sizes
from plugformer_blocks import Pooling, pad, pad_targets, pool, token_targets

_SPECIAL = 2


class EncoderOnly(Architecture):
    """One stack reads the input and predicts one output for it, or one for each token.

    Reads BEGIN, the input and END: Devlin et al. 2019, https://arxiv.org/abs/1810.04805.

    At level `vector` it reads each row of each input by itself, as Reimers and Gurevych 2019, section 3, and
    pools its hidden states: https://arxiv.org/abs/1908.10084.

    Args:
        pooling: How the hidden states of a row become its vector; `mean` if None. Heads pool at other levels.

    Raises:
        ConfigurationError: By `build`: a head pools.
    """

    levels = frozenset({Level.TOKEN, Level.SEQUENCE, Level.VECTOR})
    stacks = (("encoder", BIDIRECTIONAL),)

    def __init__(self, *, pooling: Pooling | None = None) -> None:
        self._pooling = pooling

    @classmethod
    def reads(cls, inputs: tuple[Input, ...], level: Level) -> bool:
        """Returns whether there is one input with one row, or any number at level `vector`."""
        return bool(inputs) if level is Level.VECTOR else super().reads(inputs, level)

    def collate(self, encoded: Encoded, level: Level, *, lengths: Sequence[int] = ()) -> Batch:
        """Returns the input as the source, or all inputs, and the targets of the examples or their tokens.

        Where an input is several texts, marks called `segment` number these.
        """
        lengths = lengths or [0] * len(encoded.inputs)
        targets = pad_targets(encoded.targets, length=lengths[0])
        read = {}
        # A question may lack an optional input.
        for (name, rows), length in zip(encoded.inputs.items(), lengths, strict=False):
            read[name] = pad(rows, begin=True, length=length)
        if level is Level.VECTOR:
            return Batch(reads=read, targets=targets)
        (source,) = read.values()
        if encoded.input is not None and (encoded.input.values == END).any():
            ends = (source.ids == END).long()
            source = replace(source, marks={"segment": ends.cumsum(dim=1) - ends})
        return Batch(source, targets=targets)

    def positions(
        self, lengths: Int[ndarray, "examples parts"], level: Level
    ) -> Int[ndarray, "examples sequences"]:
        """Returns the lengths of the inputs with BEGIN and END."""
        return lengths[:, :-1] + _SPECIAL

    def rows(
        self, counts: Int[ndarray, "examples parts"], level: Level
    ) -> Int[ndarray, "#examples #sequences"]:
        """Returns the numbers of rows of the inputs at level `vector`, elsewhere one."""
        return counts[:, :-1] if level is Level.VECTOR else super().rows(counts, level)

    def limits(self, max_length: int, level: Level) -> Limits:
        """Returns the room that BEGIN and END leave."""
        return Limits(max_length - _SPECIAL, 0, sys.maxsize)

    def build(self, builder: Builder, sizes: Sizes, level: Level) -> Model:
        """Returns an encoder and a head."""
        if self._pooling is not None and level is not Level.VECTOR:
            raise ConfigurationError(f"pooling: at level {level} the head may pool; take it out here")
        embedding = builder.embedding(sizes.source, tied=builder.spec.tied_embeddings)
        encoder, head = builder.encoder(embedding), builder.head(sizes.outputs, embedding)
        if level is not Level.VECTOR:
            return EncoderModel(encoder, head, level)
        return VectorModel(encoder, head, builder.spec.inputs, self._pooling or "mean")


class EncoderModel(Model):
    """Reads a sequence and predicts from it."""

    def __init__(self, encoder: Encoder, head: Head, level: Level) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.level = level

    def targets(self, batch: Batch) -> tuple[Shaped[Tensor, "..."], Bool[Tensor, "batch length"]]:
        """Returns the targets (none of questions), and which tokens they are predicted from."""
        if self.level is Level.TOKEN:
            return token_targets(batch.targets)
        return batch.targets, batch.source.mask

    def hidden(self, batch: Batch) -> Float[Tensor, "batch length width"]:
        """Returns the encoder's hidden states."""
        hidden: Tensor = self.encoder(batch.source).hidden
        return hidden


class VectorModel(EncoderModel):
    """Reads each row of each input by itself, and compares their vectors.

    The columns of an example are the inputs in their order. One that is absent has a column of zeros.
    """

    def __init__(self, encoder: Encoder, head: Head, inputs: tuple[Input, ...], pooling: Pooling) -> None:
        super().__init__(encoder, head, Level.VECTOR)
        self.inputs = inputs
        self.pooling = pooling

    def targets(self, batch: Batch) -> tuple[Shaped[Tensor, "..."], Bool[Tensor, "batch columns"]]:
        """Returns the targets (none of questions), and which columns have a row."""
        return batch.targets, self._columns(batch, lambda tokens: tokens.mask.any(dim=1))

    def hidden(self, batch: Batch) -> Float[Tensor, "batch columns width"]:
        """Returns the vectors."""
        return self._columns(batch, self._vectors)

    def _vectors(self, tokens: Tokens) -> Float[Tensor, "rows width"]:
        return pool(self.encoder(tokens).hidden, tokens.mask, self.pooling)

    def _columns(
        self, batch: Batch, values: Callable[[Tokens], Tensor]
    ) -> Shaped[Tensor, "batch columns ..."]:
        found = {name: tokens.by_example(values(tokens)) for name, tokens in batch.reads.items()}
        absent = torch.zeros_like(next(iter(found.values()))[:, :1])
        return torch.cat([found.get(part.name, absent) for part in self.inputs], dim=1)
