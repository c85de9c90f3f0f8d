"""Recurrent: pieces are folded into a summary in their order, and rows move with both."""

import torch

from plugformer_blocks import Recurrent


class Weighted(Recurrent):
    """A sum in which what came before counts half as much with each token."""

    def fold(self):
        (values,) = self.piece
        total = self.past[0] if self.past else torch.zeros(len(values))
        for value in values.unbind(1):
            total = total / 2 + value
        return (total,)


def test_appending_folds_what_was_there_and_keeps_the_new_piece():
    state = Weighted(torch.tensor([[8.0, 4.0]]))
    assert state.past == ()
    state = state.append(Weighted(torch.tensor([[2.0]])))
    assert [tensor.tolist() for tensor in (*state.past, *state.piece)] == [[8.0], [[2.0]]]
    state = state.append(Weighted(torch.tensor([[1.0]])))
    assert [tensor.tolist() for tensor in (*state.past, *state.piece)] == [[6.0], [[1.0]]]
    assert isinstance(state, Weighted)


def test_rows_move_in_summary_and_piece():
    state = Weighted(torch.tensor([[8.0], [1.0], [0.0]])).append(
        Weighted(torch.tensor([[2.0], [3.0], [4.0]]))
    )
    chosen = state.select(torch.tensor([1, 1, 0]))
    assert [tensor.tolist() for tensor in (*chosen.past, *chosen.piece)] == [[1, 1, 8], [[3], [3], [2]]]
    first = Weighted(torch.tensor([[8.0], [1.0]])).select(torch.tensor([1]))
    assert (first.past, first.piece[0].tolist()) == ((), [[1.0]])
