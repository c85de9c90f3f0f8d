"""Mixture of depths is its formula, trains on a share of each sequence, and decodes token by token."""

import pytest
import torch
from plugformer_gallery.mixture_of_depths import MixtureOfDepths, best
from torch import nn

from plugformer import create
from plugformer.interfaces import (
    BIDIRECTIONAL,
    Context,
    ModelContext,
    PositionalEncoding,
    Positions,
    ResidualContext,
    Sublayer,
)
from plugformer.model import Layer
from plugformer_testing import parametrize_with_checks

WIDTH = 8


@parametrize_with_checks("residual/mixture_of_depths")
def test_mixture_of_depths(check):
    check()


def double(hidden: torch.Tensor, tokens: torch.Tensor | None, most: int | None) -> torch.Tensor:
    assert tokens is not None
    return 2 * hidden * tokens[..., None]


def residual(capacity: float) -> MixtureOfDepths:
    torch.manual_seed(0)
    names = ("attention", "feed_forward")
    context = ResidualContext(width=WIDTH, heads=2, ffn_width=8, sublayers=names, norm=nn.Identity)
    return MixtureOfDepths(context, capacity=capacity)


@pytest.mark.parametrize(("share", "expected"), [(0.5, [3, 2, 0]), (0.125, [1, 1, 0]), (1.0, [5, 3, 0])])
def test_a_share_of_the_real_tokens_is_taken(share: float, expected: list[int]) -> None:
    """Padding has the highest scores here; of equal scores the first counts."""
    real = torch.arange(5) < torch.tensor([5, 3, 0])[:, None]
    scores = torch.where(real, torch.tensor([0.0, 2.0, 1.0, 1.0, -1.0]), 9.0)
    tokens = best(scores, real, share)
    assert tokens.sum(dim=1).tolist() == expected
    assert not tokens[~real].any()
    if share == 0.5:
        assert tokens[0].tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("training", [False, True])
def test_it_is_the_formula(training: bool) -> None:
    """Equation 1: the layer's output times the score is added; two sublayers triple the stream twice."""
    module, x = residual(0.5).train(training), torch.randn(2, 6, WIDTH)
    real = torch.ones(2, 6, dtype=torch.bool)
    output = module(x, dict.fromkeys(module.norms, Sublayer(double, real=real)))
    scores = module.router(x)
    taken = best(scores[..., 0], real, 0.5) if training else scores[..., 0] > 0
    expected = torch.where(taken[..., None], x + scores * (9 * x - x), x)
    torch.testing.assert_close(output, expected)
    assert hasattr(module, "auxiliary_loss") is training


def test_decoding_learns_the_choice_of_training() -> None:
    """Section 3.5: a score above zero comes to mean a place among the best."""
    module = residual(0.25).train()
    real = torch.ones(64, 16, dtype=torch.bool)
    sublayers = dict.fromkeys(module.norms, Sublayer(double, real=real))
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    x = torch.randn(64, 16, WIDTH)
    for _ in range(200):
        optimizer.zero_grad()
        module(x, sublayers)
        module.auxiliary_loss.backward()
        optimizer.step()
    scores = module.router(x)[..., 0]
    assert ((scores > 0) == best(scores, real, 0.25)).float().mean() > 0.9


def test_padding_is_never_taken() -> None:
    """In evaluation the score alone decides, and padding may have any."""
    module, model = residual(0.5), ModelContext(width=WIDTH, heads=2, ffn_width=8)
    parts = {
        "attention": create("attention", "mha", model),
        "feed_forward": create("feed_forward", "relu", model),
    }
    layer, x = Layer(sublayers=parts, residual=module, dropout=0.0).eval(), torch.randn(2, 6, WIDTH)
    nn.init.zeros_(module.router.weight)
    nn.init.ones_(module.router.bias)
    real = torch.arange(6) < torch.tensor([[4], [2]])
    padded = Positions.of(6, PositionalEncoding(), real)
    output = layer(x, Context(padded, padded, view=BIDIRECTIONAL), None, None)
    for row, length in enumerate((4, 2)):
        alone = Positions.of(length, PositionalEncoding())
        expected = layer(x[row : row + 1, :length], Context(alone, alone, view=BIDIRECTIONAL), None, None)
        torch.testing.assert_close(output[row, :length], expected[0])
