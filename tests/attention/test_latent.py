"""mla equals the paper's equations with keys and values of every head computed openly."""

import math

import pytest
import torch

from plugformer.interfaces import BIDIRECTIONAL, CAUSAL, Context, ModelContext, Positions
from plugformer_plugins.attention.latent import MultiHeadLatentAttention
from plugformer_plugins.position.rotary import Rotary

MODEL = ModelContext(width=24, heads=4, ffn_width=8)
HEAD_WIDTH = 6


def openly(
    attention: MultiHeadLatentAttention, x: torch.Tensor, positions: Positions, allowed: torch.Tensor
) -> torch.Tensor:
    """DeepSeek-V2 (https://arxiv.org/abs/2405.04434), equations 9 to 19, head by head, without absorption."""
    down = attention.latent(x)
    c = down[..., : attention.latent_width]
    c = c / (c.square().mean(-1, keepdim=True) + 1e-6).sqrt() * attention.latent_norm.weight
    shared = positions.rotate(down[:, None, :, attention.latent_width :])[:, 0]
    per_head = HEAD_WIDTH + attention.rotary_width
    heads = []
    for h in range(MODEL.heads):
        rows = slice(h * HEAD_WIDTH, (h + 1) * HEAD_WIDTH)
        key = torch.cat([c @ attention.key.weight[rows].T, shared], dim=-1)
        value = c @ attention.value.weight[rows].T
        query = attention.query(x)[..., h * per_head : (h + 1) * per_head]
        turned = positions.rotate(query[:, None, :, HEAD_WIDTH:])[:, 0]
        query = torch.cat([query[..., :HEAD_WIDTH], turned], dim=-1)
        scores = query @ key.transpose(-2, -1) / math.sqrt(per_head)
        heads.append(scores.masked_fill(~allowed, -math.inf).softmax(-1) @ value)
    return attention.output(torch.cat(heads, dim=-1))


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(("latent", "rotary"), [(None, None), (7, 2), (5, 8), (30, 4)])
def test_equals_the_papers_equations(latent, rotary, bias, causal):
    attention = MultiHeadLatentAttention(MODEL, latent_width=latent, rotary_width=rotary, bias=bias).double()
    positions = Positions.of(5, Rotary(MODEL))
    x = torch.randn(2, 5, 24, dtype=torch.float64, requires_grad=True)
    allowed = torch.ones(5, 5, dtype=torch.bool).tril() if causal else torch.ones(5, 5, dtype=torch.bool)
    expected = openly(attention, x, positions, allowed)
    actual = attention(x, Context(positions, positions, view=CAUSAL if causal else BIDIRECTIONAL))
    torch.testing.assert_close(actual, expected)

    variables = [x, *attention.parameters()]
    direction = torch.randn_like(actual)
    for ours, theirs in zip(
        torch.autograd.grad(actual, variables, direction),
        torch.autograd.grad(expected, variables, direction),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("width", "heads", "latent", "rotary"),
    [
        (5120, 128, 160, 20),
        (16384, 128, 512, 64),  # the paper's head width 128 and 128 heads: latent 512, rotary 64
        (128, 4, 64, 16),
        (24, 8, 12, 2),
        (20, 4, 10, 4),
        (1, 1, 1, 2),
    ],
)
def test_default_widths(width, heads, latent, rotary):
    with torch.device("meta"):
        attention = MultiHeadLatentAttention(ModelContext(width=width, heads=heads, ffn_width=8))
    assert (attention.latent_width, attention.rotary_width) == (latent, rotary)
