"""Every check of positional encodings catches a fault that it is there for."""

from dataclasses import replace

import torch
from tests.testing.mutants import after, fault_test, instead

from plugformer.errors import LengthError
from plugformer.interfaces import PositionalEncoding
from plugformer.registry import Kind
from plugformer_plugins.position.learned import Learned
from plugformer_plugins.position.rotary import Rotary


def by_column(positions):
    """The same tokens, numbered by column from zero."""
    return replace(positions, index=torch.arange(positions.length)[None])


def placing(name, base, slot, place):
    """Returns an encoding that takes other positions for those that it is given."""
    original = getattr(base, slot)
    return instead(name, base, **{slot: lambda self, x, positions: original(self, x, place(positions))})


class TooShort(Learned):
    def embed(self, x, positions):
        if positions.length > 10:
            raise LengthError("ten tokens are enough")
        return super().embed(x, positions)


class FlatBias(PositionalEncoding):
    def __init__(self, model):
        super().__init__()
        self.heads = model.heads

    def bias(self, query, key):
        return torch.full((1, self.heads, query.length, key.length), 0.5)


class Answers(PositionalEncoding):
    """Adds the mean of the query's coordinates, more of it the farther the key."""

    def __init__(self, model):
        super().__init__()

    def content_bias(self, query_heads, key_heads, query, key):
        far = (query.index[:, None, :, None] - key.index[:, None, None, :]).abs()
        return query_heads.mean(-1, keepdim=True) * far


class AnswersForKeys(Answers):
    """Takes as many maps as there are keys."""

    def content_bias(self, query_heads, key_heads, query, key):
        return super().content_bias(query_heads[:, : key_heads.shape[1]], key_heads, query, key)


MUTANTS = {
    "shapes": AnswersForKeys,
    "exports": after(
        "ReadsAnIndex", Rotary, rotate=lambda self, heads, x, at: heads * (1 + int(at.index.max()))
    ),
    "rows_are_independent": after(
        "ReadsNeighbors", Learned, embed=lambda self, out, x, _: out + x.mean(dim=0, keepdim=True)
    ),
    "cached_pieces_equal_the_whole": placing("RestartsAfterCaching", Rotary, "rotate", by_column),
    "scores_depend_on_distance": placing(
        "TurnsByRoot",
        Rotary,
        "rotate",
        lambda at: replace(at, index=at.index.double().sqrt(), start=None, end=None),
    ),
    "the_order_of_tokens_matters": FlatBias,
    "long_sequences_work_or_are_refused": TooShort,
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.POSITION)
