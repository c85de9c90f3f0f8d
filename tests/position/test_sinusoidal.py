"""sinusoidal against the formula of Attention Is All You Need, section 3.5, one value at a time."""

import math

import pytest
import torch

from plugformer.interfaces import ModelContext, Positions
from plugformer_plugins.position.sinusoidal import Sinusoidal


def wave(position: int, coordinate: int, width: int) -> float:
    angle = position / 10000 ** ((coordinate - coordinate % 2) / width)
    return math.cos(angle) if coordinate % 2 else math.sin(angle)


def embed(width: int, positions: Positions, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = torch.zeros(1, positions.length, width, dtype=dtype)
    return positions.encoding.embed(x, positions)


@pytest.mark.parametrize("width", [1, 2, 5, 8, 33])
@pytest.mark.parametrize("start", [0, 7, 5000])
def test_equals_the_formula(width, start):
    encoding = Sinusoidal(ModelContext(width=width, heads=1, ffn_width=1, max_length=4))
    at = Positions.of(6, encoding, start=start)
    expected = [[wave(start + p, i, width) for i in range(width)] for p in range(6)]
    # float32 knows an angle of 5,000 to about 5e-4.
    torch.testing.assert_close(
        embed(width, at), torch.tensor([expected]), atol=6e-4 if start else 1e-6, rtol=0
    )


def test_bfloat16_rounds_values_and_not_angles():
    encoding = Sinusoidal(ModelContext(width=64, heads=1, ffn_width=1)).bfloat16()
    at = Positions.of(300, encoding)
    rounded = embed(64, at, torch.bfloat16)
    assert rounded.dtype == torch.bfloat16
    assert torch.equal(rounded, embed(64, at).bfloat16())
