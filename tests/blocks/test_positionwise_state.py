"""PositionwiseState: appending and selecting equal concatenation and indexing."""

import pytest
import torch

from plugformer_blocks import PositionwiseState


def pieces(lengths: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(3, length, 2, 4), torch.randn(3, length, 5)) for length in lengths]


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1, 1, 1, 1, 1], [4, 1, 1], [1, 9, 2], [2, 0, 1], [0, 1, 1]])
def test_append_concatenates_along_the_length(lengths):
    parts = pieces(lengths)
    state = PositionwiseState(*parts[0])
    for part in parts[1:]:
        state = state.append(PositionwiseState(*part))
    for kept, of_all in zip(state.tensors, zip(*parts, strict=True), strict=True):
        assert torch.equal(kept, torch.cat(of_all, dim=1))


def test_select_then_append_goes_on_with_those_rows():
    first, second = pieces([3, 2])
    rows = torch.tensor([2, 0, 2, 1])
    state = PositionwiseState(*first).select(rows)
    state = state.append(PositionwiseState(*(tensor[rows] for tensor in second)))
    for kept, one, two in zip(state.tensors, first, second, strict=True):
        assert torch.equal(kept, torch.cat([one, two], dim=1)[rows])


def test_appending_moves_old_tokens_rarely():
    state = PositionwiseState(torch.zeros(1, 1, 4))
    addresses = set()
    for _ in range(63):
        state = state.append(PositionwiseState(torch.zeros(1, 1, 4)))
        addresses.add((state.tensors[0].data_ptr(), state.tensors[0].stride()))
    assert state.tensors[0].shape == (1, 64, 4)
    assert len(addresses) <= 7


def test_the_tensors_given_are_not_changed():
    tensor = torch.zeros(1, 2, 4)
    PositionwiseState(tensor).append(PositionwiseState(torch.ones(1, 1, 4)))
    assert torch.equal(tensor, torch.zeros(1, 2, 4))
