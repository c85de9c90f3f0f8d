"""An encoder whose layers share their parameters."""

from collections.abc import Sequence
from typing import Annotated

from jaxtyping import Bool, Float, Int, Shaped
from numpy import ndarray
from pydantic import Field
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import BIDIRECTIONAL, Architecture, Batch, Encoded, Head, Level, Model, Ragged
from plugformer.model import Builder, Encoder, Limits, Sizes
from plugformer_blocks import pad, pad_targets, token_targets


class ALBERT(Architecture):
    """Reads BEGIN, the input and END with one layer, again and again.

    ALBERT, Lan et al. 2020, section 3.1, cross-layer parameter sharing: https://arxiv.org/abs/1909.11942.

    Args:
        groups: Of neighboring layers, each of which has parameters of its own; the paper has one.

    Raises:
        ConfigurationError: By `build`: layers of a group have different settings.
    """

    levels = frozenset({Level.TOKEN, Level.SEQUENCE})
    stacks = (("encoder", BIDIRECTIONAL),)

    def __init__(
        self, *, groups: Annotated[int, Field(ge=1, description="Of layers that share parameters.")] = 1
    ) -> None:
        self._groups = groups

    def build(self, builder: Builder, sizes: Sizes, level: Level) -> Model:
        """Returns an encoder and a head; every layer of a group is its first layer."""
        embedding = builder.embedding(sizes.source, tied=builder.spec.tied_embeddings)
        encoder, layers = builder.encoder(embedding), builder.spec.stacks["encoder"].layers
        group = [number * self._groups // len(layers) for number in range(len(layers))]
        first = [group.index(each) for each in group]
        for number, shared in enumerate(first):
            if layers[number] != layers[shared]:
                raise ConfigurationError(
                    f"layer {number} shares the parameters of layer {shared}, and has other settings; "
                    f"take model.encoder.per_layer.{number} out"
                )
        encoder.layers = nn.ModuleList(encoder.layers[shared] for shared in first)
        return EncoderModel(encoder, builder.head(sizes.outputs, embedding), level)

    def collate(
        self,
        encoded: Encoded,
        level: Level,  # noqa: ARG002
        *,
        lengths: Sequence[int] = (),
    ) -> Batch:
        """Returns the inputs as the source, and the targets of the examples or of their tokens."""
        (length,) = lengths or (0,)
        source = pad(encoded.input or Ragged.of([]), begin=True, length=length)
        return Batch(source, targets=pad_targets(encoded.targets, length=length))

    def positions(self, lengths: Int[ndarray, "examples parts"], level: Level) -> Int[ndarray, "examples 1"]:  # noqa: ARG002
        """Returns the lengths of the inputs with BEGIN and END."""
        return lengths[:, :1] + 2

    def limits(self, max_length: int, level: Level) -> Limits:  # noqa: ARG002
        """Returns the room that BEGIN and END leave."""
        return Limits(max_length - 2, 0, max_length - 2)


class EncoderModel(Model):
    """Reads a sequence and predicts from it."""

    def __init__(self, encoder: Encoder, head: Head, level: Level) -> None:
        super().__init__()
        self.encoder, self.head, self.level = encoder, head, level

    def targets(self, batch: Batch) -> tuple[Shaped[Tensor, "..."], Bool[Tensor, "batch length"]]:
        """Returns the targets, and which tokens they are predicted from."""
        by_token = self.level is Level.TOKEN
        return token_targets(batch.targets) if by_token else (batch.targets, batch.source.mask)

    def hidden(self, batch: Batch) -> Float[Tensor, "batch length width"]:
        """Returns the encoder's hidden states."""
        hidden: Tensor = self.encoder(batch.source).hidden
        return hidden
