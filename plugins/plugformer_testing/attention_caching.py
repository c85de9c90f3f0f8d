"""Attention as a decoder uses it: step by step, with rows that move and leave."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import Attention, Padding, Positions, Scope, State
from plugformer_testing.attention_reader import readers, tokens
from plugformer_testing.check import check, require_close
from plugformer_testing.layout import FULL, LAYOUTS, Layout
from plugformer_testing.subject import CROSS, DECODER, ENCODER, Subject


@dataclass(frozen=True)
class Pieces:
    """A batch that comes in pieces, cut before these tokens."""

    layout: Layout
    cuts: tuple[int, ...]

    def __str__(self) -> str:
        pieces = torch.arange(len(self.layout.rows[0])).tensor_split(self.cuts)
        return f"{self.layout} in pieces of {', '.join(str(len(piece)) for piece in pieces)}"


STEPS = tuple(Pieces(layout, tuple(range(1, len(layout.rows[0])))) for layout in LAYOUTS[1:])
"""Token by token."""

CHUNKS = tuple(
    Pieces(layout, cuts)
    for layout in LAYOUTS
    if (length := len(layout.rows[0])) > 2
    for cuts in ((2,), (length - 1,), (2, 4))
)
"""In pieces of several tokens."""


@check(STEPS)
def cached_steps_equal_the_whole(subject: Subject, case: Pieces) -> None:
    """One token at a time against the kept state gives what the whole sequence gives at once."""
    _cached_equals_whole(subject, case)


@check(CHUNKS)
def cached_chunks_equal_the_whole(subject: Subject, case: Pieces) -> None:
    """Pieces of several tokens against the kept state give what the whole sequence gives at once."""
    _cached_equals_whole(subject, case)


def _cached_equals_whole(subject: Subject, case: Pieces) -> None:
    real = case.layout.real
    x = tokens(subject, *real.shape)
    for reader in readers(subject, DECODER):
        positions = case.layout.at(reader.encoding)
        with torch.no_grad():
            pieces, whole = _read_pieces(reader.attention, x, positions, case.cuts), reader.read(x, positions)
        for position in range(real.shape[1]):
            seen = real[:, position]
            what = f"token {position} reads something else from the cache than from the whole sequence"
            require_close(pieces[:, position][seen], whole[:, position][seen], f"{what}, in {reader}")


def _read_pieces(
    attention: Attention, x: Float[Tensor, "batch length width"], positions: Positions, cuts: tuple[int, ...]
) -> Float[Tensor, "batch length width"]:
    """Causal self-attention piece by piece, as a decoder with a cache does it."""
    (first, real), *later = zip(
        x.tensor_split(cuts, dim=1), positions.real.tensor_split(cuts, dim=1), strict=True
    )
    keys = Positions.of(real, positions.encoding, positions.padding)
    state = attention.project(first, keys)
    outputs = [attention.attend(first, state, Scope(keys, keys, causal=True))]
    for piece, real in later:
        new = keys.advance(real, positions.padding)
        keys, state = keys.concatenate(new), state.append(attention.project(piece, new))
        outputs.append(attention.attend(piece, state, Scope(new, keys, causal=True)))
    return torch.cat(outputs, dim=1)


@check(CHUNKS)
def projecting_pieces_equals_projecting_the_whole(subject: Subject, case: Pieces) -> None:
    """What follows reads from project(a) and append(project(b)) what it reads from project(a and b)."""
    x, query = tokens(subject, *case.layout.real.shape), tokens(subject, len(case.layout.rows), 2)
    for reader in readers(subject, DECODER):
        positions, attention = case.layout.at(reader.encoding), reader.attention
        with torch.no_grad():
            pieces = _go_on(attention, query, *_project_two(attention, x, positions, case.cuts[0]))
            whole = _go_on(attention, query, attention.project(x, positions), positions)
        require_close(pieces, whole, "the state of two pieces differs from the state of the whole")


def _project_two(
    attention: Attention, x: Float[Tensor, "batch length width"], positions: Positions, cut: int
) -> tuple[State, Positions]:
    """Returns the state of a sequence that comes in two pieces, and the positions in it."""
    head = Positions.of(positions.real[:, :cut], positions.encoding, positions.padding)
    tail = head.advance(positions.real[:, cut:], positions.padding)
    state = attention.project(x[:, :cut], head).append(attention.project(x[:, cut:], tail))
    return state, head.concatenate(tail)


def _go_on(
    attention: Attention, query: Float[Tensor, "batch new width"], state: State, keys: Positions
) -> Float[Tensor, "batch new width"]:
    """Returns the attention output of new tokens over a state and themselves."""
    new = keys.advance(torch.ones(query.shape[:2], dtype=torch.bool), Padding.NONE)
    whole = state.append(attention.project(query, new))
    return attention.attend(query, whole, Scope(new, keys.concatenate(new), causal=True))


@check(LAYOUTS)
def cross_attention_goes_on_by_steps(subject: Subject, layout: Layout) -> None:
    """Queries that come one by one read from a projected memory what they read together."""
    memory, query = tokens(subject, *layout.real.shape), tokens(subject, len(layout.rows), 4)
    for reader in readers(subject, CROSS):
        keys, one = layout.at(reader.encoding), torch.ones(len(query), 1, dtype=torch.bool)
        with torch.no_grad():
            whole = reader.read(memory, keys, query)
            state = reader.attention.project(memory, keys)
            for step in range(query.shape[1]):
                positions = Positions.of(one, reader.encoding, Padding.NONE, start=step)
                scope = Scope(positions, keys, causal=False)
                alone = reader.attention.attend(query[:, step, None], state, scope)[:, 0]
                what = f"query {step} reads something else alone than with the others"
                fault = "reading changes the state, or queries see one another"
                require_close(alone, whole[:, step], f"{what}: {fault}")


@check(((0,), (1, 0), (0, 0, 1), (1, 1, 0, 1)))
def beams_can_be_reordered(subject: Subject, rows: tuple[int, ...]) -> None:
    """After rows were moved and repeated, each goes on as if it had always stood there."""
    _selected(subject, rows, "after beams were reordered, a row does not go on as it should")


@check(((1,), (0, 2)))
def finished_rows_can_leave(subject: Subject, rows: tuple[int, ...]) -> None:
    """After finished rows left, the others go on as before."""
    _selected(subject, rows, "after finished rows left, another row does not go on as it should")


def _selected(subject: Subject, rows: tuple[int, ...], message: str) -> None:
    """Selects rows between steps, or of a memory, and compares with the same rows read from the start."""
    index, layout = torch.tensor(rows), Layout(("xxxx", "..xx", ".xxx"), Padding.ANYWHERE)
    x, step = tokens(subject, 3, 4), tokens(subject, len(rows), 1)
    again = torch.arange(len(rows)).flip(0)
    for reader in readers(subject, DECODER, CROSS):
        positions, attention = layout.at(reader.encoding), reader.attention
        chosen = positions.select(index)
        with torch.no_grad():
            fresh = attention.project(x[index], chosen)
            if reader.place.cross:
                after = chosen.advance(torch.ones(len(rows), 1, dtype=torch.bool), Padding.NONE)
                scope = Scope(after.select(again), chosen.select(again), causal=False)
                state = attention.project(x, positions).select(index).select(again)
                moved = attention.attend(step[again], state, scope)
                alone = attention.attend(step, fresh, Scope(after, chosen, causal=False))[again]
            else:
                state, _ = _project_two(attention, x, positions, 2)
                moved = _go_on(attention, step, state.select(index), chosen)
                alone = _go_on(attention, step, fresh, chosen)
        require_close(moved, alone, f"{message}, in {reader}")


@check(FULL[1:])
def distances_alone_matter(subject: Subject, layout: Layout) -> None:
    """Under a relative encoding a sequence gives the same wherever it begins."""
    x = tokens(subject, *layout.real.shape)
    for reader in readers(subject, DECODER, ENCODER):
        moved = Positions.of(layout.real, reader.encoding, Padding.NONE, start=9)
        here, there = (reader.read(x, positions) for positions in (layout.at(reader.encoding), moved))
        what = f"outputs change when all positions move by 9, in {reader}"
        require_close(there, here, f"{what}: queries and keys do not stand where their positions say")
