"""Positions: where they begin, what padding has, and rows that are selected."""

import pytest
import torch

from plugformer.interfaces import PositionalEncoding, Positions


def real(*rows: str) -> torch.Tensor:
    """Reads "x" as a real token and "." as padding."""
    return torch.tensor([[mark == "x" for mark in row] for row in rows])


@pytest.mark.parametrize("start", [0, 4])
def test_index_counts_from_the_start(start):
    positions = Positions.of(3, PositionalEncoding(), real("xxx", "x.."), start=start)
    assert positions.index.tolist() == [[start, start + 1, start + 2]]
    assert (positions.length, positions.start, positions.end) == (3, start, start + 3)
    assert positions.real_index.tolist() == [[start, start + 1, start + 2], [start, 0, 0]]


def test_select_takes_rows_in_order():
    positions = Positions.of(3, PositionalEncoding(), real("xxx", "xx.", "x.."))
    chosen = positions.select(torch.tensor([2, 0, 2]))
    assert chosen.mask.tolist() == real("x..", "xxx", "x..").tolist()
    assert chosen.index.tolist() == [[0, 1, 2]]
    each = Positions(torch.tensor([[0, 1], [4, 5], [2, 3]]), None, PositionalEncoding())
    assert each.select(torch.tensor([2, 0, 2])).index.tolist() == [[2, 3], [0, 1], [2, 3]]
