"""An encoder reads the input, and a head predicts from each token."""

from collections.abc import Sequence

from jaxtyping import Bool, Float, Int, Shaped
from numpy import ndarray
from torch import Tensor

from plugformer.interfaces import BIDIRECTIONAL, Architecture, Batch, Encoded, Head, Level, Model, Ragged
from plugformer.model import Builder, Encoder, Limits, Sizes
from plugformer_blocks import pad, pad_targets, token_targets


class NewComponent(Architecture):
    """The encoder reads BEGIN, the input and END.

    BERT, Devlin et al. 2019, section 3: https://arxiv.org/abs/1810.04805.
    """

    levels = frozenset({Level.TOKEN})
    stacks = (("encoder", BIDIRECTIONAL),)

    def collate(self, encoded: Encoded, level: Level, *, lengths: Sequence[int] = ()) -> Batch:
        """Returns the inputs as the source, and the targets of their tokens, if there are any."""
        assert encoded.input is not None
        (length,) = lengths or (0,)
        source = pad(encoded.input, begin=True, length=length)
        if not isinstance(encoded.targets, Ragged):
            return Batch(source)
        return Batch(source, targets=pad_targets(encoded.targets, length=length))

    def positions(
        self, lengths: Int[ndarray, "examples parts"], level: Level
    ) -> Int[ndarray, "examples sequences"]:
        """Returns the lengths of the inputs in a batch, with BEGIN and END."""
        return lengths[:, :1] + 2

    def limits(self, max_length: int, level: Level) -> Limits:
        """Returns the largest length of an input; END and BEGIN take one position each."""
        return Limits(max_length - 2, 0, max_length - 2)

    def build(self, builder: Builder, sizes: Sizes, level: Level) -> Model:
        """Returns an encoder and a head."""
        embedding = builder.embedding(sizes.source, tied=builder.spec.tied_embeddings)
        encoder, head = builder.encoder(embedding), builder.head(sizes.outputs, embedding)
        return NewComponentModel(encoder, head)


class NewComponentModel(Model):
    """Predicts from each token of a sequence."""

    level = Level.TOKEN

    def __init__(self, encoder: Encoder, head: Head) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def targets(self, batch: Batch) -> tuple[Shaped[Tensor, "..."], Bool[Tensor, "batch length"]]:
        """Returns the targets, and which tokens they are predicted from."""
        return token_targets(batch.targets)

    def hidden(self, batch: Batch) -> Float[Tensor, "batch length width"]:
        """Returns the encoder's hidden states."""
        hidden: Tensor = self.encoder(batch.source).hidden
        return hidden
