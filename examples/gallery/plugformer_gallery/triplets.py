"""Hard negatives: a text, the one that belongs to it, and one that does not but is easily confused with it.

FaceNet: A Unified Embedding for Face Recognition and Clustering, Schroff et al. 2015, section 3.1:
https://arxiv.org/abs/1503.03832; here of cosines.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from plugformer.interfaces import (
    Column,
    Example,
    Examples,
    Head,
    HeadContext,
    HeadInput,
    Input,
    Level,
    OutputType,
    Prediction,
    TaskType,
    Tokenizers,
)
from plugformer_blocks import nearest_texts

FAR = -4.0
"""The cosine of a text that is not there: less than any, by more than the largest margin."""

NAMES = ("text", "right", "wrong")


class Triplets(TaskType):
    """Finds the text that belongs to another one, and learns from a wrong one next to each right one.

    See https://arxiv.org/abs/1503.03832.
    """

    level = Level.VECTOR
    output_type = OutputType.TEXT
    inputs = (Input("text"), Input("right", optional=True), Input("wrong", optional=True))
    columns = (
        Column("text", "text", "input", tokenizer="source"),
        Column("right", "text", "output", tokenizer="source"),
        Column("wrong", "text", "output", tokenizer="source"),
    )
    outputs = 2  # how near the right text is, and the wrong one

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of the texts, and that the first of the two others is right."""
        encoded: dict[str, Any] = {
            name: tokenizers.source.encode(examples[name]) for name in NAMES if name in examples
        }
        return encoded if "wrong" not in encoded else {**encoded, "targets": [0] * len(encoded["text"])}

    def rank(
        self,
        questions: Float[Tensor, "questions size"],
        vectors: Float[Tensor, "examples 3 size"],
        examples: Sequence[Example],
        n_best: int,
    ) -> list[Prediction]:
        """Returns for each text the nearest of all right ones."""
        rows = {example["right"]: row for row, example in enumerate(examples)}
        return nearest_texts(questions, vectors[list(rows.values()), 1], list(rows), n_best)


class Margin(Head):
    """The right text must be nearer than each other by a margin, in cosines.

    See https://arxiv.org/abs/1503.03832.

    Args:
        model: Sizes of the model.
        margin: By how much.
    """

    levels = frozenset({Level.VECTOR})
    output_types = frozenset({OutputType.TEXT})
    probabilities = False

    def __init__(
        self,
        model: HeadContext,  # noqa: ARG002 (every head receives it)
        *,
        margin: Annotated[float, Field(gt=0, le=2)] = 0.2,
    ) -> None:
        super().__init__()
        self.margin = margin

    @classmethod
    def check_case(cls, real: Bool[Tensor, "batch rows"]) -> tuple[Int[Tensor, " batch"], int]:
        """Returns that the first of the other texts is right."""
        return real[:, 0].long() * 0, real.shape[1] - 1

    def vectors(self, hidden: Float[Tensor, "batch rows width"]) -> Float[Tensor, "batch rows width"]:
        """Returns the hidden states, each divided by its length."""
        return functional.normalize(hidden, dim=-1)

    def logits(
        self, hidden: Float[Tensor, "batch rows width"], context: HeadInput
    ) -> Float[Tensor, "batch others"]:
        """Returns the cosines of the first text with the others."""
        vectors = self.vectors(hidden)
        cosines = (vectors[:, :1] * vectors[:, 1:]).sum(dim=-1)
        return cosines.masked_fill(~context.real[:, 1:], FAR)

    def losses(
        self, logits: Float[Tensor, "batch others"], targets: Int[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Returns by how much others are too near, added up."""
        right = logits.gather(1, targets[:, None])
        too_near = (self.margin + logits - right).clamp(min=0).scatter(1, targets[:, None], 0.0)
        return too_near.sum(dim=1)
