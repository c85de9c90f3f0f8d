"""Position-wise and gated networks against the papers' formulas on plain matrices."""

import math

import pytest
import torch

from plugformer.interfaces import BIDIRECTIONAL, Context, ModelContext, PositionalEncoding, Positions
from plugformer_plugins.feed_forward.networks import GEGLU, GELU, ReGLU, ReLU, SwiGLU

MODEL = ModelContext(width=6, heads=1, ffn_width=10)
AT = Positions.of(7, PositionalEncoding())
CONTEXT = Context(AT, AT, view=BIDIRECTIONAL)


def relu(x):
    return torch.where(x > 0, x, torch.zeros_like(x))


def exact_gelu(x):
    """Hendrycks and Gimpel, section 2: x times the normal distribution function."""
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def tanh_gelu(x):
    """The approximation in the same section."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def swish(x):
    return x / (1 + torch.exp(-x))


PLAIN = {
    "relu": (lambda **options: ReLU(MODEL, **options), relu),
    "gelu": (lambda **options: GELU(MODEL, **options), exact_gelu),
    "gelu by tanh": (lambda **options: GELU(MODEL, approximate="tanh", **options), tanh_gelu),
}
GATED = {
    "swiglu": (lambda **options: SwiGLU(MODEL, **options), swish),
    "geglu": (lambda **options: GEGLU(MODEL, **options), exact_gelu),
    "reglu": (lambda **options: ReGLU(MODEL, **options), relu),
}


def assert_same(network, x, actual, expected):
    torch.testing.assert_close(actual, expected)
    direction, variables = torch.randn_like(actual), [x, *network.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(actual, variables, direction), torch.autograd.grad(expected, variables, direction)
    )


def linear(layer, x):
    return x @ layer.weight.T + (0 if layer.bias is None else layer.bias)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", PLAIN)
def test_position_wise(name, bias):
    make, activation = PLAIN[name]
    network = make(bias=bias).double()
    x = torch.randn(2, 7, 6, dtype=torch.float64, requires_grad=True)
    expected = linear(network.down, activation(linear(network.up, x)))
    assert_same(network, x, network(x, CONTEXT), expected)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", GATED)
def test_gated(name, bias):
    make, activation = GATED[name]
    network = make(bias=bias).double()
    x = torch.randn(2, 7, 6, dtype=torch.float64, requires_grad=True)
    expected = linear(network.down, activation(linear(network.gate, x)) * linear(network.up, x))
    assert_same(network, x, network(x, CONTEXT), expected)
