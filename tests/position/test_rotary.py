"""rope against complex numbers and the rotation matrix of the paper, and its relative property."""

import cmath

import pytest
import torch

from plugformer.errors import ConfigurationError
from plugformer.interfaces import ModelContext, Positions
from plugformer_plugins.position import rotary
from plugformer_plugins.position.rotary import Rotary

MODEL = ModelContext(width=16, heads=2, ffn_width=1)


def positions(length: int, start: int = 0, base: float = 10000.0) -> Positions:
    return Positions.of(length, Rotary(MODEL, base=base), start=start)


@pytest.mark.parametrize("base", [10000.0, 50.0])
@pytest.mark.parametrize("width", [2, 6, 8])
def test_equals_multiplication_by_complex_numbers(width, base):
    heads = torch.randn(2, 3, 5, width, dtype=torch.float64)
    turned = positions(5, start=2, base=base).rotate(heads)
    for p in range(5):
        for i in range(width // 2):
            turn = cmath.exp(1j * (p + 2) * base ** (-2 * i / width))
            for pair, result in zip(
                heads[:, :, p, 2 * i : 2 * i + 2].flatten(0, 1).tolist(),
                turned[:, :, p, 2 * i : 2 * i + 2].flatten(0, 1).tolist(),
                strict=True,
            ):
                assert complex(*result) == pytest.approx(complex(*pair) * turn, abs=1e-12)


def test_the_formula_that_compilers_get_equals_the_complex_product(monkeypatch):
    heads = torch.randn(2, 3, 5, 8, dtype=torch.float64, requires_grad=True)
    cosine, sine = torch.randn(2, 1, 1, 5, 4, dtype=torch.float64)
    turns = torch.stack([cosine, sine, -sine, sine], dim=-1)
    product = rotary.turn(heads, turns)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    formula = rotary.turn(heads, turns)
    torch.testing.assert_close(formula, product)
    direction = torch.randn_like(product)
    torch.testing.assert_close(
        torch.autograd.grad(formula, heads, direction), torch.autograd.grad(product, heads, direction)
    )


def test_bfloat16_is_turned_by_exact_angles():
    heads = torch.randn(1, 1, 400, 8).bfloat16()
    at = positions(400)
    turned, exact = at.rotate(heads), at.rotate(heads.float())
    assert turned.dtype == torch.bfloat16
    lengths = heads.float().unflatten(-1, (-1, 2)).norm(dim=-1)
    errors = (turned.float() - exact).unflatten(-1, (-1, 2)).norm(dim=-1)
    assert (errors / lengths).max() < 2**-6  # of numbers with eight bits; rounded angles would be wrong by 1


def test_angles_are_computed_once_for_all_layers(monkeypatch):
    at, calls = positions(3), []
    turns = Rotary._turns
    monkeypatch.setattr(Rotary, "_turns", lambda *args: calls.append(args) or turns(*args))
    for _ in range(3):
        at.rotate(torch.randn(1, 2, 3, 8))
    at.rotate(torch.randn(1, 1, 3, 4))
    assert len(calls) == 2


@pytest.mark.parametrize("width", [1, 3, 7])
def test_an_odd_head_width_is_refused(width):
    with pytest.raises(ConfigurationError, match=rf"odd width {width}; .* {width + 1} for example"):
        positions(2).rotate(torch.randn(1, 1, 2, width))
