"""What attention must not see: the future, padding, other sequences of the batch."""

from collections.abc import Iterable

import torch
from torch import Tensor

from plugformer_testing.attention import readers
from plugformer_testing.check import check, fail, require_close, require_finite
from plugformer_testing.layout import FULL, LAYOUTS, PADDED, Layout, full
from plugformer_testing.subject import CROSS, DECODER, ENCODER, Subject


@check(LAYOUTS[1:])
def the_future_is_not_seen(subject: Subject, layout: Layout) -> None:
    """Under a causal context, changing a token changes no output before it."""
    x = subject.tokens(*layout.mask.shape)
    for reader in readers(subject, layout, DECODER):
        before = reader.read(x)
        for first in range(1, x.shape[1]):
            now = reader.read(torch.cat([x[:, :first], torch.randn_like(x[:, first:])], dim=1))
            what = f"the outputs before token {first} change with the tokens from there on"
            require_close(now[:, :first], before[:, :first], f"{what}: attention sees the future")


@check(FULL[1:])
def no_gradient_from_the_future(subject: Subject, layout: Layout) -> None:
    """Under a causal context, no gradient flows from an output to a later token."""
    for reader in readers(subject, layout, DECODER):
        x = subject.tokens(*layout.mask.shape).requires_grad_()
        outputs = reader.read(x)
        for last in range(x.shape[1] - 1):
            (gradient,) = torch.autograd.grad(outputs[:, last].sum(), x, retain_graph=True)
            if not gradient[:, last + 1 :].abs().max() < 1e-9:
                fail(f"output {last} has a gradient at later tokens: attention sees the future")


@check(PADDED)
def padding_is_not_seen(subject: Subject, layout: Layout) -> None:
    """Changing what stands at padding changes no output of a real token, in self- or cross-attention."""
    real, x = layout.mask, subject.tokens(*layout.mask.shape)
    changed = torch.where(real[..., None], x, 3 * subject.tokens(*real.shape))
    query = subject.tokens(len(real), 3)
    for reader in readers(subject, layout, ENCODER, DECODER, CROSS):
        one, other = (reader.read(each, query) for each in (x, changed))
        what = f"outputs change with what stands at padding, in {reader}"
        require_close(other, one, f"{what}: attention sees padding")


@check(PADDED)
def no_gradient_from_padding(subject: Subject, layout: Layout) -> None:
    """No gradient flows from the output of a real token to padding."""
    for reader in readers(subject, layout, ENCODER, DECODER):
        x = subject.tokens(*layout.mask.shape).requires_grad_()
        (gradient,) = torch.autograd.grad(reader.read(x).square().sum(), x)
        if not (gradient[~layout.mask].abs() < 1e-9).all():
            fail("outputs of real tokens have a gradient at padding: attention sees padding")


@check(PADDED)
def padding_moves_nothing(subject: Subject, layout: Layout) -> None:
    """A padded row gives what the same tokens give without padding, wherever the padding is."""
    x = subject.tokens(*layout.mask.shape)
    for reader in readers(subject, layout, ENCODER, DECODER):
        padded = reader.read(x)
        for row, real in enumerate(layout.mask):
            unpadded = full(1, int(real.sum())).at(reader.positions.encoding)
            alone = reader.at(unpadded).read(x[None, row, real])[0]
            require_close(padded[row, real], alone, f"row {row} differs from the same tokens without padding")


@check(LAYOUTS[2:])
def rows_are_independent(subject: Subject, layout: Layout) -> None:
    """A sequence in a batch gives what it gives alone."""
    _read_in_parts(subject, layout, torch.arange(len(layout.rows))[:, None], "rows of a batch mix")


@check(LAYOUTS[2:])
def the_order_of_rows_does_not_matter(subject: Subject, layout: Layout) -> None:
    """Another order of the batch gives the same outputs in that order."""
    order = torch.arange(len(layout.rows)).flip(0)
    _read_in_parts(subject, layout, [order], "outputs depend on the order of the rows of a batch")


def _read_in_parts(subject: Subject, layout: Layout, parts: Iterable[Tensor], fault: str) -> None:
    """Requires rows of a batch to give by themselves what they give in the batch."""
    x = subject.tokens(*layout.mask.shape)
    for reader in readers(subject, layout, ENCODER, DECODER):
        whole = reader.read(x)
        for rows in parts:
            alone = reader.at(reader.positions.select(rows)).read(x[rows])
            require_close(alone, whole[rows], f"rows {rows.tolist()} differ by themselves: {fault}")


@check((Layout(("..",), PADDED[1].padding), Layout(("xxx", "..."), PADDED[1].padding)))
def rows_without_real_tokens_are_harmless(subject: Subject, layout: Layout) -> None:
    """A row that is all padding gives no NaN, forward or backward, and does not disturb its neighbors."""
    for reader in readers(subject, layout, ENCODER, DECODER, CROSS):
        x, query = subject.tokens(*layout.mask.shape).requires_grad_(), subject.tokens(len(layout.rows), 2)
        output = reader.attend(x, query)
        require_finite(output, "a row that is all padding gives NaN or infinity")
        leaves = [x, *reader.attention.parameters()]
        for gradient in torch.autograd.grad(output.sum(), leaves, allow_unused=True):
            if gradient is not None:
                require_finite(gradient, "a row that is all padding gives a gradient of NaN or infinity")
