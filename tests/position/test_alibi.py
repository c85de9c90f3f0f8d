"""alibi against the slopes and the figure of the paper."""

import pytest
import torch

from plugformer.interfaces import ModelContext, Positions
from plugformer_plugins.position.alibi import ALiBi, slopes


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        # Section 3: for 8 heads 1/2^1, 1/2^2, ..., 1/2^8; for 16 heads the exponents 0.5, 1, 1.5, ..., 8.
        (8, [2**-exponent for exponent in range(1, 9)]),
        (16, [2 ** -(exponent / 2) for exponent in range(1, 17)]),
        (4, [1 / 4, 1 / 16, 1 / 64, 1 / 256]),
        (1, [2**-8]),
        # The authors' code for other numbers: those of 8, then every other one of 16.
        (12, [2**-exponent for exponent in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
        (3, [1 / 16, 1 / 256, 1 / 4]),
    ],
)
def test_slopes(heads, expected):
    assert slopes(heads) == pytest.approx(expected)


def test_penalties_grow_with_distance_in_both_directions():
    encoding = ALiBi(ModelContext(width=4, heads=2, ffn_width=1))
    positions = Positions.of(3, encoding)
    distance = torch.tensor([[0.0, 1, 2], [1, 0, 1], [2, 1, 0]])
    assert torch.equal(
        encoding.bias(positions, positions), torch.stack([-distance / 16, -distance / 256])[None]
    )


def test_rounding_to_bfloat16_hardly_changes_what_a_query_weighs():
    """Penalties by the number of the key, which softmax cannot tell from these, would be wrong by 0.27."""
    encoding = ALiBi(ModelContext(width=8, heads=8, ffn_width=1))
    keys = Positions.of(4096, encoding)
    last = Positions.of(1, encoding, start=4095)
    bias = encoding.bias(last, keys)
    rounded = bias.bfloat16().float()
    assert torch.equal(rounded[..., -257:], bias[..., -257:])
    torch.testing.assert_close(rounded.softmax(-1), bias.softmax(-1), rtol=0.05, atol=1e-5)
