"""How the suite lets an attention read: itself or another sequence, as its place has it."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import (
    Attention,
    NoPositions,
    Observer,
    Padding,
    Place,
    PositionalEncoding,
    Positions,
    Scope,
)
from plugformer_testing.probes import Sloping, Turning
from plugformer_testing.subject import Subject


@dataclass(frozen=True)
class Reader:
    """An attention in a place of a model, under a positional encoding.

    Attributes:
        attention: In double precision and evaluation mode, its parameters perturbed.
        place: The place that it is constructed for.
        encoding: Of the sequence that it reads.
    """

    attention: Attention
    place: Place
    encoding: PositionalEncoding = NoPositions()  # noqa: RUF009 (it has no state)

    def __str__(self) -> str:
        kinds = {Turning: "an encoding that rotates", Sloping: "an encoding that adds to scores"}
        return f"{self.place} under {kinds.get(type(self.encoding), 'no encoding')}"

    def attend(
        self,
        x: Float[Tensor, "batch key width"],
        positions: Positions,
        query: Float[Tensor, "batch query width"] | None = None,
        observer: Observer | None = None,
    ) -> Float[Tensor, "batch query width"]:
        """Reads a whole sequence.

        Args:
            x: The sequence.
            positions: Where its tokens stand.
            query: Who reads it in cross-attention; everywhere else, and if None, `x` itself.
            observer: Who receives what is recorded.
        """
        asking = positions
        if not self.place.cross or query is None:
            query = x
        if self.place.cross:
            asking = Positions.of(
                torch.ones(query.shape[:2], dtype=torch.bool), positions.encoding, Padding.NONE
            )
        scope = Scope(asking, positions, causal=self.place.causal, observer=observer)
        return self.attention.attend(query, self.attention.project(x, positions), scope)

    def read(
        self,
        x: Float[Tensor, "batch key width"],
        positions: Positions,
        query: Float[Tensor, "batch query width"] | None = None,
        observer: Observer | None = None,
    ) -> Float[Tensor, "batch query width"]:
        """Returns the same with zeros at padding, which may be anything."""
        output = self.attend(x, positions, query, observer)
        return output if self.place.cross else output.masked_fill(~positions.real[..., None], 0.0)


def readers(subject: Subject, *places: Place) -> Iterator[Reader]:
    """Yields the attention in those of the places that it serves, under encodings of every sort.

    They leave it alone, rotate its heads, and add to its scores.

    Raises:
        ConfigurationError: It refuses all the places.
    """
    for there in subject.serving(*places):
        for encoding in (NoPositions(), Turning(), Sloping(subject.model.heads)):
            yield Reader(there.perturbed(), there.place, encoding)


def tokens(subject: Subject, *shape: int) -> Float[Tensor, "batch length width"]:
    """Returns random hidden states."""
    return torch.randn(*shape, subject.model.width, dtype=torch.float64)
