"""Dropout: share, mean, gradient, and when it does nothing."""

import pytest
import torch

from plugformer.model.layer import LEVELS, Dropout

SIZE = 200_000


def drop(rate: float, x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(1)
    return Dropout(rate)(x)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_share_and_scale(rate):
    output = drop(rate, torch.ones(SIZE))
    deviation = (rate * (1 - rate) / SIZE) ** 0.5
    assert output.eq(0).float().mean().item() == pytest.approx(rate, abs=5 * deviation + 1 / LEVELS)
    kept = output[output != 0]
    rounded = round(rate * LEVELS) / LEVELS
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - rounded)))


def test_every_place_is_dropped_independently():
    """Four elements come from one number: none of the four, and no two of them, may be special."""
    dropped = drop(0.3, torch.ones(SIZE)).eq(0).double().view(-1, 4)
    assert dropped.mean(0).sub(0.3).abs().max() < 0.01
    assert torch.corrcoef(dropped.T).fill_diagonal_(0).abs().max() < 0.02


def test_evaluation_and_rate_zero_are_the_identity():
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_gradients_pass_where_values_do():
    x = torch.randn(1001, dtype=torch.float64, requires_grad=True)
    output = drop(0.4, x)
    output.sum().backward()
    torch.testing.assert_close(x.grad, (output / x).detach())


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_added(rate):
    x, y = torch.randn(2, 1001, dtype=torch.float64)
    torch.manual_seed(1)
    found = Dropout(rate).added(x, y)
    torch.testing.assert_close(found, x + drop(rate, y))
