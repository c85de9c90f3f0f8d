"""Every check of positional encodings catches a fault that it is there for."""

from dataclasses import replace

import torch
from tests.testing.mutants import after, instead, mutant_tests

from plugformer.errors import LengthError
from plugformer.interfaces import PositionalEncoding
from plugformer.registry import Kind
from plugformer_plugins.position.alibi import ALiBi
from plugformer_plugins.position.learned import Learned
from plugformer_plugins.position.rotary import Rotary
from plugformer_plugins.position.sinusoidal import Sinusoidal
from plugformer_testing import check
from plugformer_testing.runner import checks_of


def by_column(positions):
    """The same tokens, numbered by column from zero."""
    return replace(positions, index=torch.arange(positions.length)[None])


def from_the_end(positions):
    """The same tokens, numbered from the last column."""
    return replace(positions, index=positions.length - 1 - positions.index)


def skip_one(positions):
    """Places pieces behind others of different length one position too far."""
    return replace(positions, index=positions.index + (len(positions.index) > 1))


def placing(name, base, slot, place):
    """Returns an encoding that takes other positions for those that it is given."""
    original = getattr(base, slot)
    return instead(name, base, **{slot: lambda self, x, positions: original(self, x, place(positions))})


class FourMaps(ALiBi):
    def __init__(self, model):
        super().__init__(replace(model, heads=4))


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


def by_place(self, bias, query, key):
    """Adds the key's position, not its distance."""
    return -0.1 * key.index[:, None, None, :] * torch.ones_like(bias)


def stretched(self, heads, *_):
    return torch.linspace(1, 2, heads.shape[1], dtype=heads.dtype)[:, None, None] * heads


class Answers(PositionalEncoding):
    """Adds the mean of the query's coordinates, more of it the farther the key."""

    def __init__(self, model):
        super().__init__()

    def content_bias(self, query_heads, key_heads, query, key):
        far = (query.index[:, None, :, None] - key.index[:, None, None, :]).abs()
        return query_heads.mean(-1, keepdim=True) * far


class AnswersByColumn(Answers):
    def content_bias(self, query_heads, key_heads, query, key):
        return super().content_bias(query_heads, key_heads, by_column(query), by_column(key))


class AnswersForTheBatch(Answers):
    def content_bias(self, query_heads, key_heads, query, key):
        return super().content_bias(query_heads.mean(0, keepdim=True), key_heads, query, key)


class AnswersForKeys(Answers):
    """Takes as many maps as there are keys."""

    def content_bias(self, query_heads, key_heads, query, key):
        return super().content_bias(query_heads[:, : key_heads.shape[1]], key_heads, query, key)


def centered(self, bias, query_heads, key_heads, query, key):
    """Takes the keys off their mean, which later ones belong to."""
    return bias + (key_heads - key_heads.mean(2, keepdim=True)).mean(-1)[:, :, None]


def answered_by_place(self, bias, query_heads, key_heads, query, key):
    return query_heads.mean(-1, keepdim=True) * key.index[:, None, None, :]


def answered_alike(self, bias, query_heads, key_heads, query, key):
    return query_heads.mean(-1, keepdim=True).expand(-1, -1, -1, key.length)


RestartsAfterCaching = placing("RestartsAfterCaching", Rotary, "rotate", by_column)
MUTANTS = {
    "shapes": (AnswersForTheBatch, after("OneMap", ALiBi, bias=lambda self, bias, *_: bias[:, :1])),
    "exports": (
        after("ReadsAnIndex", Rotary, rotate=lambda self, heads, x, at: heads * (1 + int(at.index.max()))),
        after("Other", Rotary, rotate=lambda self, heads, *_: heads * (1 + torch.compiler.is_exporting())),
    ),
    "any_number_of_heads": (AnswersForKeys, FourMaps),
    "padding_moves_nothing": (placing("CountsFromTheEnd", Sinusoidal, "embed", from_the_end),),
    "positions_go_on_after_a_cache": (
        AnswersByColumn,
        RestartsAfterCaching,
        placing("SkipsOneAfterCaching", Sinusoidal, "embed", skip_one),
    ),
    "rows_are_independent": (
        AnswersForTheBatch,
        after("ReadsNeighbors", Learned, embed=lambda self, out, x, _: out + x.mean(dim=0, keepdim=True)),
    ),
    "scores_depend_on_distance": (
        after("AnswersByPlace", Answers, content_bias=answered_by_place),
        after("ScoresByPlace", ALiBi, bias=by_place),
        placing(
            "TurnsByRoot",
            Rotary,
            "rotate",
            lambda at: replace(at, index=at.index.double().sqrt(), start=None, end=None),
        ),
    ),
    "a_method_of_its_own_tells_positions_apart": (
        after("AnswersAlike", Answers, content_bias=answered_alike),
        placing("OneRow", Learned, "embed", lambda at: replace(at, index=torch.zeros_like(at.index))),
        FlatBias,
    ),
    "scores_change_between_two_tokens": (after("AnswersForAll", Answers, content_bias=centered),),
    "long_sequences_work_or_are_refused": (
        TooShort,
        instead("TooLong", Learned, embed=lambda self, x, positions: x + self.table(positions.index)),
    ),
    "rotation_keeps_lengths": (after("Stretches", Rotary, rotate=stretched),),
}


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.POSITION, raising=("TooLong",))


def test_one_factor_for_all_heads_is_no_fault():
    """As in YaRN."""
    scaled = after("Scales", Rotary, rotate=lambda self, heads, *_: 1.1 * heads)
    assert check(scaled, only="rotation_keeps_lengths")


def test_a_bias_that_depends_on_the_query_keeps_the_contract():
    report = check(Answers)
    assert report.summary() == f"{len(checks_of(Kind.POSITION))} of {report.counts['checks']} checks passed"
