"""The contract of attentions: see plugformer.interfaces.attention.

Masks, caching and observation have modules of their own beside this one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from plugformer.interfaces import Attention
from plugformer_testing.attention_reader import Reader, readers, tokens
from plugformer_testing.check import check, fail, require_close, require_finite
from plugformer_testing.layout import PADDED, full
from plugformer_testing.module import example
from plugformer_testing.probes import Turning
from plugformer_testing.subject import CROSS, DECODER, ENCODER, Subject


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model and lengths of query and memory."""

    width: int
    heads: int
    queries: int
    keys: int

    def __str__(self) -> str:
        return f"width {self.width}, {self.heads} heads, {self.queries} queries, {self.keys} keys"


@check(
    Sizes(*sizes)
    for sizes in (
        (24, 4, 1, 1),
        (24, 4, 1, 5),
        (24, 4, 5, 1),
        (24, 4, 7, 40),
        (2, 1, 3, 3),
        (15, 3, 3, 3),
        (35, 5, 3, 4),
    )
)
def shapes(subject: Subject, sizes: Sizes) -> None:
    """The output has the query's shape: for length 1, odd sizes, and beyond the model's longest sequence."""
    memory = torch.randn(3, sizes.keys, sizes.width, dtype=torch.float64)
    query = torch.randn(3, sizes.queries, sizes.width, dtype=torch.float64)
    keys = full(3, sizes.keys).at(Turning())
    for there in subject.serving(CROSS, DECODER, ENCODER):
        reader = Reader(there.perturbed(width=sizes.width, heads=sizes.heads), there.place)
        output, expected = reader.attend(memory, keys, query), query if there.place.cross else memory
        if output.shape != expected.shape:
            fail(f"the output has shape {tuple(output.shape)}, the query {tuple(expected.shape)}")
        require_finite(output, "the output is not finite")


@check()
def every_real_token_is_read(subject: Subject) -> None:
    """Every output depends on every token that its query may see: in a causal place, on those before it."""
    for reader in readers(subject, CROSS, DECODER, ENCODER):
        memory = tokens(subject, 1, 5).requires_grad_()
        output = reader.read(memory, full(1, 5).at(reader.encoding), tokens(subject, 1, 3))
        for number in range(output.shape[1]):
            (gradient,) = torch.autograd.grad(output[0, number].sum(), memory, retain_graph=True)
            seen = gradient[0, : number + 1] if reader.place.causal else gradient[0]
            if not (seen.abs().amax(dim=1) > 0).all():
                fail(f"query {number} does not read every token of the memory that it may see")


@check()
def dropout_ends_with_training(subject: Subject) -> None:
    """Attention dropout ends with training mode; without dropout, training mode changes nothing."""
    attention: Attention = subject.perturbed(attention_dropout=0.5)
    same: Attention = subject.perturbed()
    same.load_state_dict(attention.state_dict())
    x, positions = tokens(subject, 2, 6), full(2, 6).at(Turning())
    expected = Reader(same, subject.place).read(x, positions)
    dropped = Reader(attention, subject.place).read(x, positions)
    require_close(dropped, expected, "attention dropout goes on in evaluation mode")
    trained = Reader(same.train(), subject.place).read(x, positions)
    message = "training mode gives other outputs than evaluation mode, although no dropout is set"
    require_close(trained, expected, message)


def exercise(subject: Subject, attention: Attention, dtype: torch.dtype) -> Tensor:
    """Reads a padded batch."""
    layout = PADDED[2]
    x = example(*layout.real.shape, subject.model.width, dtype=dtype)
    return Reader(attention, subject.place).read(x, layout.at(Turning()))
