"""The contract of attentions in a decoder: step by step, with rows that move and leave."""

from dataclasses import dataclass

import torch
from torch import Tensor

from plugformer.interfaces import AttentionContext, Padding, Positions, State
from plugformer_testing import require
from plugformer_testing.attention import PlacedAttention, attentions
from plugformer_testing.contract import contract_check
from plugformer_testing.probes import BATCHES, PaddedBatch, full
from plugformer_testing.subject import CROSS, DECODER, Subject


@dataclass(frozen=True)
class Pieces:
    """A batch that comes in pieces, cut before these tokens."""

    batch: PaddedBatch
    cuts: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.batch} in pieces, cut before the tokens {self.cuts}"


STEPS = tuple(Pieces(batch, tuple(range(1, len(batch.rows[0])))) for batch in BATCHES[1:])
"""Token by token."""

CHUNKS = tuple(
    Pieces(batch, cuts)
    for batch in BATCHES
    if (length := len(batch.rows[0])) > 2
    for cuts in ((2,), (length - 1,), (2, 4))
)
"""In pieces of several tokens."""


@contract_check((*STEPS, *CHUNKS))
def cached_pieces_equal_the_whole(subject: Subject, case: Pieces) -> None:
    """Single tokens or pieces with a cache give the same as the whole sequence at once."""
    real, x = case.batch.mask, subject.tokens(*case.batch.mask.shape)
    for placed in attentions(subject, case.batch, DECODER):
        with torch.no_grad():
            pieces, whole = _read_pieces(placed, x, case.cuts), placed.read(x)
        message = f"tokens read something else from the cache than from the whole sequence, in {placed}"
        require.close(pieces[real], whole[real], message)


def _read_pieces(placed: PlacedAttention, x: Tensor, cuts: tuple[int, ...]) -> Tensor:
    """Computes causal self-attention piece by piece, like a decoder with a cache."""
    attention, whole = placed.attention, placed.positions
    pieces = zip(x.tensor_split(cuts, dim=1), whole.mask.tensor_split(cuts, dim=1), strict=True)
    first, real = next(pieces)
    keys = Positions.of(real, whole.encoding, whole.padding)
    state = attention.project(first, keys)
    outputs = [attention.attend(first, state, AttentionContext(keys, keys, causal=True))]
    for piece, real in pieces:
        new = keys.advance(real, whole.padding)
        keys, state = keys.concatenate(new), state.append(attention.project(piece, new))
        outputs.append(attention.attend(piece, state, AttentionContext(new, keys, causal=True)))
    return torch.cat(outputs, dim=1)


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
    return placed.attention.attend(query, state, AttentionContext(new, keys, causal=not placed.place.cross))


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
                alone = placed.attention.attend(one, state, AttentionContext(at, keys, causal=False))[:, 0]
                message = f"query {step} reads something else alone than with the others"
                require.close(alone, whole[:, step], message)


@contract_check(((0,), (1, 0), (0, 0, 1), (1, 1, 0, 1), (1,), (0, 2)))
def rows_can_be_selected(subject: Subject, rows: tuple[int, ...]) -> None:
    """After rows of the state were moved, repeated or dropped, each continues as if it were read anew."""
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
        require.close(moved, alone, f"after rows were selected, a row goes on differently, in {placed}")
