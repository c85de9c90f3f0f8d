"""How the suite lets an attention read: whole sequences, in pieces, and another sequence."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import (
    Attention,
    NoPositions,
    Observer,
    Padding,
    PositionalEncoding,
    Positions,
    Scope,
)
from plugformer_testing.probes import Sloping, Turning
from plugformer_testing.subject import Subject


def encodings(subject: Subject) -> tuple[PositionalEncoding, ...]:
    """Returns encodings that leave attention alone, rotate its heads and add to its scores."""
    return NoPositions(), Turning(), Sloping(subject.model.heads)


def tokens(subject: Subject, *shape: int) -> Float[Tensor, "batch length width"]:
    """Returns random hidden states."""
    return torch.randn(*shape, subject.model.width, dtype=torch.float64)


def read(
    attention: Attention,
    x: Float[Tensor, "batch length width"],
    at: Positions,
    *,
    causal: bool,
    observer: Observer | None = None,
) -> Float[Tensor, "batch length width"]:
    """Self-attention over whole sequences."""
    return attention.attend(x, attention.project(x, at), Scope(at, at, causal=causal, observer=observer))


def read_at_home(
    subject: Subject,
    attention: Attention,
    x: Float[Tensor, "batch length width"],
    at: Positions,
) -> Float[Tensor, "batch length width"]:
    """Lets an attention read as it does in the place that it is constructed for."""
    if subject.place.cross:
        return read_other(attention, x, x, at)
    return read(attention, x, at, causal=subject.place.causal)


def read_pieces(
    attention: Attention, x: Float[Tensor, "batch length width"], at: Positions, cuts: Sequence[int]
) -> Float[Tensor, "batch length width"]:
    """Causal self-attention piece by piece, as a decoder with a cache does it."""
    pieces = list(zip(x.tensor_split(cuts, dim=1), at.real.tensor_split(cuts, dim=1), strict=True))
    so_far = new = Positions.of(pieces[0][1], at.encoding, at.padding)
    state = attention.project(pieces[0][0], new)
    outputs = [attention.attend(pieces[0][0], state, Scope(new, so_far, causal=True))]
    for piece, real in pieces[1:]:
        new = so_far.following(real, at.padding)
        so_far = so_far.then(new)
        state = state.append(attention.project(piece, new))
        outputs.append(attention.attend(piece, state, Scope(new, so_far, causal=True)))
    return torch.cat(outputs, dim=1)


def read_other(
    attention: Attention,
    query: Float[Tensor, "batch query width"],
    memory: Float[Tensor, "batch key width"],
    keys: Positions,
    *,
    observer: Observer | None = None,
    start: int = 0,
) -> Float[Tensor, "batch query width"]:
    """Cross-attention: queries read another sequence."""
    real = torch.ones(query.shape[:2], dtype=torch.bool)
    queries = Positions.of(real, keys.encoding, Padding.NONE, start=start)
    scope = Scope(queries, keys, causal=False, observer=observer)
    return attention.attend(query, attention.project(memory, keys), scope)
