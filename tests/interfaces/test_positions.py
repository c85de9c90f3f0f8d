"""Positions: indices count from the beginning of each row, in whatever pieces it comes."""

import pytest
import torch

from plugformer.interfaces import CAUSAL, PositionalEncoding, Positions, Tokens
from plugformer.model import Cache


def real(*rows: str) -> torch.Tensor:
    """Reads "x" as a real token and "." as padding."""
    return torch.tensor([[mark == "x" for mark in row] for row in rows])


@pytest.mark.parametrize("start", [0, 4])
def test_index_counts_from_the_start(start):
    positions = Positions.of(3, PositionalEncoding(), real("xxx", "x.."), start=start)
    assert positions.index.tolist() == [[start, start + 1, start + 2]]
    assert (positions.length, positions.start, positions.end) == (3, start, start + 3)
    assert positions.real_index.tolist() == [[start, start + 1, start + 2], [start, 0, 0]]


@pytest.mark.parametrize("rows", [["xxxxx", "xxxxx"], ["xxxxx", "xxx.."], ["xx...", "x...."]])
@pytest.mark.parametrize("cut", [1, 2, 4])
def test_pieces_make_the_whole(rows, cut):
    encoding, whole, cache = PositionalEncoding(), real(*rows), Cache([])
    counts, found = whole.sum(dim=1), []
    for mask in (whole[:, :cut], whole[:, cut:]):
        query, key, _ = cache.extend(Tokens(mask.long(), mask, bool(mask.all())), CAUSAL, encoding)
        index = query.index.expand_as(mask)
        found.append([index[row, mask[row]].tolist() for row in range(2)])
    assert [first + second for first, second in zip(*found, strict=True)] == [[*range(n)] for n in counts]
    seen = torch.ones(2, 5, dtype=torch.bool) if key.mask is None else key.mask
    assert seen.sum(dim=1).tolist() == counts.tolist()
    assert torch.equal(key.index.expand_as(seen)[seen], torch.cat([torch.arange(n) for n in counts]))


def test_select_takes_rows_in_order():
    positions = Positions.of(3, PositionalEncoding(), real("xxx", "xx.", "x.."))
    chosen = positions.select(torch.tensor([2, 0, 2]))
    assert chosen.mask.tolist() == real("x..", "xxx", "x..").tolist()
    assert chosen.index.tolist() == [[0, 1, 2]]
    each = Positions(torch.tensor([[0, 1], [4, 5], [2, 3]]), None, PositionalEncoding())
    assert each.select(torch.tensor([2, 0, 2])).index.tolist() == [[2, 3], [0, 1], [2, 3]]
