"""mha equals torch.nn.MultiheadAttention with the same weights."""

import pytest
import torch
from torch import nn

from plugformer.interfaces import BIDIRECTIONAL, CAUSAL, Context, ModelContext, PositionalEncoding, Positions
from plugformer_plugins.attention.grouped import MultiHeadAttention

MODEL = ModelContext(width=24, heads=4, ffn_width=8)
PATTERNS = {"full": ["xxxxx", "xxxxx"], "padded": ["xxxxx", "xxx.."]}


def pair(*, bias: bool) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """Returns our attention and torch's with a copy of its weights."""
    ours = MultiHeadAttention(MODEL, bias=bias).double()
    theirs = nn.MultiheadAttention(MODEL.width, MODEL.heads, bias=bias, batch_first=True).double()
    projections = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in projections]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([part.bias for part in projections]))
            theirs.out_proj.bias.copy_(ours.output.bias)
    return ours, theirs


def mask(real: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """Returns torch's mask, (batch * heads, query, key), True where attention is forbidden.

    Queries at padding may see everything: what they read is not compared, and must not be NaN in torch.
    """
    batch, length = real.shape
    allowed = real[:, None, :].expand(batch, length, length)
    if causal:
        allowed = allowed & torch.ones(length, length, dtype=torch.bool).tril()
    return ~(allowed | ~real[:, :, None]).repeat_interleave(MODEL.heads, dim=0)


def read_pattern(pattern: str) -> tuple[torch.Tensor, Positions]:
    """Returns which tokens are real, and their positions."""
    real = torch.tensor([[mark == "x" for mark in row] for row in PATTERNS[pattern]])
    return real, Positions.of(5, PositionalEncoding(), None if real.all() else real)


def gradients(module: nn.Module, names: list[str], x: torch.Tensor, loss: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, [x, *(module.get_parameter(name) for name in names)]))


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_self_attention(pattern, bias, causal, training):
    real, positions = read_pattern(pattern)
    ours, theirs = pair(bias=bias)
    ours.train(training)
    theirs.train(training)
    x = torch.randn(*real.shape, MODEL.width, dtype=torch.float64, requires_grad=True)

    actual = ours(x, Context(positions, positions, view=CAUSAL if causal else BIDIRECTIONAL))[real]
    forbidden = mask(real, causal=causal)
    expected = theirs(x, x, x, attn_mask=forbidden, need_weights=False)[0][real]
    torch.testing.assert_close(actual, expected)

    direction = torch.randn_like(actual)
    ours_x, *ours_parts, ours_output = gradients(
        ours,
        ["query.weight", "key.weight", "value.weight", "output.weight"],
        x,
        (actual * direction).sum(),
    )
    theirs_x, theirs_parts, theirs_output = gradients(
        theirs, ["in_proj_weight", "out_proj.weight"], x, (expected * direction).sum()
    )
    torch.testing.assert_close(ours_x, theirs_x)
    torch.testing.assert_close(torch.cat(ours_parts), theirs_parts)
    torch.testing.assert_close(ours_output, theirs_output)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_cross_attention(pattern):
    real, keys = read_pattern(pattern)
    ours, theirs = pair(bias=True)
    memory, query = torch.randn(2, 5, 24, dtype=torch.float64), torch.randn(2, 3, 24, dtype=torch.float64)
    queries = Positions.of(3, PositionalEncoding())
    actual = ours(query, Context(queries, keys, view=BIDIRECTIONAL, cross=True, memory=memory))
    expected, _ = theirs(query, memory, memory, key_padding_mask=~real)
    torch.testing.assert_close(actual, expected)
