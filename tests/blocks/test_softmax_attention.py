"""softmax_attention: each way through PyTorch's kernels equals equation 1 of Attention Is All You Need.

The formula is written here once more, as loops over queries, from the pattern of allowed keys alone.
"""

import itertools
import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from plugformer.interfaces import BIDIRECTIONAL, CAUSAL, Context, PositionalEncoding, Positions
from plugformer_blocks import softmax_attention

HEADS, GROUPS, WIDTH, VALUE_WIDTH = 4, 2, 6, 7
PATTERNS = {
    "full": ["xxxxx", "xxxxx"],
    "padded": ["xxxxx", "xxx.."],
    "nothing real": ["xxxxx", "....."],
}


class Bias(PositionalEncoding):
    """A learned number for each head and distance."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(HEADS, 9, dtype=torch.float64))

    def bias(self, query, key):
        distance = key.index[:, None, :] - query.index[:, :, None] + 4
        return self.table[:, distance].transpose(0, 1)


class Relative(PositionalEncoding):
    """A learned vector for each distance, which queries are multiplied with."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(9, WIDTH, dtype=torch.float64))

    def content_bias(self, query_heads, key_heads, query, key):
        distance = key.index[:, None, :] - query.index[:, :, None] + 4
        return torch.einsum("bhqd,bqkd->bhqk", query_heads, self.table[distance].expand(2, -1, -1, -1))


def read_pattern(pattern, encoding):
    """Returns which tokens are real, and their positions."""
    real = torch.tensor([[mark == "x" for mark in row] for row in PATTERNS[pattern]])
    return real, Positions.of(5, encoding, None if real.all() else real)


class Collector:
    def __call__(self, name, value):
        self.name, self.weights = name, value


def formula(query, key, value, allowed, bias, scale):
    """Returns softmax(q k^T * scale + bias) v for each query by itself; zero where no key is allowed."""
    rows = torch.zeros(*query.shape[:3], value.shape[-1], dtype=query.dtype)
    for b, h, t in itertools.product(*map(range, query.shape[:3])):
        keys = [s for s in range(key.shape[2]) if allowed(b, t, s)]
        group = h // (query.shape[1] // key.shape[1])
        if keys:
            scores = torch.stack([query[b, h, t] @ key[b, group, s] * scale + bias(b, h, t, s) for s in keys])
            weights = scores.exp() / scores.exp().sum()
            rows = rows.index_put(
                (torch.tensor(b), torch.tensor(h), torch.tensor(t)), weights @ value[b, group, keys]
            )
    return rows


@pytest.mark.parametrize("observed", [False, True], ids=["kernel", "observed"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    ("kind", "groups", "scale"),
    [
        (PositionalEncoding, GROUPS, 0.3),
        (Bias, GROUPS, None),
        (Relative, HEADS, None),
        (Relative, 1, 0.3),
    ],
)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("narrow", "further"), [(False, False), (True, False), (True, True)])
def test_forward_and_backward_equal_the_formula(
    further, narrow, pattern, kind, groups, scale, causal, observed
):
    """A bias from content is scaled with the product: Shaw et al. 2018, equation 4, (q k + q a) / sqrt(d)."""
    encoding, factor = kind(), scale or 1 / math.sqrt(WIDTH)
    real, positions = read_pattern(pattern, encoding)
    context = Context(
        positions,
        positions,
        view=CAUSAL if causal else BIDIRECTIONAL,
        observer=Collector() if observed else None,
    )
    inputs = [
        torch.randn(2, count, 5, width, dtype=torch.float64, requires_grad=True)
        for count, width in [(HEADS, WIDTH), (groups, WIDTH), (groups, VALUE_WIDTH)]
    ]
    index = positions.index.expand(2, -1)
    added = torch.randn(1, HEADS, 5, 5, dtype=torch.float64, requires_grad=True) if further else None
    # Neighbors alone: causally, that leaves the first query nothing at all.
    near = (index[:, None, :, None] - index[:, None, None, :]).abs() == 1 if narrow else None

    def bias(b, h, t, s):
        distance, found = index[b, s] - index[b, t] + 4, 0.0
        if kind is Bias:
            found = encoding.table[h, distance]
        if kind is Relative:
            found = inputs[0][b, h, t] @ encoding.table[distance] * factor
        return found + (added[0, h, t, s] if further else 0.0)

    expected = formula(
        *inputs,
        allowed=lambda b, t, s: (
            bool(real[b, s])
            and (not causal or index[b, s] <= index[b, t])
            and (near is None or bool(near[b, 0, t, s]))
        ),
        bias=bias,
        scale=factor,
    )
    actual = softmax_attention(*inputs, context, scale=scale, mask=near, bias=added)
    # Queries at padding are nobody's business; the fused causal kernel lets them see more.
    torch.testing.assert_close(actual.transpose(1, 2)[real], expected.transpose(1, 2)[real])

    variables = [*inputs, *encoding.parameters()] + [added] * further
    direction = torch.randn_like(expected) * real[:, None, :, None]
    for ours, theirs in zip(
        torch.autograd.grad(actual, variables, direction),
        torch.autograd.grad(expected, variables, direction),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_a_mask_and_a_bias_keep_the_fused_kernel():
    """PyTorch's plain formula, the only alternative on a CPU, refuses to run here."""
    positions = Positions.of(5, PositionalEncoding())
    context = Context(positions, positions, view=CAUSAL)
    query, key, value = (torch.randn(2, HEADS, 5, WIDTH, requires_grad=True) for _ in range(3))
    mask, bias = torch.rand(2, 1, 5, 5) > 0.1, torch.randn(1, HEADS, 5, 5)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        softmax_attention(query, key, value, context, mask=mask, bias=bias).sum().backward()
        with pytest.raises(RuntimeError, match="No available kernel"):
            softmax_attention(query, key, value, context, bias=bias.requires_grad_())


@pytest.mark.parametrize("observed", [False, True], ids=["kernel", "observed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("biased", [False, True], ids=["unbiased", "biased"])
def test_a_query_that_may_see_nothing_reads_zeros(biased, dtype, observed):
    real = torch.tensor([[True, True], [False, False]])
    positions = Positions.of(2, Bias() if biased else PositionalEncoding(), real)
    context = Context(positions, positions, view=BIDIRECTIONAL, observer=Collector() if observed else None)
    query, key, value = (torch.randn(2, HEADS, 2, WIDTH, dtype=dtype, requires_grad=True) for _ in range(3))
    read = softmax_attention(query, key, value, context)
    read.float().sum().backward()
    assert torch.equal(read[1], torch.zeros_like(read[1]))
    assert read[0].abs().min() > 0
    for tensor in (query, key, value):
        assert tensor.grad.isfinite().all()


@pytest.mark.parametrize("observed", [False, True], ids=["kernel", "observed"])
def test_dropout_zeroes_weights_and_scales_the_rest(observed):
    """With the identity as values, what is read are the weights themselves."""
    length = 64
    positions = Positions.of(length, PositionalEncoding())
    context = Context(positions, positions, view=BIDIRECTIONAL, observer=Collector() if observed else None)
    query = torch.zeros(1, HEADS, length, length)
    value = torch.eye(length).expand(1, HEADS, -1, -1)
    read = softmax_attention(query, query, value, context, dropout=0.25)
    kept = read[read > 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / length / 0.75))
    assert 0.2 < (read == 0).float().mean() < 0.3  # 16,384 weights: deviation 0.003
