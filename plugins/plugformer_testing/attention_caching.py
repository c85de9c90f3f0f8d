"""Attention as a decoder uses it: step by step, with rows that move and leave."""

from dataclasses import dataclass
from itertools import product

import torch

from plugformer.interfaces import Attention, Padding, Positions, Scope
from plugformer_testing.attention_reading import encodings, read, read_other, read_pieces, tokens
from plugformer_testing.check import check, require_close
from plugformer_testing.layout import FULL, LAYOUTS, Layout
from plugformer_testing.probes import Sloping, Turning
from plugformer_testing.subject import CROSS, DECODER, ENCODER, Subject


@dataclass(frozen=True)
class Pieces:
    """A batch that comes in pieces, cut before these tokens."""

    layout: Layout
    cuts: tuple[int, ...]

    def __str__(self) -> str:
        lengths = [after - before for before, after in zip((0, *self.cuts), self._ends(), strict=True)]
        return f"{self.layout} in pieces of {', '.join(map(str, lengths))}"

    def _ends(self) -> tuple[int, ...]:
        return (*self.cuts, len(self.layout.rows[0]))


def _pieces(*, by_step: bool) -> tuple[Pieces, ...]:
    found = []
    for layout in LAYOUTS[1:]:
        length = len(layout.rows[0])
        steps = tuple(range(1, length))
        chunks = [(cut,) for cut in {2, length - 1} if 1 < cut < length] + [(2, 4)] * (length > 4)
        found += [Pieces(layout, cuts) for cuts in ([steps] if by_step else chunks)]
    return tuple(found)


@check(_pieces(by_step=True))
def cached_steps_equal_the_whole(subject: Subject, case: Pieces) -> None:
    """One token at a time against the kept state gives what the whole sequence gives at once."""
    _cached_equals_whole(subject, case)


@check(_pieces(by_step=False))
def cached_chunks_equal_the_whole(subject: Subject, case: Pieces) -> None:
    """Pieces of several tokens against the kept state give what the whole sequence gives at once."""
    _cached_equals_whole(subject, case)


def _cached_equals_whole(subject: Subject, case: Pieces) -> None:
    real = case.layout.real
    x = tokens(subject, *real.shape)
    for there, encoding in product(subject.serving(DECODER), encodings(subject)):
        attention: Attention = there.shaken()
        at = case.layout.at(encoding)
        with torch.no_grad():
            pieces, whole = read_pieces(attention, x, at, case.cuts), read(attention, x, at, causal=True)
        for position in range(real.shape[1]):
            seen = real[:, position]
            require_close(
                pieces[:, position][seen],
                whole[:, position][seen],
                f"token {position} reads something else from the cache than from the whole sequence "
                f"(under {_named(encoding)})",
            )


@check(_pieces(by_step=False))
def projecting_pieces_equals_projecting_the_whole(subject: Subject, case: Pieces) -> None:
    """What follows reads from project(a) and append(project(b)) what it reads from project(a and b)."""
    real, cut = case.layout.real, case.cuts[0]
    x, query = tokens(subject, *real.shape), tokens(subject, len(real), 2)
    for there, encoding in product(subject.serving(DECODER), encodings(subject)):
        attention: Attention = there.shaken()
        whole = case.layout.at(encoding)
        head = Positions.of(real[:, :cut], encoding, case.layout.padding)
        tail = head.following(real[:, cut:], case.layout.padding)
        after = whole.following(torch.ones(len(query), 2, dtype=torch.bool), Padding.NONE)
        with torch.no_grad():
            pieces = attention.project(x[:, :cut], head).append(attention.project(x[:, cut:], tail))
            of_pieces, of_whole = (
                attention.attend(
                    query, state.append(attention.project(query, after)), Scope(after, keys, causal=True)
                )
                for state, keys in (
                    (pieces, head.then(tail).then(after)),
                    (attention.project(x, whole), whole.then(after)),
                )
            )
            require_close(of_pieces, of_whole, "the state of two pieces differs from the state of the whole")


@check(LAYOUTS)
def cross_attention_goes_on_by_steps(subject: Subject, layout: Layout) -> None:
    """Queries that come one by one read from a projected memory what they read together."""
    attention: Attention = subject.at(CROSS).shaken()
    memory, query = tokens(subject, *layout.real.shape), tokens(subject, len(layout.rows), 4)
    for encoding in encodings(subject):
        keys = layout.at(encoding)
        with torch.no_grad():
            whole = read_other(attention, query, memory, keys)
            state = attention.project(memory, keys)
            for step in range(query.shape[1]):
                one = torch.ones(len(query), 1, dtype=torch.bool)
                at = Positions.of(one, encoding, Padding.NONE, start=step)
                read_now = attention.attend(query[:, step, None], state, Scope(at, keys, causal=False))
                require_close(
                    read_now[:, 0],
                    whole[:, step],
                    f"query {step} reads something else alone than with the others: "
                    "reading changes the state, or queries see one another",
                )


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
    one = torch.ones(len(rows), 1, dtype=torch.bool)
    for there, encoding in product(subject.serving(DECODER, CROSS), encodings(subject)):
        attention: Attention = there.shaken()
        at = layout.at(encoding)
        chosen = at.select(index)
        after = chosen.following(one, Padding.NONE)
        then = chosen.then(after)
        with torch.no_grad():
            fresh = attention.project(x[index], chosen)
            if there.place.cross:
                scope = Scope(after.select(again), chosen.select(again), causal=False)
                state = attention.project(x, at).select(index).select(again)
                moved = attention.attend(step[again], state, scope)
                alone = attention.attend(step, fresh, Scope(after, chosen, causal=False))
                require_close(moved, alone[again], f"{message}, in cross-attention")
            else:
                scope = Scope(after, then, causal=True)
                head = Positions.of(layout.real[:, :2], encoding, layout.padding)
                tail = head.following(layout.real[:, 2:], layout.padding)
                pieces = attention.project(x[:, :2], head).append(attention.project(x[:, 2:], tail))
                moved, alone = (
                    attention.attend(step, state.append(attention.project(step, after)), scope)
                    for state in (pieces.select(index), fresh)
                )
                require_close(moved, alone, message)


@check(FULL[1:])
def distances_alone_matter(subject: Subject, layout: Layout) -> None:
    """Under a relative encoding a sequence gives the same wherever it begins."""
    x = tokens(subject, *layout.real.shape)
    for there, encoding in product(subject.serving(DECODER, ENCODER), encodings(subject)):
        attention: Attention = there.shaken()
        causal = there.place.causal
        here = layout.at(encoding)
        moved = Positions.of(layout.real, encoding, Padding.NONE, start=9)
        require_close(
            read(attention, x, moved, causal=causal),
            read(attention, x, here, causal=causal),
            f"outputs change when all positions move by 9, under {_named(encoding)}: queries and keys do not "
            "stand where their positions say",
        )


def _named(encoding: object) -> str:
    if isinstance(encoding, Turning):
        return "an encoding that rotates"
    return "an encoding that adds to scores" if isinstance(encoding, Sloping) else "no encoding"
