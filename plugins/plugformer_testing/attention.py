"""The contract of attentions: see plugformer.interfaces.attention.

Masks, caching and observation have modules of their own beside this one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import (
    Attention,
    AttentionContext,
    LayerContext,
    NoPositions,
    Observer,
    Padding,
    Positions,
)
from plugformer_testing.check import check, fail, require_close, require_finite
from plugformer_testing.layout import LAYOUTS, Layout, full
from plugformer_testing.probes import Sloping, Turning
from plugformer_testing.subject import CROSS, DECODER, ENCODER, Subject


@dataclass(frozen=True)
class Reader:
    """An attention in a place of a model, and where the tokens stand that it reads.

    Attributes:
        attention: In double precision and evaluation mode, its parameters perturbed.
        place: The place that it is constructed for.
        positions: Of the sequence that it reads.
    """

    attention: Attention
    place: LayerContext
    positions: Positions

    def __str__(self) -> str:
        kinds = {Turning: "an encoding that rotates", Sloping: "an encoding that adds to scores"}
        return f"{self.place} under {kinds.get(type(self.positions.encoding), 'no encoding')}"

    def at(self, positions: Positions) -> "Reader":
        """Returns the same attention, which reads tokens elsewhere."""
        return replace(self, positions=positions)

    def attend(
        self,
        x: Float[Tensor, "batch key width"],
        query: Float[Tensor, "batch query width"] | None = None,
        observer: Observer | None = None,
    ) -> Float[Tensor, "batch query width"]:
        """Reads a whole sequence.

        Args:
            x: The sequence.
            query: Who reads it in cross-attention; everywhere else, and if None, `x` itself.
            observer: Who receives what is recorded.
        """
        asking, keys = self.positions, self.positions
        if not self.place.cross or query is None:
            query = x
        if self.place.cross:
            asking = Positions.of(torch.ones(query.shape[:2], dtype=torch.bool), keys.encoding, Padding.NONE)
        context = AttentionContext(asking, keys, causal=self.place.causal, observer=observer)
        return self.attention.attend(query, self.attention.project(x, keys), context)

    def read(
        self,
        x: Float[Tensor, "batch key width"],
        query: Float[Tensor, "batch query width"] | None = None,
        observer: Observer | None = None,
    ) -> Float[Tensor, "batch query width"]:
        """Returns the same with zeros at padding, which may be anything."""
        output = self.attend(x, query, observer)
        return output if self.place.cross else output.masked_fill(~self.positions.mask[..., None], 0.0)


def readers(subject: Subject, layout: Layout, *places: LayerContext) -> Iterator[Reader]:
    """Yields the attention in those of the places that it serves, under encodings of every sort.

    They leave it alone, rotate its heads, and add to its scores.

    Raises:
        ConfigurationError: It refuses all the places.
    """
    for there in subject.serving(*places):
        for encoding in (NoPositions(), Turning(), Sloping(subject.model.heads)):
            yield Reader(there.perturbed(), there.place, layout.at(encoding))


class Sizes(NamedTuple):
    """Sizes of a model and lengths of query and memory."""

    width: int
    heads: int
    queries: int
    keys: int


@check(
    (
        *(Sizes(24, 4, *lengths) for lengths in ((1, 1), (1, 5), (5, 1), (7, 40))),
        *(Sizes(2, 1, 3, 3), Sizes(15, 3, 3, 3), Sizes(35, 5, 3, 4)),
    )
)
def shapes(subject: Subject, sizes: Sizes) -> None:
    """The output has the query's shape: for length 1, odd sizes, and beyond the model's longest sequence."""
    memory = torch.randn(3, sizes.keys, sizes.width, dtype=torch.float64)
    query = torch.randn(3, sizes.queries, sizes.width, dtype=torch.float64)
    for there in subject.serving(CROSS, DECODER, ENCODER):
        attention = there.perturbed(width=sizes.width, heads=sizes.heads)
        output = Reader(attention, there.place, full(3, sizes.keys).at(Turning())).attend(memory, query)
        expected = (query if there.place.cross else memory).shape
        if output.shape != expected:
            fail(f"the output has shape {tuple(output.shape)}, the query {tuple(expected)}")
        require_finite(output, "the output is not finite")


@check()
def every_real_token_is_read(subject: Subject) -> None:
    """Every output depends on every token that its query may see: in a causal place, on those before it."""
    for reader in readers(subject, full(1, 5), CROSS, DECODER, ENCODER):
        memory = subject.tokens(1, 5).requires_grad_()
        output = reader.read(memory, subject.tokens(1, 3))
        for number in range(output.shape[1]):
            (gradient,) = torch.autograd.grad(output[0, number].sum(), memory, retain_graph=True)
            seen = gradient[0, : number + 1] if reader.place.causal else gradient[0]
            if not (seen.abs().amax(dim=1) > 0).all():
                fail(f"query {number} does not read every token of the memory that it may see")


@check(LAYOUTS)
def dropout_ends_with_training(subject: Subject, layout: Layout) -> None:
    """Attention dropout ends with training mode; without dropout, training mode changes nothing."""
    x, query = subject.tokens(*layout.mask.shape), subject.tokens(len(layout.rows), 3)
    for there in subject.serving(CROSS, DECODER, ENCODER):
        attention: Attention = there.perturbed(attention_dropout=0.5)
        same: Attention = there.perturbed()
        same.load_state_dict(attention.state_dict())
        readers = [Reader(each, there.place, layout.at(Turning())) for each in (same, attention)]
        expected, dropped = (reader.read(x, query) for reader in readers)
        require_close(dropped, expected, "attention dropout goes on in evaluation mode")
        same.train()
        message = "training mode gives other outputs than evaluation mode, although no dropout is set"
        require_close(readers[0].read(x, query), expected, f"{message}, in {there.place}")
