"""Norms equal torch's, and their definitions."""

import pytest
import torch
from torch import nn

from plugformer.interfaces import ModelContext
from plugformer_plugins.norm.norms import LayerNorm, RMSNorm

MODEL = ModelContext(width=12, heads=1, ffn_width=1)
PAIRS = {
    "layer_norm": (lambda: LayerNorm(MODEL), lambda: nn.LayerNorm(12)),
    "layer_norm without bias": (
        lambda: LayerNorm(MODEL, epsilon=0.1, bias=False),
        lambda: nn.LayerNorm(12, eps=0.1, bias=False),
    ),
    "rms_norm": (lambda: RMSNorm(MODEL), lambda: nn.RMSNorm(12, eps=1e-6)),
    "rms_norm with epsilon": (lambda: RMSNorm(MODEL, epsilon=0.1), lambda: nn.RMSNorm(12, eps=0.1)),
}


@pytest.mark.parametrize("shape", [(12,), (5, 12), (2, 3, 12), (0, 12)])
@pytest.mark.parametrize("name", PAIRS)
def test_equals_torchs(name, shape):
    ours, theirs = (make().double() for make in PAIRS[name])
    for parameter in ours.parameters():
        nn.init.normal_(parameter)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    actual, expected = ours(x), theirs(x)
    torch.testing.assert_close(actual, expected)
    direction = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(actual, [x, *ours.parameters()], direction),
        torch.autograd.grad(expected, [x, *theirs.parameters()], direction),
    )
