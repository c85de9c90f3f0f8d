"""Texts packed into pieces: every token is in one piece, in order."""

import numpy as np
import pyarrow as pa
import pytest
from datasets import Dataset

from plugformer.data.arrow import encoded_examples, ragged
from plugformer.data.encoding import EncodedSplit, packed, pieces_of
from plugformer.interfaces import BEGIN, END, Level
from plugformer_plugins.architecture.decoder_only import DecoderOnly
from plugformer_plugins.task_type.language_modelling import LanguageModelling


@pytest.mark.parametrize("length", [1, 2, 3, 5, 100])
def test_every_token_is_in_one_piece(length):
    texts = [[10, 11, 12], [], [13], [14, 15, 16, 17, 18]]
    made = packed(ragged(pa.chunked_array([texts], pa.list_(pa.int32()))), np.arange(4), length)
    found = pieces_of(made, np.arange(len(made.lengths)))
    stream = [token for text in texts for token in (*text, END)]
    assert found.output.values.tolist() == stream
    assert found.output.lengths.tolist() == made.lengths.tolist()
    assert set(made.lengths[:-1].tolist()) <= {length}
    assert found.start.values.tolist() == [BEGIN, *stream][::length][: len(made.lengths)]


def test_pieces_come_in_the_order_asked_for():
    texts = ragged(pa.chunked_array([[[10, 11, 12, 13]]], pa.list_(pa.int32())))
    found = pieces_of(packed(texts, np.arange(1), 2), np.array([2, 0]))
    assert found.output.values.tolist() == [END, 10, 11]
    assert found.start.values.tolist() == [13, BEGIN]


@pytest.mark.parametrize("offset", range(4))
def test_with_an_offset_pieces_begin_later_and_are_as_long(offset):
    texts = ragged(pa.chunked_array([[list(range(10, 23))]], pa.list_(pa.int32())))
    made = packed(texts, np.arange(1), 4)
    found = pieces_of(made, np.arange(4), offset)
    assert found.output.lengths.tolist() == made.lengths.tolist() == [4, 4, 4, 2]
    stream = [BEGIN, *range(10, 23), END]
    starts = [min(1 + 4 * piece + offset, len(stream) - length) for piece, length in enumerate([4, 4, 4, 2])]
    wanted = [
        token
        for start, length in zip(starts, made.lengths, strict=True)
        for token in stream[start : start + length]
    ]
    assert found.output.values.tolist() == wanted
    assert found.start.values.tolist() == [stream[start - 1] for start in starts]


def test_each_epoch_has_an_offset_of_its_own_and_evaluation_has_none():
    data = Dataset.from_dict({"text": ["..."], "encoded_output": [list(range(10, 110))]})
    split = EncodedSplit(
        *encoded_examples(data, Level.NEXT_TOKEN), LanguageModelling(), DecoderOnly(), piece=16
    )
    rows = range(len(split))

    def read(*epoch):
        return split.batch(rows, epoch=epoch or None).target.ids

    assert read()[0].tolist() == [BEGIN, *range(10, 26)]
    assert read(1, 5).equal(read(1, 5))
    first = {int(read(1, epoch)[0, 0]) for epoch in range(50)}
    assert first <= {BEGIN, *range(10, 25)}
    assert len(first) > 12
    assert {int(read(2, epoch)[0, 0]) for epoch in range(3)} != {
        int(read(1, epoch)[0, 0]) for epoch in range(3)
    }
    for epoch in range(3):  # the same offset for all of an epoch: no token twice but at the end
        later = read(1, epoch)[:-2]
        assert later[1:, 0].equal(later[:-1, -1])
