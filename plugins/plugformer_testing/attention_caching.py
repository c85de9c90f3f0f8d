"""Attention as a decoder uses it: step by step, with rows that move and leave."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import AttentionContext, Padding, Positions, State
from plugformer_testing.attention import Reader, readers
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
    real = case.layout.mask
    x = subject.tokens(*real.shape)
    for reader in readers(subject, case.layout, DECODER):
        with torch.no_grad():
            pieces, whole = _read_pieces(reader, x, case.cuts), reader.read(x)
        for position in range(real.shape[1]):
            seen = real[:, position]
            what = f"token {position} reads something else from the cache than from the whole sequence"
            require_close(pieces[:, position][seen], whole[:, position][seen], f"{what}, in {reader}")


def _read_pieces(reader: Reader, x: Tensor, cuts: tuple[int, ...]) -> Float[Tensor, "batch length width"]:
    """Causal self-attention piece by piece, as a decoder with a cache does it."""
    attention, whole = reader.attention, reader.positions
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


@check(CHUNKS)
def projecting_pieces_equals_projecting_the_whole(subject: Subject, case: Pieces) -> None:
    """What follows reads from project(a) and append(project(b)) what it reads from project(a and b)."""
    x, query = subject.tokens(*case.layout.mask.shape), subject.tokens(len(case.layout.rows), 2)
    for reader in readers(subject, case.layout, DECODER):
        with torch.no_grad():
            pieces = _go_on(reader, query, _project_two(reader, x, case.cuts[0]))
            whole = _go_on(reader, query, reader.attention.project(x, reader.positions))
        require_close(pieces, whole, "the state of two pieces differs from the state of the whole")


def _project_two(reader: Reader, x: Tensor, cut: int) -> State:
    """Returns the state of a sequence that comes in two pieces."""
    whole = reader.positions
    head = Positions.of(whole.mask[:, :cut], whole.encoding, whole.padding)
    tail = head.advance(whole.mask[:, cut:], whole.padding)
    return reader.attention.project(x[:, :cut], head).append(reader.attention.project(x[:, cut:], tail))


def _go_on(reader: Reader, query: Tensor, state: State) -> Float[Tensor, "batch new width"]:
    """Returns what new tokens read from a state of the reader's positions, and from themselves."""
    keys, real = reader.positions, torch.ones(query.shape[:2], dtype=torch.bool)
    new = keys.advance(real, Padding.NONE)
    if reader.place.cross:
        return reader.attention.attend(query, state, AttentionContext(new, keys, causal=False))
    whole = state.append(reader.attention.project(query, new))
    return reader.attention.attend(query, whole, AttentionContext(new, keys.concatenate(new), causal=True))


@check(LAYOUTS)
def cross_attention_goes_on_by_steps(subject: Subject, layout: Layout) -> None:
    """Queries that come one by one read from a projected memory what they read together."""
    memory, query = subject.tokens(*layout.mask.shape), subject.tokens(len(layout.rows), 4)
    for reader in readers(subject, layout, CROSS):
        keys, one = reader.positions, torch.ones(len(query), 1, dtype=torch.bool)
        with torch.no_grad():
            whole = reader.read(memory, query)
            state = reader.attention.project(memory, keys)
            for step in range(query.shape[1]):
                positions = Positions.of(one, keys.encoding, Padding.NONE, start=step)
                context = AttentionContext(positions, keys, causal=False)
                alone = reader.attention.attend(query[:, step, None], state, context)[:, 0]
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
    x, step = subject.tokens(3, 4), subject.tokens(len(rows), 1)
    again = torch.arange(len(rows)).flip(0)
    for reader in readers(subject, layout, DECODER, CROSS):
        project, there = reader.attention.project, reader.at(reader.positions.select(index))
        with torch.no_grad():
            alone = _go_on(there, step, project(x[index], there.positions))
            state = project(x, reader.positions) if reader.place.cross else _project_two(reader, x, 2)
            turned = there.at(there.positions.select(again))  # rows move more than once
            moved = _go_on(turned, step[again], state.select(index).select(again))[again]
        require_close(moved, alone, f"{message}, in {reader}")


@check(FULL[1:])
def distances_alone_matter(subject: Subject, layout: Layout) -> None:
    """Under a relative encoding a sequence gives the same wherever it begins."""
    x = subject.tokens(*layout.mask.shape)
    for reader in readers(subject, layout, DECODER, ENCODER):
        moved = Positions.of(layout.mask, reader.positions.encoding, Padding.NONE, start=9)
        what = f"outputs change when all positions move by 9, in {reader}"
        fault = "queries and keys do not stand where their positions say"
        require_close(reader.at(moved).read(x), reader.read(x), f"{what}: {fault}")
