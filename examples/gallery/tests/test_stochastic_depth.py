"""Stochastic depth is its formula, leaves out what it should, and keeps the contract."""

from collections.abc import Mapping

import pytest
import torch
from plugformer_gallery.stochastic_depth import StochasticDepth
from torch import nn

from plugformer import create
from plugformer.interfaces import Place, ResidualContext, Sublayer
from plugformer_testing import parametrize_with_checks

WIDTH, EXAMPLES = 8, 4000


@parametrize_with_checks("residual/stochastic_depth")
def test_stochastic_depth(check):
    check()


NAMES = ("attention", "feed_forward")
SUBLAYERS: Mapping[str, Sublayer] = dict.fromkeys(NAMES, Sublayer(lambda hidden, tokens, most: 2 * hidden))


def context(layer: int) -> ResidualContext:
    return ResidualContext(
        width=WIDTH,
        heads=2,
        ffn_width=8,
        place=Place(layer=layer, layers=4),
        sublayers=NAMES,
        norm=nn.Identity,
    )


@pytest.mark.parametrize(("layer", "share"), [(0, 0.1), (1, 0.2), (3, 0.4)])
def test_the_share_of_examples_grows_with_the_layer(layer: int, share: float) -> None:
    """Equation 4: of four layers the first leaves out a quarter of what the last one does."""
    torch.manual_seed(0)
    x = torch.ones(EXAMPLES, 1, WIDTH)
    output = StochasticDepth(context(layer), rate=0.4).train()(x, SUBLAYERS)
    grown = 1 + 2 / (1 - share)  # of each sublayer that is not left out
    left_out = [(output[:, 0, 0] - value).abs() < 1e-4 for value in (1.0, grown, grown**2)]
    found = torch.stack(left_out).double().mean(1)
    expected = torch.tensor([share**2, 2 * share * (1 - share), (1 - share) ** 2])
    torch.testing.assert_close(found, expected.double(), atol=0.03, rtol=0)
    assert (output == output[..., :1]).all(), "an example is left out as a whole"


def test_the_mean_is_kept() -> None:
    torch.manual_seed(0)
    residual = StochasticDepth(context(3), rate=0.4)
    x = torch.ones(EXAMPLES, 1, WIDTH)
    mean = residual.train()(x, SUBLAYERS).mean()
    torch.testing.assert_close(mean, residual.eval()(x, SUBLAYERS).mean(), rtol=0.03, atol=0)


def test_in_evaluation_it_is_pre_norm() -> None:
    x = torch.randn(2, 3, WIDTH)
    pre = create("residual", "pre", context(3))
    assert torch.equal(StochasticDepth(context(3)).eval()(x, SUBLAYERS), pre(x, SUBLAYERS))


def test_with_a_rate_of_zero_it_is_pre_norm() -> None:
    x = torch.randn(2, 3, WIDTH)
    pre = create("residual", "pre", context(3))
    assert torch.equal(StochasticDepth(context(3), rate=0).train()(x, SUBLAYERS), pre(x, SUBLAYERS))
