"""Texts packed into pieces: every token is in one piece, in order."""

import numpy as np
import pyarrow as pa
import pytest

from plugformer.data.arrow import Packed, TokenColumn
from plugformer.interfaces import BEGIN, END


@pytest.mark.parametrize("length", [1, 2, 3, 5, 100])
def test_every_token_is_in_one_piece(length):
    texts = [[10, 11, 12], [], [13], [14, 15, 16, 17, 18]]
    packed = Packed(TokenColumn(pa.chunked_array([texts], pa.list_(pa.int32()))), np.arange(4), length)
    every = np.arange(len(packed))
    pieces = packed.take(every)
    stream = [token for text in texts for token in (*text, END)]
    assert pieces.values.tolist() == stream
    assert pieces.lengths.tolist() == packed.lengths.tolist()
    assert set(packed.lengths[:-1].tolist()) <= {length}
    before = packed.before(every).values.tolist()
    assert before == [BEGIN, *stream][::length][: len(packed)]


def test_pieces_come_in_the_order_asked_for():
    texts = TokenColumn(pa.chunked_array([[[10, 11, 12, 13]]], pa.list_(pa.int32())))
    packed = Packed(texts, np.arange(1), 2)
    assert packed.take(np.array([2, 0])).values.tolist() == [END, 10, 11]
    assert packed.before(np.array([2, 0])).values.tolist() == [13, BEGIN]
