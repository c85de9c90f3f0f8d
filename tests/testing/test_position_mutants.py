"""Every check of positional encodings catches a fault that it is there for."""

from dataclasses import replace

import torch
from tests.testing.mutants import changed, mutant_tests

from plugformer.errors import LengthError
from plugformer.interfaces import Padding, PositionalEncoding
from plugformer.registry import Kind
from plugformer_plugins.position.alibi import ALiBi
from plugformer_plugins.position.learned import Learned
from plugformer_plugins.position.rotary import Rotary
from plugformer_plugins.position.sinusoidal import Sinusoidal
from plugformer_testing import check
from plugformer_testing.runner import checks_of


def by_column(positions):
    """The same tokens, numbered by column from zero."""
    return changed(positions, index=torch.arange(positions.length)[None].expand(positions.mask.shape))


class RestartsAfterCaching(Rotary):
    """A rotary encoding that numbers what it is given from zero."""

    def rotate(self, heads, positions):
        return super().rotate(heads, by_column(positions))


class SkipsOneAfterCaching(Sinusoidal):
    """Places padded pieces that stand behind others one position too far."""

    def embed(self, x, positions):
        far = positions.padding is not Padding.NONE and int(positions.index.min()) > 0
        return super().embed(x, changed(positions, index=positions.index + far))


class EmbedsByColumn(Sinusoidal):
    def embed(self, x, positions):
        return super().embed(x, by_column(positions))


class OneMap(ALiBi):
    def bias(self, query, key):
        return super().bias(query, key)[:, :1]


class FourMaps(ALiBi):
    def __init__(self, model):
        super().__init__(replace(model, heads=4))


class TooShort(Learned):
    def embed(self, x, positions):
        if positions.length > 10:
            raise LengthError("ten tokens are enough")
        return super().embed(x, positions)


class TooLong(Learned):
    def embed(self, x, positions):
        return x + self.table(positions.index)


class ReadsNeighbors(Learned):
    def embed(self, x, positions):
        return super().embed(x, positions) + x.mean(dim=0, keepdim=True)


class ScoresByPlace(ALiBi):
    """Adds the key's position, not its distance."""

    def bias(self, query, key):
        return -0.1 * key.index[:, None, None, :] * torch.ones(len(self.slopes), query.length, 1)


class TurnsByRoot(Rotary):
    """Turns by the square root of the position."""

    def rotate(self, heads, positions):
        index = positions.index.double().sqrt()
        return super().rotate(heads, changed(positions, index=index))


class OneRow(Learned):
    def embed(self, x, positions):
        return super().embed(x, changed(positions, index=torch.zeros_like(positions.index)))


class FlatBias(PositionalEncoding):
    def __init__(self, model):
        super().__init__()
        self.heads = model.heads

    def bias(self, query, key):
        return torch.full((1, self.heads, query.length, key.length), 0.5)


class Scales(Rotary):
    """As YaRN does."""

    def rotate(self, heads, positions):
        return 1.1 * super().rotate(heads, positions)


class Stretches(Rotary):
    def rotate(self, heads, positions):
        scales = torch.linspace(1, 2, heads.shape[1], dtype=heads.dtype)[:, None, None]
        return scales * super().rotate(heads, positions)


class Answers(PositionalEncoding):
    """Adds the mean of the query's coordinates, more of it the farther the key."""

    def __init__(self, model):
        super().__init__()

    def content_bias(self, query_heads, key_heads, query, key):
        far = (query.index[:, None, :, None] - key.index[:, None, None, :]).abs()
        return query_heads.mean(-1, keepdim=True) * far


class AnswersByPlace(Answers):
    """Adds it by the key's position, not by its distance."""

    def content_bias(self, query_heads, key_heads, query, key):
        return query_heads.mean(-1, keepdim=True) * key.index[:, None, None, :]


class AnswersAlike(Answers):
    def content_bias(self, query_heads, key_heads, query, key):
        return query_heads.mean(-1, keepdim=True).expand(-1, -1, -1, key.length)


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


class AnswersForAll(Answers):
    """Takes the keys off their mean, which later ones belong to."""

    def content_bias(self, query_heads, key_heads, query, key):
        centered = (key_heads - key_heads.mean(2, keepdim=True)).mean(-1)[:, :, None]
        return super().content_bias(query_heads, key_heads, query, key) + centered


MUTANTS = {
    "shapes": (AnswersForTheBatch, OneMap),
    "any_number_of_heads": (AnswersForKeys, FourMaps),
    "padding_moves_nothing": (AnswersByColumn, RestartsAfterCaching, EmbedsByColumn),
    "positions_go_on_after_a_cache": (AnswersByColumn, RestartsAfterCaching, SkipsOneAfterCaching),
    "rows_are_independent": (AnswersForTheBatch, ReadsNeighbors),
    "scores_depend_on_distance": (AnswersByPlace, ScoresByPlace, TurnsByRoot),
    "a_filled_slot_tells_positions_apart": (AnswersAlike, OneRow, FlatBias),
    "scores_change_between_two_tokens": (AnswersForAll,),
    "long_sequences_work_or_are_refused": (TooShort, TooLong),
    "rotation_keeps_lengths": (Stretches,),
}


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.POSITION, raising=(TooLong,))


def test_one_factor_for_all_heads_is_no_fault():
    assert check(Scales, only="rotation_keeps_lengths")


def test_a_bias_that_depends_on_the_query_keeps_the_contract():
    report = check(Answers)
    assert report.summary() == f"{len(checks_of(Kind.POSITION))} of {report.counts['checks']} checks passed"
