"""An encoder alone: a stack that reads a sequence, and predicts from it as a whole or of each token."""

from jaxtyping import Bool, Float, Int, Shaped
from numpy import ndarray
from torch import Tensor

from plugformer.interfaces import (
    EVERYTHING,
    Architecture,
    Batch,
    Encoded,
    Head,
    Level,
    Limits,
    Model,
    Side,
    Sizes,
    Stack,
    token_targets,
)
from plugformer.model import Builder, Encoder
from plugformer_blocks import pad, pad_targets

_SPECIAL = 2


class EncoderOnly(Architecture):
    """Reads BEGIN, the input and END: Devlin et al. 2019, https://arxiv.org/abs/1810.04805."""

    levels = frozenset({Level.TOKEN, Level.SEQUENCE})
    stacks = (Stack("encoder", view=EVERYTHING),)

    def collate(
        self, encoded: Encoded, level: Level, *, side: Side = "right", length: int | None = None
    ) -> Batch:
        """Returns the inputs as the source, and the targets of the examples or of their tokens."""
        assert encoded.input is not None  # noqa: S101 (task types of these levels have one)
        return Batch(
            pad(encoded.input, begin=True, side=side, length=length),
            targets=pad_targets(encoded.targets, side=side, length=length),
        )

    def positions(
        self, lengths: Int[ndarray, "examples parts"], level: Level
    ) -> Int[ndarray, "examples sequences"]:
        """Returns the lengths of the inputs with BEGIN and END."""
        return lengths[:, :1] + _SPECIAL

    def limits(self, max_length: int, level: Level) -> Limits:
        """Returns the room that BEGIN and END leave."""
        return Limits(max_length - _SPECIAL, 0, max_length - _SPECIAL)

    def build(self, builder: Builder, sizes: Sizes, level: Level) -> Model:
        """Returns an encoder and a head."""
        embedding = builder.embedding(sizes.source, tied=builder.spec.tied_embeddings)
        return EncoderModel(builder.encoder(embedding), builder.head(sizes.outputs, embedding), level)


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
