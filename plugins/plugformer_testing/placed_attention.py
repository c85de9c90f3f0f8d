"""Attentions in a place of a small model, computed at once or step by step, as in a decoder."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from plugformer import create
from plugformer.interfaces import (
    CAUSAL,
    Attention,
    Context,
    Place,
    PositionalEncoding,
    Positions,
    Tokens,
)
from plugformer.interfaces.context import State
from plugformer.model import Cache
from plugformer.model.encoder import Memory
from plugformer.registry import Kind
from plugformer_testing import require
from plugformer_testing.probes import (
    PaddedBatch,
    Pieces,
    SharedState,
    Sloping,
    Turning,
    full,
    perturbed,
)
from plugformer_testing.subject import Subject

Observer = Callable[[str, Tensor], Any]


@dataclass(frozen=True)
class PlacedAttention:
    """An attention in a place of a model, and the positions of the tokens that it reads."""

    attention: Attention
    place: Place
    positions: Positions

    def at(self, positions: Positions) -> "PlacedAttention":
        """Returns the same attention for tokens at other positions."""
        return replace(self, positions=positions)

    def read(
        self, x: Tensor, query: Tensor | None = None, observer: Observer | None = None, padded: bool = False
    ) -> Tensor:
        """Reads a whole sequence `x`, in cross-attention with `query`, elsewhere with `x` itself.

        The outputs at padding, where any finite ones are allowed, are zeros unless they are asked for.
        """
        at, cross = self.positions, self.place.cross
        x = x if cross else at.encoding.embed(x, at)
        queries = x if query is None or not cross else query
        context = Context(
            full(*queries.shape[:2]).at(at.encoding) if cross else at,
            at,
            view=self.place.view,
            cross=cross,
            memory=x if cross else None,
            observer=observer,
        )
        output: Tensor = self.attention(queries, context)
        require.shaped(output, tuple(queries.shape), "its output, as the query,")
        return output if context.real is None or padded else output.masked_fill(~context.real[..., None], 0.0)


class Steps:
    """An attention that computes tokens piece by piece, and what it keeps."""

    def __init__(self, placed: PlacedAttention, memory: Tensor | None = None) -> None:
        self.placed, owned = placed, State()
        self.name = "cross_attention" if placed.place.cross else "attention"
        layers = [{self.name: owned}]
        if isinstance(placed.attention, SharedState):
            layers.append({self.name: State(owned)})
        self.cache = Cache(layers, None if memory is None else Memory(memory, placed.positions))

    def __call__(self, x: Tensor, tokens: Tokens | None = None) -> Tensor:
        """Returns the outputs of new tokens."""
        tokens, place = tokens or tokens_of(full(*x.shape[:2]).mask), self.placed.place
        memory, encoding = self.cache.memory, self.placed.positions.encoding
        query, key, slots = self.cache.extend(tokens, CAUSAL if place.cross else place.view, encoding)
        x = x if place.cross else encoding.embed(x, query)
        context = Context(query, key, view=place.view, state=self.cache.layers[-1][self.name], slots=slots)
        if memory is None or memory.hidden is None:
            output: Tensor = self.placed.attention(x, context)
            return output
        rows = len(memory.hidden)  # queries that read the same are side by side
        context = replace(
            context, query=query.beside(len(x), rows), key=memory.positions, cross=True, memory=memory.hidden
        )
        output = self.placed.attention(x.reshape(rows, -1, x.shape[2]), context)
        # Steps that follow read what was made of it `once`.
        self.cache.memory = replace(memory, hidden=memory.hidden * torch.nan)
        return output.reshape(x.shape)

    def read(self, x: Tensor, pieces: Pieces, tokens: Tokens | None = None) -> Tensor:
        """Returns what the real tokens of whole sequences read if they come in pieces; at padding zeros."""
        output, rows = torch.zeros_like(x), torch.arange(len(x))[:, None]
        tokens = tokens or tokens_of(pieces.whole.mask)
        for real, places in pieces:
            marks = {name: mark[rows, places] for name, mark in tokens.marks.items()}
            piece = replace(tokens_of(real), ids=tokens.ids[rows, places], marks=marks)
            found = self(x[rows, places], piece)
            output[rows.expand_as(places)[real], places[real]] = found[real]
        return output


def tokens_of(real: Tensor) -> Tokens:
    """Returns tokens that are real in some places, with ids that nothing reads."""
    return Tokens(torch.zeros_like(real, dtype=torch.long), real, bool(real.all()))


def attentions(subject: Subject, batch: PaddedBatch, *places: Place) -> Iterator[PlacedAttention]:
    """Yields the attention, perturbed and in double precision, in those of the places that it serves.

    Each comes with encodings that do nothing, rotate its heads, and add to its scores. An encoding comes with
    a built-in attention.
    """
    if subject.kind is Kind.POSITION:
        encoding = subject.once("perturbed", subject.perturbed)
        for place in places:
            yield PlacedAttention(built_in_attention(subject), place, batch.at(encoding))
        return
    for there in subject.serving(*places):
        attention = there.once(("perturbed", there.place), there.perturbed)
        for encoding in (PositionalEncoding(), Turning(), Sloping(subject.model.heads)):
            yield PlacedAttention(attention, there.place, batch.at(encoding))


def built_in_attention(subject: Subject) -> Attention:
    """Returns the attention with which positional encodings are tried."""

    def made() -> Attention:
        attention: Attention = create("attention", "plugformer:mha", subject.model)
        return perturbed(attention)

    return subject.once("attention", made)
