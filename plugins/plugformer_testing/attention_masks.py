"""What attention must not see: the future, padding, other sequences of the batch."""

from itertools import product

import torch

from plugformer.interfaces import Attention
from plugformer_testing.attention_reading import encodings, read, read_other, tokens
from plugformer_testing.check import check, require, require_close, require_finite
from plugformer_testing.layout import FULL, LAYOUTS, PADDED, Layout
from plugformer_testing.subject import CROSS, DECODER, ENCODER, Subject

ROLES = (ENCODER, DECODER, CROSS)


@check(LAYOUTS[1:])
def the_future_is_not_seen(subject: Subject, layout: Layout) -> None:
    """Under a causal scope, changing a token changes no output before it."""
    x = tokens(subject, *layout.real.shape)
    for there, encoding in product(subject.serving(DECODER), encodings(subject)):
        attention: Attention = there.shaken()
        at = layout.at(encoding)
        before = read(attention, x, at, causal=True)
        for first in range(1, x.shape[1]):
            changed = torch.cat([x[:, :first], tokens(subject, x.shape[0], x.shape[1] - first)], dim=1)
            seen = layout.real[:, :first]
            require_close(
                read(attention, changed, at, causal=True)[:, :first][seen],
                before[:, :first][seen],
                f"the outputs before token {first} change with the tokens from there on: "
                "attention sees the future",
            )


@check(FULL[1:])
def no_gradient_from_the_future(subject: Subject, layout: Layout) -> None:
    """Under a causal scope, no gradient flows from an output to a later token."""
    for there, encoding in product(subject.serving(DECODER), encodings(subject)):
        attention: Attention = there.shaken()
        x = tokens(subject, *layout.real.shape).requires_grad_()
        outputs = read(attention, x, layout.at(encoding), causal=True)
        for last in range(x.shape[1] - 1):
            (gradient,) = torch.autograd.grad(outputs[:, last].sum(), x, retain_graph=True)
            require(
                bool(gradient[:, last + 1 :].abs().max() < 1e-9),
                f"output {last} has a gradient at later tokens: attention sees the future",
            )


@check(PADDED)
def padding_is_not_seen(subject: Subject, layout: Layout) -> None:
    """Changing what stands at padding changes no output of a real token, in self- or cross-attention."""
    real, x = layout.real, tokens(subject, *layout.real.shape)
    changed = torch.where(real[..., None], x, 3 * tokens(subject, *real.shape))
    query = tokens(subject, x.shape[0], 3)
    for there, encoding in product(subject.serving(*ROLES), encodings(subject)):
        attention: Attention = there.shaken()
        at = layout.at(encoding)
        if there.place.cross:
            require_close(
                read_other(attention, query, changed, at),
                read_other(attention, query, x, at),
                "outputs change with what stands at the memory's padding: cross-attention sees padding",
            )
        else:
            require_close(
                read(attention, changed, at, causal=there.place.causal)[real],
                read(attention, x, at, causal=there.place.causal)[real],
                "outputs change with what stands at padding: attention sees padding",
            )


@check(PADDED)
def no_gradient_from_padding(subject: Subject, layout: Layout) -> None:
    """No gradient flows from the output of a real token to padding."""
    for there, encoding in product(subject.serving(ENCODER, DECODER), encodings(subject)):
        attention: Attention = there.shaken()
        x = tokens(subject, *layout.real.shape).requires_grad_()
        output = read(attention, x, layout.at(encoding), causal=there.place.causal)[layout.real]
        (gradient,) = torch.autograd.grad(output.square().sum(), x)
        require(
            bool((gradient[~layout.real].abs() < 1e-9).all()),
            "outputs of real tokens have a gradient at padding: attention sees padding",
        )


@check(PADDED)
def padding_moves_nothing(subject: Subject, layout: Layout) -> None:
    """A padded row gives what the same tokens give without padding, wherever the padding is."""
    x = tokens(subject, *layout.real.shape)
    for there, encoding in product(subject.serving(ENCODER, DECODER), encodings(subject)):
        attention: Attention = there.shaken()
        causal = there.place.causal
        padded = read(attention, x, layout.at(encoding), causal=causal)
        for row, real in enumerate(layout.real):
            alone = Layout(("x" * int(real.sum()),), FULL[0].padding)
            require_close(
                padded[row, real],
                read(attention, x[None, row, real], alone.at(encoding), causal=causal)[0],
                f"row {row} differs from the same tokens without padding",
            )


@check(LAYOUTS[2:])
def rows_are_independent(subject: Subject, layout: Layout) -> None:
    """A sequence in a batch gives what it gives alone."""
    x, rows = tokens(subject, *layout.real.shape), range(len(layout.rows))
    for there, encoding in product(subject.serving(ENCODER, DECODER), encodings(subject)):
        attention: Attention = there.shaken()
        causal = there.place.causal
        at = layout.at(encoding)
        whole = read(attention, x, at, causal=causal)
        for row in rows:
            real, one = layout.real[row], torch.tensor([row])
            require_close(
                whole[row, real],
                read(attention, x[one], at.select(one), causal=causal)[0, real],
                f"row {row} differs from the same row alone: rows of a batch mix",
            )


@check(LAYOUTS[2:])
def the_order_of_rows_does_not_matter(subject: Subject, layout: Layout) -> None:
    """Another order of the batch gives the same outputs in that order."""
    x, order = tokens(subject, *layout.real.shape), torch.arange(len(layout.rows)).flip(0)
    for there, encoding in product(subject.serving(ENCODER, DECODER), encodings(subject)):
        attention: Attention = there.shaken()
        causal = there.place.causal
        at = layout.at(encoding)
        require_close(
            read(attention, x[order], at.select(order), causal=causal)[layout.real[order]],
            read(attention, x, at, causal=causal)[order][layout.real[order]],
            "outputs depend on the order of the rows of a batch",
        )


@check((Layout(("..",), PADDED[1].padding), Layout(("xxx", "..."), PADDED[1].padding)))
def rows_without_real_tokens_are_harmless(subject: Subject, layout: Layout) -> None:
    """A row that is all padding gives no NaN, forward or backward, and does not disturb its neighbours."""
    for there, encoding in product(subject.serving(*ROLES), encodings(subject)):
        attention: Attention = there.shaken()
        x, query = tokens(subject, *layout.real.shape), tokens(subject, len(layout.rows), 2)
        x.requires_grad_()
        at = layout.at(encoding)
        if there.place.cross:
            output = read_other(attention, query, x, at)
        else:
            output = read(attention, x, at, causal=there.place.causal)
        require_finite(output, "a row that is all padding gives NaN or infinity")
        leaves = [x, *attention.parameters()]
        for gradient in torch.autograd.grad(output.sum(), leaves, allow_unused=True):
            if gradient is not None:
                require_finite(gradient, "a row that is all padding gives a gradient of NaN or infinity")
