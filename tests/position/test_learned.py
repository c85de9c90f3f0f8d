"""learned: rows of a table, up to the model's maximum."""

import pytest
import torch

from plugformer.errors import LengthError
from plugformer.interfaces import ModelContext, Positions
from plugformer_plugins.position.learned import Learned

MODEL = ModelContext(width=6, heads=1, ffn_width=1, max_length=5)


def test_adds_the_row_of_each_token():
    encoding = Learned(MODEL)
    positions = Positions(torch.tensor([[0, 1, 2], [2, 3, 4]]), None, encoding)
    x = torch.randn(2, 3, 6)
    rows = encoding.table.weight
    expected = x + torch.stack([rows[[0, 1, 2]], rows[[2, 3, 4]]])
    torch.testing.assert_close(encoding.embed(x, positions), expected)


@pytest.mark.parametrize(("length", "start", "named"), [(6, 0, 6), (9, 0, 9), (1, 5, 6), (2, 7, 9)])
def test_a_longer_one_is_refused(length, start, named):
    encoding = Learned(MODEL)
    positions = Positions.of(length, encoding, start=start)
    with pytest.raises(
        LengthError, match=rf"{named} tokens is longer than the 5 .* model.max_length .* {named}$"
    ):
        encoding.embed(torch.zeros(1, length, 6), positions)


def test_padding_does_not_count_as_length():
    encoding, real = Learned(MODEL), torch.tensor([[True] * 5 + [False] * 4])
    embedded = encoding.embed(torch.zeros(1, 9, 6), Positions.of(9, encoding, real))
    torch.testing.assert_close(embedded[real], encoding.table.weight)
