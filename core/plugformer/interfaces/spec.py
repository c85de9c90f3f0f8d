"""The specification of a model: plain data without tensors, and the contexts that its parts receive."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from torch import nn

from plugformer.interfaces.batch import Batch, Encoded
from plugformer.interfaces.position import BIDIRECTIONAL, View
from plugformer.interfaces.prediction import Input, Level

if TYPE_CHECKING:
    from plugformer.interfaces.model import Model


@dataclass(frozen=True, kw_only=True)
class Place:
    """The place of a part in a model.

    A constructor raises ConfigurationError for a place that the component does not support.

    Attributes:
        stack: `encoder` or `decoder`.
        layer: The number of layers below the part: 0 for a positional encoding, `layers` for the head.
        layers: Number of layers of the stack.
        view: Which tokens of its sequence a token sees; BIDIRECTIONAL for cross-attention.
        cross: Whether the part reads another stack: cross-attention and its positional encoding.
        read_by: Number of layers of other stacks that read this stack's output.
    """

    stack: str = "encoder"
    layer: int = 0
    layers: int = 1
    view: View = BIDIRECTIONAL
    cross: bool = False
    read_by: int = 0

    @property
    def causal(self) -> bool:
        """Whether a token reads only itself and the tokens before it."""
        return self.view.causal

    def __str__(self) -> str:
        """Returns the place in words, such as `layer 2 of the decoder` (numbered from 0)."""
        where = "the" if self.layer == self.layers else f"layer {self.layer} of the"
        return f"{'cross-attention in ' * self.cross}{where} {self.stack}"


@dataclass(frozen=True, kw_only=True)
class ModelContext:
    """The sizes and rates that all parts of a model share, and the place of one part.

    Attributes:
        width: The size of the residual stream.
        heads: The number of query heads (of softmax maps).
        ffn_width: Size of the hidden layer of a feed-forward network.
        dropout: Rate on embeddings and on each sublayer's output; applied by the core.
        attention_dropout: Rate on attention weights.
        max_length: Longest sequence, in tokens, that the model must be able to process.
        place: The place of the part.
    """

    width: int
    heads: int
    ffn_width: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    max_length: int = 512
    place: Place = Place()


@dataclass(frozen=True, kw_only=True)
class HeadContext(ModelContext):
    """The context of a head.

    Attributes:
        outputs: Number of classes: the size of the target vocabulary, or the number of labels.
        inputs: The task type's inputs. At level `vector` each has a column of `hidden`, one that is `many`
            the last ones.
        tied: The target embedding, (outputs, width), for a head to use as its weight; None if not tied.
        shared_vocabulary: Whether source and target have one vocabulary: a token has the same number in both.
    """

    outputs: int
    inputs: tuple[Input, ...] = (Input(),)
    tied: nn.Parameter | None = None
    shared_vocabulary: bool = True


@dataclass(frozen=True, kw_only=True)
class ResidualContext(ModelContext):
    """The context of a residual connection: the names of its layer's sublayers, and a maker of new norms."""

    sublayers: tuple[str, ...]
    norm: Callable[[], nn.Module]


@dataclass(frozen=True)
class Sizes:
    """The sizes that follow from the data: of the source vocabulary, and the number of the head's outputs."""

    source: int
    outputs: int


class Limits(NamedTuple):
    """The most tokens of rows of inputs, of outputs, and of the longest together, without special ones."""

    input: int
    output: int
    together: int

    def of(self, part: str) -> int:
        """Returns the limit of `output`, or of an input."""
        return self.output if part == "output" else self.input


class Architecture(ABC):
    """Builds a model from stacks, and batches from examples.

    A component is constructed as `SomeArchitecture(**options)`. If it reads other inputs than one, the checks
    take the examples of an installed task type that it reads, such as one of the same manifest.

    Attributes:
        levels: The levels that it can predict from.
        stacks: An `encoder` of the input, a `decoder`, which continues a text and reads the encoder if there
            is one, or both in this order; each with the view of its tokens.
    """

    levels: ClassVar[frozenset[Level]]
    stacks: ClassVar[tuple[tuple[str, View], ...]]

    @classmethod
    def reads(cls, inputs: tuple[Input, ...], level: Level) -> bool:  # noqa: ARG003 (a default)
        """Returns whether it reads these inputs: by default one with one row; decoders alone need none."""
        if not inputs:
            return "encoder" not in dict(cls.stacks)
        return len(inputs) == 1 and not inputs[0].many

    @abstractmethod
    def collate(self, encoded: Encoded, level: Level, *, lengths: Sequence[int] = ()) -> Batch:
        """Returns examples, or questions without outputs, as a batch with special tokens and padding.

        Padding is on the right. `lengths` has the least length of each sequence, in the order of the columns
        of `positions`; if empty, a sequence is as long as its longest row.
        """

    @abstractmethod
    def positions(
        self, lengths: Int[ndarray, "examples parts"], level: Level
    ) -> Int[ndarray, "examples sequences"]:
        """Returns the lengths of each example's sequences in a batch, without padding, for a token budget.

        `lengths` are tokens in the longest row of each input, and in the output, without special tokens; -1
        if there is none.
        """

    def rows(
        self,
        counts: Int[ndarray, "examples parts"],
        level: Level,  # noqa: ARG002 (a default)
    ) -> Int[ndarray, "#examples #sequences"]:
        """Returns the rows of each sequence of `positions`, by default one, from those of each part.

        There is a column for each sequence, or one for all. A class that defines `positions` for another
        number of sequences than the class that it derives from also defines `rows`.
        """
        return np.ones_like(counts[:, :1])

    @abstractmethod
    def limits(self, max_length: int, level: Level) -> Limits:
        """Returns the limits of examples for sequences of at most `max_length` positions."""

    @abstractmethod
    def build(self, builder: Any, sizes: Sizes, level: Level) -> "Model":
        """Returns a model, from the parts that a `plugformer.model.Builder` makes."""


@dataclass(frozen=True)
class PartSpec:
    """One component, which may be used in many layers; equal if class and options are equal.

    Attributes:
        make: The component's class, or a function: `make(context, **options)` returns the component.
        options: The component's own options.
        label: The component's name for messages, by default that of the class or function.
        origin: The keys that lead to its settings in a task, if it comes from one.
    """

    make: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    label: str = field(default="", compare=False)
    origin: tuple[str | int, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", getattr(self.make, "__qualname__", repr(self.make)))


@dataclass(frozen=True)
class LayerSpec:
    """One layer.

    Attributes:
        sublayers: The parts, from below: `attention`, `cross_attention` to another stack, `feed_forward`, and
            further ones by names of their own.
        norm: The norm of the sublayers.
        residual: The residual connection that joins the sublayers.
    """

    sublayers: Mapping[str, PartSpec]
    norm: PartSpec
    residual: PartSpec


@dataclass(frozen=True)
class StackSpec:
    """A stack of layers above token embeddings.

    Attributes:
        name: This, `view` and `read_by` as in `Place`.
        layers: The layers from first to last, at least one.
        position: The positional encoding of self-attention.
        norm: The final norm.
        cross_position: The encoding of cross-attention; None if the stack reads no other one.
    """

    name: str
    view: View
    layers: tuple[LayerSpec, ...]
    position: PartSpec
    norm: PartSpec
    cross_position: PartSpec | None = None
    read_by: int = 0

    def place(self, layer: int = 0, *, cross: bool = False) -> Place:
        """Returns the place of a part with this number of layers below; `cross` if it reads another stack."""
        view, layers, read_by = BIDIRECTIONAL if cross else self.view, len(self.layers), self.read_by
        return Place(stack=self.name, layer=layer, layers=layers, view=view, cross=cross, read_by=read_by)


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A model without tensors and without the sizes that follow from the data.

    Attributes:
        architecture: Puts stacks and head together.
        level: What the head predicts from, one of the architecture's levels.
        inputs: The inputs of examples; the architecture must be able to read them.
        stacks: The stacks by name, in the order of computation.
        head: Predicts from the last stack.
        width: This and the next ones as in `ModelContext`.
        shared_vocabulary: Whether source and target have one vocabulary.
        shared_embeddings: Whether they have one embedding.
        tied_embeddings: Whether the output projection is the target embedding.
        scaled_embeddings: Whether embeddings are multiplied by the square root of the width.
        token_dropout: Share of tokens that are UNKNOWN in training.
        final_norm: Whether stacks end with a norm; if None, the last residual connection decides.
        recompute: Whether training keeps only the inputs of layers and computes each layer twice.
        initialization: Draws the initial values; None if saved values replace them.
        parametrization: What initial values and learning rates follow from; None where there are none.
        seed: Seed of the initial values.
    """

    architecture: Architecture
    level: Level
    stacks: Mapping[str, StackSpec]
    head: PartSpec
    width: int
    heads: int
    ffn_width: int
    max_length: int = 512
    dropout: float = 0.0
    attention_dropout: float = 0.0
    shared_vocabulary: bool = True
    shared_embeddings: bool = False
    tied_embeddings: bool = False
    scaled_embeddings: bool = True
    token_dropout: float = 0.0
    final_norm: bool | None = None
    recompute: bool = False
    initialization: PartSpec | None = None
    parametrization: PartSpec | None = None
    seed: int = 1
    inputs: tuple[Input, ...] = (Input(),)

    def context(self, place: Place) -> ModelContext:
        """Returns the context of the component at a place."""
        names = [field.name for field in fields(ModelContext) if field.name != "place"]
        return ModelContext(**{name: getattr(self, name) for name in names}, place=place)
