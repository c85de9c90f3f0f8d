"""Muon with Adam moves along singular directions, has two rates, and keeps the contract."""

import torch
from plugformer_gallery.muon_adam import MuonAdam, orthogonal_factor
from torch import nn

from plugformer_testing import parametrize_with_checks


@parametrize_with_checks("optimizer/muon_adam")
def test_muon_adam(check):
    check()


def test_the_factor_is_orthogonal_where_the_matrix_is_not_zero() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(6, 2) @ torch.randn(2, 4)
    factor = orthogonal_factor(matrix)
    torch.testing.assert_close(torch.linalg.svdvals(factor), torch.tensor([1.0, 1.0, 0.0, 0.0]))
    assert (factor * matrix).sum() > 0


def test_each_rule_has_its_rate() -> None:
    paths = ("encoder.layers.0.up.weight", "encoder.embedding.weight")
    parameters = {path: nn.Parameter(torch.zeros(3, 4)) for path in paths}
    built = MuonAdam(lr=0.5, adam_lr=0.25).build(parameters.items())
    for parameter in parameters.values():
        parameter.grad = torch.ones(3, 4)
    built.step()
    hidden, embedding = parameters.values()
    torch.testing.assert_close(torch.linalg.svdvals(hidden.detach()), torch.tensor([0.5, 0.0, 0.0]))
    torch.testing.assert_close(embedding.detach(), torch.full((3, 4), -0.25))
