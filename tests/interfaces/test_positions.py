"""Positions: indices count real tokens only, wherever the padding is and in whatever pieces they come."""

import pytest
import torch

from plugformer.interfaces import Padding, PositionalEncoding, Positions


def real(*rows: str) -> torch.Tensor:
    """Reads "x" as a real token and "." as padding."""
    return torch.tensor([[mark == "x" for mark in row] for row in rows])


@pytest.mark.parametrize(
    ("rows", "padding", "start", "index"),
    [
        (["xxx", "xxx"], Padding.NONE, 0, [[0, 1, 2]]),
        (["xxx", "x.."], Padding.RIGHT, 0, [[0, 1, 2]]),
        (["xxx", "x.."], Padding.RIGHT, 4, [[4, 5, 6]]),
        (["xxx", "..x"], Padding.ANYWHERE, 0, [[0, 1, 2], [0, 0, 0]]),
        ([".x.x", "x..x"], Padding.ANYWHERE, 0, [[0, 0, 0, 1], [0, 0, 0, 1]]),
        (["...", "xx."], Padding.ANYWHERE, 5, [[5, 5, 5], [5, 6, 6]]),
    ],
)
def test_index_counts_real_tokens(rows, padding, start, index):
    positions = Positions.of(real(*rows), PositionalEncoding(), padding, start=start)
    assert positions.index.tolist() == index
    assert positions.length == len(rows[0])


@pytest.mark.parametrize(
    ("rows", "padding"),
    [
        (["xxxxx", "xxxxx"], Padding.NONE),
        (["xxxxx", "xxx.."], Padding.RIGHT),
        (["..xxx", "xxxxx"], Padding.ANYWHERE),
        (["x.x.x", ".xx.."], Padding.ANYWHERE),
    ],
)
@pytest.mark.parametrize("cut", [1, 2, 4])
def test_pieces_make_the_whole(rows, padding, cut):
    encoding = PositionalEncoding()
    whole = real(*rows)
    expected = Positions.of(whole, encoding, Padding.ANYWHERE)
    head = Positions.of(whole[:, :cut], encoding, padding)
    tail = head.advance(whole[:, cut:], padding)
    joined = head.concatenate(tail)
    assert torch.equal(joined.mask, whole)
    index = joined.index.expand_as(whole)
    assert torch.equal(index[whole], expected.index[whole])
    assert joined.padding is (Padding.NONE if padding is Padding.NONE else Padding.ANYWHERE)


def test_select_takes_rows_in_order():
    positions = Positions.of(real("xxx", ".xx", "..x"), PositionalEncoding())
    chosen = positions.select(torch.tensor([2, 0, 2]))
    assert chosen.mask.tolist() == real("..x", "xxx", "..x").tolist()
    assert chosen.index.tolist() == [[0, 0, 0], [0, 1, 2], [0, 0, 0]]


def test_under_another_encoding_the_tokens_stay():
    first, second = PositionalEncoding(), PositionalEncoding()
    positions = Positions.of(real("xx."), first)
    other = positions.with_encoding(second)
    assert positions.with_encoding(first) is positions
    assert other.encoding is second
    assert other.index is positions.index
    assert other.mask is positions.mask
