"""A module of another library draws its values anew, as one that is made for the first time."""

import torch
from torch import nn

from plugformer.model.build import draw_own_values, refuse_hidden_values
from plugformer_blocks import AdaptedModule


class Foreign(nn.Module):
    """Draws its values in its constructor."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((3,), 2.0))
        self.map = nn.Linear(3, 3)
        nn.init.zeros_(self.map.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.map(x) * self.scale


def test_values_are_those_of_its_constructor_by_the_seed() -> None:
    adapted = AdaptedModule(Foreign)
    refuse_hidden_values(adapted)
    weights = []
    for seed in (1, 1, 2):
        for parameter in adapted.parameters():
            nn.init.constant_(parameter, 7.0)
        draw_own_values(adapted, seed)
        assert adapted.module.scale.eq(2.0).all()
        assert not adapted.module.map.bias.any()
        weights.append(adapted.module.map.weight.detach().clone())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(adapted(torch.eye(3)), adapted.module(torch.eye(3)))
