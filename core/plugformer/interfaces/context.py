"""The contexts of components: the sizes of the model and their place in it.

They follow from the settings of the model and not from the chosen components, so a swapped part changes
nothing else.
"""

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True, kw_only=True)
class LayerContext:
    """The place of a part in a model.

    A component may depend on it, for example with a schedule over the depth. A component that cannot serve a
    place raises ConfigurationError in its constructor, for example a recurrence in cross-attention.

    Attributes:
        stack: Name of the stack: `encoder` or `decoder`.
        layer: Number of the layer, from 0: the number of layers below the part. It is 0 for a positional
            encoding, and `layers` for the final norm and the head.
        layers: Number of layers of the stack.
        causal: Whether a token may read only itself and the tokens before it; False for cross-attention.
        cross: Whether the part reads another stack: cross-attention and its positional encoding.
        read_by: Number of layers of other stacks that read this stack's output.
    """

    stack: str = "encoder"
    layer: int = 0
    layers: int = 1
    causal: bool = False
    cross: bool = False
    read_by: int = 0

    def __str__(self) -> str:
        """Returns the place in words, such as `layer 2 of the decoder` (numbered from 0)."""
        where = "the" if self.layer == self.layers else f"layer {self.layer} of the"
        return f"{'cross-attention in ' * self.cross}{where} {self.stack}"


@dataclass(frozen=True, kw_only=True)
class ModelContext:
    """The sizes and rates that all parts of a model share, and the place of one part.

    Attributes:
        width: D, the size of the residual stream.
        heads: H, the number of query heads (of softmax maps).
        ffn_width: Size of the hidden layer of a feed-forward network.
        dropout: Rate on embeddings and on each sublayer's output; applied by the core.
        attention_dropout: Rate on attention weights; 0 unless the task sets it.
        max_length: Longest sequence, in tokens, that the model must be able to process.
        place: The place of the part.
    """

    width: int
    heads: int
    ffn_width: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    max_length: int = 512
    place: LayerContext = LayerContext()


@dataclass(frozen=True, kw_only=True)
class HeadContext(ModelContext):
    """The context of a head.

    Attributes:
        outputs: Number of classes: the size of the target vocabulary, or the number of labels.
        tied: The target embedding, (outputs, width), for a head that projects to the vocabulary to use as its
            weight; None if they are not tied.
        label_smoothing: Share of probability spread evenly over all outputs in the training loss.
    """

    outputs: int
    tied: nn.Parameter | None = None
    label_smoothing: float = 0.0
