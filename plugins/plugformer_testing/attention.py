"""The contract of attentions, see plugformer.interfaces.layer; also step by step, as in a decoder."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    CAUSAL,
    END,
    Attention,
    Context,
    Place,
    Positions,
    View,
)
from plugformer_blocks import Prefix, Within
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.placed_attention import PlacedAttention, Steps, attentions, tokens_of
from plugformer_testing.probes import (
    BATCHES,
    FULL,
    PADDED,
    PIECES,
    PaddedBatch,
    Sloping,
    Turning,
    full,
)
from plugformer_testing.subject import CROSS, DECODER, ENCODER, Subject

_SIZES = (
    *((24, 4, 1, 1), (24, 4, 1, 5), (24, 4, 5, 1), (24, 4, 7, 40)),
    *((2, 1, 3, 3), (15, 3, 3, 3), (35, 5, 3, 4)),
)


@contract_check(cases=_SIZES)
def shapes(subject: Subject, sizes: tuple[int, int, int, int]) -> None:
    """The output has the query's shape: for length 1, odd sizes, and beyond the model's longest sequence."""
    width, heads, queries, keys = sizes
    memory, query = (torch.randn(3, count, width, dtype=torch.float64) for count in (keys, queries))
    for there in subject.serving(CROSS, DECODER, ENCODER):
        attention = there.perturbed(width=width, heads=heads)
        output = PlacedAttention(attention, there.place, full(3, keys).at(Turning())).read(memory, query)
        expected = tuple((query if there.place.cross else memory).shape)
        require.equal(tuple(output.shape), expected, "the shape of the output, as that of the query,")
        require.finite(output, "the output")


@contract_check()
def every_real_token_is_read(subject: Subject) -> None:
    """Every output depends on every token that its query may see: in a causal place, on those before it."""
    for placed in attentions(subject, full(1, 5), CROSS, DECODER, ENCODER):
        memory = subject.tokens(1, 5).requires_grad_()
        for number, output in enumerate(placed.read(memory, subject.tokens(1, 3))[0]):
            gradient = _gradient(placed, output.sum(), memory)[0]
            seen = gradient[: number + 1] if placed.place.causal else gradient
            unread = (seen.abs().amax(dim=1) == 0).nonzero()[:, 0].tolist()
            require.that(not unread, f"query {number} does not read the tokens {unread}, in {placed.place}")


def _gradient(placed: PlacedAttention, value: Tensor, memory: Tensor) -> Tensor:
    """Returns the gradient of a value that must have one at what is read."""
    gradient = torch.autograd.grad(value, memory, retain_graph=True, allow_unused=True)[0]
    read = "the memory is not read (see `context.once`)" if placed.place.cross else "no token is read"
    require.that(gradient is not None, f"{read}, in {placed.place}")
    return gradient


@contract_check(cases=BATCHES)
def dropout_ends_with_training(subject: Subject, batch: PaddedBatch) -> None:
    """Attention dropout ends with training mode; without dropout, training mode changes nothing."""
    x, query = subject.tokens(*batch.mask.shape), subject.tokens(len(batch.rows), 3)
    for there in subject.serving(CROSS, DECODER, ENCODER):
        plain, dropping = there.perturbed(), there.perturbed(attention_dropout=0.5)
        plain.load_state_dict(dropping.state_dict())
        one, other = (PlacedAttention(part, there.place, batch.at(Turning())) for part in (plain, dropping))
        expected = one.read(x, query)
        require.close(other.read(x, query), expected, "attention dropout is active in evaluation mode")
        plain.train()
        require.close(one.read(x, query), expected, "training mode changes the output, though nothing drops")


@contract_check(cases=BATCHES[1:])
def the_future_is_not_seen(subject: Subject, batch: PaddedBatch) -> None:
    """In a causal scope no output changes with a later token, or has a gradient there."""
    x = subject.tokens(*batch.mask.shape).requires_grad_()
    for placed in attentions(subject, batch, DECODER):
        before = placed.read(x)
        for first in range(1, x.shape[1]):
            now = placed.read(torch.cat([x[:, :first], torch.randn_like(x[:, first:])], dim=1))
            require.close(now[:, :first], before[:, :first], f"outputs change with tokens from {first} on")
            (gradient,) = torch.autograd.grad(before[:, first - 1].sum(), x, retain_graph=True)
            _require_none(gradient[:, first:], f"output {first - 1} has a gradient at later tokens")


@contract_check(cases=PADDED)
def padding_is_not_seen(subject: Subject, batch: PaddedBatch) -> None:
    """No output of a real token changes with the values at padding, or has a gradient there.

    Outputs at padding are finite.
    """
    real, x = batch.mask, subject.tokens(*batch.mask.shape).requires_grad_()
    changed = torch.where(real[..., None], x, 3 * subject.tokens(*real.shape))
    query = subject.tokens(len(real), 3)
    for placed in attentions(subject, batch, ENCODER, DECODER, CROSS):
        output = placed.read(x, query)
        require.finite(placed.read(changed, query, padded=True), "at padding, the output")
        require.close(placed.read(changed, query), output, f"outputs change with padding, in {placed.place}")
        gradient = _gradient(placed, output.square().sum(), x)
        _require_none(gradient[~real], "outputs of real tokens have a gradient at padding")


def _require_none(values: Tensor, what: str) -> None:
    require.that((values.abs() < 1e-9).all(), what)


@contract_check(cases=(PaddedBatch(("..",)), PaddedBatch(("xxx", "..."))))
def rows_without_real_tokens_are_harmless(subject: Subject, batch: PaddedBatch) -> None:
    """A row that is all padding gives no NaN, forward or backward, and does not affect other rows."""
    for placed in attentions(subject, batch, ENCODER, DECODER, CROSS):
        x, query = subject.tokens(*batch.mask.shape).requires_grad_(), subject.tokens(len(batch.rows), 2)
        output = placed.read(x, query, padded=True)
        require.finite(output, "with a row that is all padding, the output")
        leaves = [x, *placed.attention.parameters()]
        for gradient in torch.autograd.grad(output.sum(), leaves, allow_unused=True):
            if gradient is not None:
                require.finite(gradient, "with a row that is all padding, a gradient")


@contract_check()
def some_tokens_can_be_taken(subject: Subject) -> None:
    """If a layer takes some tokens, also between others, each reads what it would without the others."""
    taken = torch.tensor([[True, False, True, True, False], [False, True, False, False, True]])
    x = subject.tokens(*taken.shape)
    for placed in attentions(subject, full(*taken.shape), ENCODER, DECODER):
        at = placed.positions
        context = Context(at, at, view=placed.place.view)
        output = placed.attention(x, context.only(taken, None))
        for row, mask in enumerate(taken):
            moved = placed.at(Positions(at.index[:, mask], None, at.encoding))
            message = f"tokens read otherwise if those between them are left out, in {placed.place}"
            require.close(output[row, mask], moved.read(x[None, row, mask])[0], message)


@contract_check(cases=FULL[1:])
def distances_alone_matter(subject: Subject, batch: PaddedBatch) -> None:
    """With a relative encoding a sequence gives the same wherever it begins."""
    x = subject.tokens(*batch.mask.shape)
    for placed in attentions(subject, batch, DECODER, ENCODER):
        moved = placed.at(batch.at(placed.positions.encoding, start=9))
        require.close(moved.read(x), placed.read(x), f"outputs change when positions move, in {placed.place}")


@contract_check(cases=(Within(CAUSAL), Prefix()))
def the_view_is_followed(subject: Subject, view: View) -> None:
    """No output has a gradient at tokens that a view hides, if it follows the view; nor do pieces differ."""
    pieces, real = PIECES[-1], PIECES[-1].whole.mask
    x, column = subject.tokens(*real.shape).requires_grad_(), torch.arange(real.shape[1]).expand_as(real)
    ids, prefix = torch.where(column % 3 == 1, END, 5), (column < 2).long()
    tokens = replace(tokens_of(real), ids=ids, marks={"in_prefix": prefix})
    try:
        served = subject.serving(Place(stack="decoder", view=view))
    except ConfigurationError:  # a model with this view is refused, too
        return
    for there in served:
        attention: Attention = there.once(("perturbed", view), there.perturbed)
        hides = f"what {view} hides; `follows` must refuse it"
        for encoding in (Turning(), Sloping(subject.model.heads)):
            at = replace(pieces.whole.at(encoding), marks=tokens.marks)
            placed = PlacedAttention(attention, there.place, view.positions(at, ids))
            context, output = Context(placed.positions, placed.positions, view=view), placed.read(x)
            hidden = ~context.mask[:, 0] & real[:, :, None]
            for number in range(real.shape[1]):
                (gradient,) = torch.autograd.grad(output[:, number].sum(), x, retain_graph=True)
                _require_none(gradient[hidden[:, number]], f"output {number} reads {hides}")
            with torch.no_grad():
                found = Steps(placed).read(x, pieces, tokens)
            require.close(found, output, f"tokens read otherwise in pieces, with {view}")


@contract_check(cases=BATCHES)
def looking_changes_nothing(subject: Subject, batch: PaddedBatch) -> None:
    """With an observer the output and its gradient are those without one."""
    x = subject.tokens(*batch.mask.shape).requires_grad_()
    query = subject.tokens(len(batch.rows), 3)
    for placed in attentions(subject, batch, ENCODER, DECODER, CROSS):
        outputs = [placed.read(x, query, observer) for observer in (None, lambda *_: None)]
        require.close(outputs[1], outputs[0], "the output changes with an observer")
        plain, observed = (_gradient(placed, output.square().sum(), x) for output in outputs)
        require.close(observed, plain, "gradients change with an observer")


@contract_check(cases=BATCHES[:4])
def shown_weights_fit_the_mask(subject: Subject, batch: PaddedBatch) -> None:
    """Weights that it records are (batch, heads, query, key), finite, and zero at padding."""
    memory, query = subject.tokens(*batch.mask.shape), subject.tokens(len(batch.rows), 2)
    shown: list[tuple[Tensor, int]] = []
    for placed in attentions(subject, batch, CROSS, DECODER, ENCODER):
        recorded: list[tuple[str, Tensor]] = []
        placed.read(memory, query, lambda *pair, recorded=recorded: recorded.append(pair))
        queries = (query if placed.place.cross else memory).shape[1]
        shown += [(value, queries) for name, value in recorded if name == "weights"]
    if not shown:
        pytest.skip('it records no "weights": nothing is shown that could be wrong')
    for weights, queries in shown:
        found, expected = (len(weights), *weights.shape[2:]), (len(memory), queries, memory.shape[1])
        require.equal(found, expected, "the shape of weights that it records, without their heads,")
        require.finite(weights, "a weight that it records")
        hidden = weights.masked_select(~batch.mask[:, None, None])
        require.that((hidden == 0).all(), "it records weights of padding, where nothing is read")


@contract_check(cases=BATCHES)
def cross_attention_goes_on_by_steps(subject: Subject, batch: PaddedBatch) -> None:
    """Queries that come one by one read the same as together, from what was made `once` of the memory."""
    memory, query = subject.tokens(*batch.mask.shape), subject.tokens(len(batch.rows), 4)
    for placed in attentions(subject, batch, CROSS):
        with torch.no_grad():
            whole, steps = placed.read(memory, query), Steps(placed, memory)
            for number, one in enumerate(query.split(1, dim=1)):
                require.close(
                    steps(one)[:, 0], whole[:, number], f"query {number} reads something else alone"
                )


@contract_check(cases=((0,), (1, 0), (0, 0, 1, 1), (1, 1, 0, 0, 2, 2), (1,), (0, 2)))
def rows_can_be_selected(subject: Subject, rows: tuple[int, ...]) -> None:
    """After rows of the cache were moved, repeated or dropped, each continues as without it."""
    index, given = torch.tensor(rows), PaddedBatch(("xxxx", "xx..", "xxx."))
    examples, again = index.unique_consecutive(), torch.arange(len(rows)).flip(0)  # rows move more than once
    x, first, new = subject.tokens(3, 4), subject.tokens(3, 1), subject.tokens(len(rows), 2)
    for placed in attentions(subject, given, DECODER, CROSS):
        with torch.no_grad():
            if placed.place.cross:
                steps = Steps(placed, x)
                steps(first)
                whole = placed.at(placed.positions.select(index))
                expected = whole.read(x[index], torch.cat([first[index], new], dim=1))[:, 1:]
            else:
                steps = Steps(placed)
                steps(x, tokens_of(given.mask))
                expected = _continued(placed, x[index], given.mask.sum(dim=1)[index], new)
            steps.cache.select(index, examples)
            found = steps(new[:, :1])
            steps.cache.select(again, torch.arange(len(examples)).flip(0))
            found = torch.cat([found, steps(new[again, 1:])[again]], dim=1)
        message = f"after rows were selected, a row continues differently, in {placed.place}"
        require.close(found, expected, message)


def _continued(placed: PlacedAttention, x: Tensor, lengths: Tensor, new: Tensor) -> Tensor:
    """Returns what new tokens read behind the first ones of each row, all at once."""
    columns, rows = lengths[:, None] + torch.arange(new.shape[1]), torch.arange(len(x))[:, None]
    whole = torch.cat([x, torch.zeros_like(new)], dim=1).index_put((rows, columns), new)
    mask = torch.arange(whole.shape[1]) <= columns[:, -1:]
    return placed.at(Positions.of(whole.shape[1], placed.positions.encoding, mask)).read(whole)[rows, columns]
