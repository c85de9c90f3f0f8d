"""What a component learns about the model it becomes a part of.

Everything here stands in a task's `model:` (or follows from it) and is the same whichever component is
chosen, so that swapping a part by name changes that part and nothing else.
"""

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True, kw_only=True)
class LayerContext:
    """Where in a model a part stands.

    What a component computes may depend on it: a schedule over the depth, buckets for the past alone. One
    that cannot serve a place, such as a recurrent mixer asked to read another stack, raises
    ConfigurationError in its constructor; `plugformer validate` then says where the task file asks for it.

    Attributes:
        stack: Name of the stack, as in a task file: `encoder` or `decoder`.
        layer: Number of the part's layer, from 0, which is the number of layers below it: 0 also for a
            positional encoding, and `layers` for what stands above the last layer, the final norm and a head.
        layers: Number of layers of the stack.
        causal: Whether a token may read only itself and what stands before it; not true of cross-attention.
        cross: Whether the part reads another stack: cross-attention, and the encoding that it is given.
        read_by: Number of layers of the stack that reads this one's output; 0 where none does.
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
    """What a part is told: sizes and rates that all parts of a model share, and where it stands.

    Attributes:
        width: D, the size of the residual stream.
        heads: H, the number of query heads (of softmax maps).
        ffn_width: Size of the hidden layer of a feed-forward network.
        dropout: Rate on embeddings and on each sublayer's output; applied by the core.
        attention_dropout: Rate on attention weights; 0 unless the task sets it.
        max_length: Longest sequence, in tokens, that the model must be able to process.
        place: Where in the model the part stands.
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
    """What a head learns besides: what it predicts.

    Attributes:
        outputs: Number of classes: the size of the target vocabulary, or the number of labels.
        tied: The target embedding, (outputs, width), if the task ties it to the output projection; a head
            that projects to the vocabulary then uses it as its weight.
        label_smoothing: Share of probability spread evenly over all outputs in the training loss.
    """

    outputs: int
    tied: nn.Parameter | None = None
    label_smoothing: float = 0.0
