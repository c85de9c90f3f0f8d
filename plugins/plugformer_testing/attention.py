"""The contract of attentions, see plugformer.interfaces.attention; also step by step, as in a decoder."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    END,
    EVERYTHING,
    PAST,
    Attention,
    AttentionContext,
    LayerContext,
    Padding,
    PositionalEncoding,
    Positions,
    State,
    Tokens,
    View,
)
from plugformer_blocks import Prefix, Within
from plugformer_testing import require
from plugformer_testing.contract import NotApplicable, contract_check
from plugformer_testing.probes import BATCHES, FULL, PADDED, PaddedBatch, Sloping, Turning, full
from plugformer_testing.subject import CROSS, DECODER, ENCODER, Subject

Observer = Callable[[str, Tensor], Any]


@dataclass(frozen=True)
class PlacedAttention:
    """An attention in a place of a model, and the positions of the tokens that it reads."""

    attention: Attention
    place: LayerContext
    positions: Positions

    def at(self, positions: Positions) -> "PlacedAttention":
        """Returns the same attention for tokens at other positions."""
        return replace(self, positions=positions)

    def read(
        self, x: Tensor, query: Tensor | None = None, observer: Observer | None = None, padded: bool = False
    ) -> Tensor:
        """Reads a whole sequence `x`, in cross-attention with `query`, elsewhere with `x` itself.

        The outputs at padding, where any are allowed, are zeros unless they are asked for.
        """
        at = keys = self.positions
        if not self.place.cross or query is None:
            query = x
        if self.place.cross:
            at = full(*query.shape[:2]).at(keys.encoding)
        scope = AttentionContext(at, keys, view=self.place.view, cross=self.place.cross, observer=observer)
        output = self.attention.attend(query, self.attention.project(x, keys), scope)
        return output if padded or self.place.cross else output.masked_fill(~keys.mask[..., None], 0.0)


def attentions(subject: Subject, batch: PaddedBatch, *places: LayerContext) -> Iterator[PlacedAttention]:
    """Yields the attention, perturbed and in double precision, in those of the places that it serves.

    Each comes with encodings that do nothing, rotate its heads, and add to its scores.
    """
    for there in subject.serving(*places):
        attention = there.once(("perturbed", there.place), there.perturbed)
        for encoding in (PositionalEncoding(), Turning(), Sloping(subject.model.heads)):
            yield PlacedAttention(attention, there.place, batch.at(encoding))


_SIZES = (
    *((24, 4, 1, 1), (24, 4, 1, 5), (24, 4, 5, 1), (24, 4, 7, 40)),
    *((2, 1, 3, 3), (15, 3, 3, 3), (35, 5, 3, 4)),
)


@contract_check(_SIZES)
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
            (gradient,) = torch.autograd.grad(output.sum(), memory, retain_graph=True)
            seen = gradient[0, : number + 1] if placed.place.causal else gradient[0]
            require.that(seen.abs().amax(dim=1).all(), f"query {number} does not read every token it may see")


@contract_check(BATCHES)
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


@contract_check(BATCHES[1:])
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


@contract_check(PADDED)
def padding_is_not_seen(subject: Subject, batch: PaddedBatch) -> None:
    """No output of a real token changes with the values at padding, or has a gradient there."""
    real, x = batch.mask, subject.tokens(*batch.mask.shape).requires_grad_()
    changed = torch.where(real[..., None], x, 3 * subject.tokens(*real.shape))
    query = subject.tokens(len(real), 3)
    for placed in attentions(subject, batch, ENCODER, DECODER, CROSS):
        output = placed.read(x, query)
        require.close(placed.read(changed, query), output, f"outputs change with padding, in {placed.place}")
        (gradient,) = torch.autograd.grad(output.square().sum(), x)
        _require_none(gradient[~real], "outputs of real tokens have a gradient at padding")


def _require_none(values: Tensor, what: str) -> None:
    require.that((values.abs() < 1e-9).all(), what)


@contract_check(PADDED)
def padding_moves_nothing(subject: Subject, batch: PaddedBatch) -> None:
    """A padded row gives the same as its tokens without padding, wherever the padding is."""
    x = subject.tokens(*batch.mask.shape)
    for placed in attentions(subject, batch, ENCODER, DECODER):
        padded = placed.read(x)
        for row, real in enumerate(batch.mask):
            unpadded = full(1, int(real.sum())).at(placed.positions.encoding)
            alone = placed.at(unpadded).read(x[None, row, real])[0]
            require.close(padded[row, real], alone, f"row {row} differs from the same tokens without padding")


@contract_check(BATCHES[2:])
def rows_are_independent(subject: Subject, batch: PaddedBatch) -> None:
    """A sequence gives the same alone and in a batch, in any order of the batch."""
    x, rows = subject.tokens(*batch.mask.shape), torch.arange(len(batch.rows))
    for placed in attentions(subject, batch, ENCODER, DECODER):
        whole = placed.read(x)
        for part in (*rows[:, None], rows.flip(0)):
            alone = placed.at(placed.positions.select(part)).read(x[part])
            require.close(alone, whole[part], f"rows {part.tolist()} differ by themselves: rows mix")


@contract_check((PaddedBatch(("..",), Padding.ANYWHERE), PaddedBatch(("xxx", "..."), Padding.ANYWHERE)))
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


@contract_check(FULL[1:])
def distances_alone_matter(subject: Subject, batch: PaddedBatch) -> None:
    """With a relative encoding a sequence gives the same wherever it begins."""
    x = subject.tokens(*batch.mask.shape)
    for placed in attentions(subject, batch, DECODER, ENCODER):
        moved = placed.at(batch.at(placed.positions.encoding, start=9))
        with require.works("for a sequence whose first token has the position 9"):
            found = moved.read(x)
        require.close(found, placed.read(x), f"outputs change when positions move, in {placed.place}")


@dataclass(frozen=True)
class _SecondTokens(View):
    """A token sees those an even number of positions away."""

    def allowed(self, query: Positions, key: Positions) -> Tensor:
        """Returns whether the distance is even."""
        return (key.index[:, None, :] - query.index[:, :, None]) % 2 == 0


_VIEWS = (Within(PAST), Prefix(), _SecondTokens())


@contract_check(product(_VIEWS, PADDED[-3::2]))
def the_view_is_followed(subject: Subject, case: tuple[View, PaddedBatch]) -> None:
    """No output has a gradient at tokens that a view hides, if it follows the view; nor do pieces differ."""
    view, batch = case
    real, x = batch.mask, subject.tokens(*batch.mask.shape).requires_grad_()
    ids, prefix = torch.where(torch.arange(real.shape[1]) % 3 == 1, END, 5), (real.cumsum(1) <= 2).long()
    tokens, cut = (
        Tokens(ids.expand_as(real), real, batch.padding, marks={"in_prefix": prefix}),
        real.shape[1] - 1,
    )
    last = Tokens(ids[cut:].expand_as(real[:, cut:]), real[:, cut:], batch.padding)
    for there in subject.serving(LayerContext(stack="decoder", view=view)):
        attention: Attention = there.once(("perturbed", view), there.perturbed)
        for encoding in (Turning(), Sloping(subject.model.heads)) if attention.follows(view) else ():
            at = view.positions(tokens, encoding)
            context = AttentionContext(at, at, view=view)
            output = attention.attend(x, attention.project(x, at), context)
            hidden = ~context.mask[:, 0] & real[:, :, None]
            for number in range(real.shape[1]):
                (gradient,) = torch.autograd.grad(output[:, number].sum(), x, retain_graph=True)
                _require_none(gradient[hidden[:, number]], f"output {number} reads what {view} hides")
            head = view.positions(tokens.narrow(real[:, :cut]), encoding)
            tail = view.positions(last, encoding, head)
            state = attention.project(x[:, :cut], head).append(attention.project(x[:, cut:], tail))
            context = AttentionContext(tail, head.concatenate(tail), view=view)
            found = attention.attend(x[:, cut:], state, context)[real[:, cut:]]
            require.close(
                found, output[:, cut:][real[:, cut:]], f"the last token reads otherwise, with {view}"
            )


@contract_check(BATCHES)
def looking_changes_nothing(subject: Subject, batch: PaddedBatch) -> None:
    """With an observer the output and its gradient are those without one."""
    x = subject.tokens(*batch.mask.shape).requires_grad_()
    query = subject.tokens(len(batch.rows), 3)
    for placed in attentions(subject, batch, ENCODER, DECODER, CROSS):
        outputs = [placed.read(x, query, observer) for observer in (None, lambda *_: None)]
        require.close(outputs[1], outputs[0], "the output changes with an observer")
        plain, observed = (torch.autograd.grad(output.square().sum(), x)[0] for output in outputs)
        require.close(observed, plain, "gradients change with an observer")


@contract_check(BATCHES)
def shown_weights_respect_the_mask(subject: Subject, batch: PaddedBatch) -> None:
    """Recorded weights are (batch, maps, query, key), zero at padding and at the future, and finite."""
    real, (rows, length) = batch.mask, batch.mask.shape
    allowed = real[:, None, None, :] & torch.ones(length, length, dtype=torch.bool).tril()
    for placed in attentions(subject, batch, DECODER):
        for weights in _read_with_weights(placed, subject.tokens(rows, length))[1]:
            maps = weights.shape[1] if weights.dim() == 4 else "maps"
            require.equal(tuple(weights.shape), (rows, maps, length, length), "the shape of recorded weights")
            at_real = weights.masked_fill(~real[:, None, :, None], 0.0)
            require.finite(at_real, "a recorded weight")
            _require_none(at_real.masked_fill(allowed, 0.0), "recorded weights are not zero at hidden keys")


@contract_check(BATCHES[:4])
def shown_weights_are_those_used(subject: Subject, batch: PaddedBatch) -> None:
    """The recorded weights are the ones by which the output is computed.

    Shown in one of two ways: with one head, what a query reads from several keys is the sum of what it reads
    from each alone, times its weight; or with the weights set to zero, the memory has no effect.
    """
    memory, query = subject.tokens(*batch.mask.shape), subject.tokens(len(batch.rows), 2)
    there, keys = subject.at(CROSS), batch.at(PositionalEncoding())
    with torch.no_grad():
        try:
            used = _recomputes(PlacedAttention(there.perturbed(heads=1), CROSS, keys), memory, query)
        except ConfigurationError:  # it needs more heads
            used = False
        used = used or _erases(PlacedAttention(there.perturbed(), CROSS, keys), memory, query)
    require.that(used, "the output is not the sum over keys by the recorded weights, nor read through them")


def _recomputes(placed: PlacedAttention, memory: Tensor, query: Tensor) -> bool:
    """Returns whether weighted single reads add up to the output of an attention with one head."""
    output, (weights, *more) = _read_with_weights(placed, memory, query)
    alone = placed.at(full(len(memory), 1).at(PositionalEncoding()))
    reads = torch.stack([alone.read(key[:, None], query) for key in memory.unbind(1)], dim=-1)
    one = not more and weights.shape[1] == 1
    return one and torch.allclose(output, (reads * weights[:, 0, :, None]).sum(-1), atol=1e-5, rtol=1e-5)


def _erases(placed: PlacedAttention, memory: Tensor, query: Tensor) -> bool:
    """Returns whether nothing is read from the memory if the recorded weights are zero."""

    def depends(observer: Observer | None) -> bool:
        output, other = (placed.read(values, query, observer) for values in (memory, memory + 1.0))
        return not torch.allclose(output, other, atol=1e-5, rtol=1e-5)

    return depends(None) and not depends(lambda _, value: value.detach().zero_())


def _read_with_weights(
    placed: PlacedAttention, x: Tensor, query: Tensor | None = None
) -> tuple[Tensor, list[Tensor]]:
    """Returns the output and the recorded weights, which not every attention has."""
    taken: list[Tensor] = []
    output = placed.read(x, query, lambda name, value: taken.append(value) if name == "weights" else None)
    if not taken:
        raise NotApplicable('it records no "weights": nothing is shown that could be wrong')
    return output, taken


@dataclass(frozen=True)
class Pieces:
    """A batch that comes in pieces, cut before these tokens."""

    batch: PaddedBatch
    cuts: tuple[int, ...]


STEPS = tuple(Pieces(batch, tuple(range(1, len(batch.rows[0])))) for batch in BATCHES[1:])  # token by token
CHUNKS = tuple(
    Pieces(batch, cuts)
    for batch in BATCHES
    if (length := len(batch.rows[0])) > 2
    for cuts in ((2,), (length - 1,), (2, 4))
)


@contract_check((*STEPS, *CHUNKS))
def cached_pieces_equal_the_whole(subject: Subject, case: Pieces) -> None:
    """Single tokens or pieces with a cache give the same as the whole sequence at once."""
    real, x = case.batch.mask, subject.tokens(*case.batch.mask.shape)
    for placed in attentions(subject, case.batch, DECODER):
        attention, whole, keys, state, outputs = placed.attention, placed.positions, None, None, []
        pieces = zip(x.tensor_split(case.cuts, 1), real.tensor_split(case.cuts, 1), strict=True)
        with torch.no_grad():
            for piece, mask in pieces:
                if keys is None or state is None:
                    new = keys = Positions.of(mask, whole.encoding, whole.padding)
                    state = attention.project(piece, keys)
                else:
                    new = keys.advance(mask, whole.padding)
                    keys, state = keys.concatenate(new), state.append(attention.project(piece, new))
                outputs.append(attention.attend(piece, state, AttentionContext(new, keys, view=PAST)))
            found, expected = torch.cat(outputs, dim=1), placed.read(x)
        require.close(found[real], expected[real], f"tokens read otherwise from the cache, in {placed.place}")


@contract_check(CHUNKS)
def projecting_pieces_equals_projecting_the_whole(subject: Subject, case: Pieces) -> None:
    """New tokens read from project(a) and append(project(b)) the same as from project(a and b)."""
    x, query = subject.tokens(*case.batch.mask.shape), subject.tokens(len(case.batch.rows), 2)
    for placed in attentions(subject, case.batch, DECODER):
        with torch.no_grad():
            pieces = _continue(placed, query, _project_two(placed, x, case.cuts[0]))
            whole = _continue(placed, query, placed.attention.project(x, placed.positions))
        require.close(pieces, whole, "the state of two pieces differs from the state of the whole")


def _project_two(placed: PlacedAttention, x: Tensor, cut: int) -> State:
    """Returns the state of a sequence that comes in two pieces."""
    whole = placed.positions
    head = Positions.of(whole.mask[:, :cut], whole.encoding, whole.padding)
    tail = head.advance(whole.mask[:, cut:], whole.padding)
    return placed.attention.project(x[:, :cut], head).append(placed.attention.project(x[:, cut:], tail))


def _continue(placed: PlacedAttention, query: Tensor, state: State) -> Tensor:
    """Returns what new tokens read from a state and from themselves."""
    keys = placed.positions
    new = keys.advance(full(*query.shape[:2]).mask, Padding.NONE)
    if not placed.place.cross:
        keys, state = keys.concatenate(new), state.append(placed.attention.project(query, new))
    return placed.attention.attend(query, state, AttentionContext(new, keys, view=placed.place.view))


@contract_check(BATCHES)
def cross_attention_goes_on_by_steps(subject: Subject, batch: PaddedBatch) -> None:
    """Queries that come one by one read from a projected memory the same as together."""
    memory, query = subject.tokens(*batch.mask.shape), subject.tokens(len(batch.rows), 4)
    for placed in attentions(subject, batch, CROSS):
        keys = placed.positions
        with torch.no_grad():
            whole, state = placed.read(memory, query), placed.attention.project(memory, keys)
            for step, one in enumerate(query.split(1, dim=1)):
                at = full(len(query), 1).at(keys.encoding, start=step)
                alone = placed.attention.attend(one, state, AttentionContext(at, keys, view=EVERYTHING))[:, 0]
                require.close(alone, whole[:, step], f"query {step} reads something else alone")


@contract_check(((0,), (1, 0), (0, 0, 1), (1, 1, 0, 1), (1,), (0, 2)))
def rows_can_be_selected(subject: Subject, rows: tuple[int, ...]) -> None:
    """After rows of the state were moved, repeated or dropped, each continues as without it."""
    index, batch = torch.tensor(rows), PaddedBatch(("xxxx", "..xx", ".xxx"), Padding.ANYWHERE)
    x, step = subject.tokens(3, 4), subject.tokens(len(rows), 1)
    again = torch.arange(len(rows)).flip(0)  # rows move more than once
    for placed in attentions(subject, batch, DECODER, CROSS):
        project, selected = placed.attention.project, placed.at(placed.positions.select(index))
        with torch.no_grad():
            alone = _continue(selected, step, project(x[index], selected.positions))
            state = project(x, placed.positions) if placed.place.cross else _project_two(placed, x, 2)
            turned = selected.at(selected.positions.select(again))
            moved = _continue(turned, step[again], state.select(index).select(again))[again]
        require.close(
            moved, alone, f"after rows were selected, a row continues differently, in {placed.place}"
        )
