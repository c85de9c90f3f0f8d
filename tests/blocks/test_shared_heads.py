"""Heads that share keys and values keep a fused kernel on a GPU: tensors on `meta` show what it is given."""

import importlib

import pytest
import torch

from plugformer.interfaces import BIDIRECTIONAL, CAUSAL, Context, PositionalEncoding, Positions
from plugformer_blocks import softmax_attention

HEADS, WIDTH = 6, 8
MODULE = importlib.import_module("plugformer_blocks.softmax_attention")


def heads(count, device="cpu", dtype=torch.float32):
    return torch.randn(2, count, 5, WIDTH, device=device, dtype=dtype)


def context_of(device, padded):
    real = torch.arange(5) < torch.tensor([[5], [3]])
    mask = real.to(device) if padded else None
    positions = Positions.of(5, PositionalEncoding(), mask, device=torch.device(device))
    return Context(positions, positions, view=BIDIRECTIONAL if padded else CAUSAL)


@pytest.fixture
def calls(monkeypatch):
    """Keeps what the kernel is given."""
    found, kernel = [], MODULE.scaled_dot_product_attention

    def spy(query, key, value, **options):
        found.append((query, key, value, options))
        return kernel(query, key, value, **options)

    monkeypatch.setattr(MODULE, "scaled_dot_product_attention", spy)
    return found


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_on_a_gpu_a_masked_query_head_is_given_its_group(calls, groups, dtype):
    query, key, value = (heads(count, "meta", dtype) for count in (HEADS, groups, groups))
    softmax_attention(query, key, value, context_of("meta", padded=True))
    ((query, key, value, options),) = calls
    assert not options["enable_gqa"]
    assert query.shape == key.shape == value.shape
    assert (key.stride(1) == 0) is (groups == 1), "one group is shared without a copy"
