"""gqa and mqa equal mha on repeated key-value heads."""

import pytest
import torch

from plugformer.errors import ConfigurationError
from plugformer.interfaces import BIDIRECTIONAL, CAUSAL, Context, ModelContext, Positions, Tokens
from plugformer.interfaces.context import State
from plugformer.model import Cache
from plugformer_plugins.attention.grouped import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiQueryAttention,
)
from plugformer_plugins.position.rotary import Rotary

MODEL = ModelContext(width=24, heads=6, ffn_width=8)
HEAD_WIDTH = 4
GROUPED = {
    "gqa 3": lambda: GroupedQueryAttention(MODEL, kv_heads=3),
    "gqa 2": lambda: GroupedQueryAttention(MODEL, kv_heads=2),
    "mqa": lambda: MultiQueryAttention(MODEL),
}


def repeat(tensor: torch.Tensor, times: int) -> torch.Tensor:
    """Repeats every head's rows of a weight or bias."""
    return tensor.unflatten(0, (-1, HEAD_WIDTH)).repeat_interleave(times, dim=0).flatten(0, 1)


def full_heads(grouped: GroupedQueryAttention) -> MultiHeadAttention:
    """Returns the multi-head attention whose key-value heads are those of the groups, repeated."""
    times = MODEL.heads // grouped.kv_heads
    values = {
        name: repeat(value, times) if name.startswith(("key", "value")) else value
        for name, value in grouped.state_dict().items()
    }
    full = MultiHeadAttention(MODEL).double()
    full.load_state_dict(values)
    return full


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("name", GROUPED)
def test_equals_repeated_heads(name, causal):
    grouped = GROUPED[name]().double()
    full = full_heads(grouped)
    real = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    positions = Positions.of(5, Rotary(MODEL), real)
    x = torch.randn(2, 5, 24, dtype=torch.float64, requires_grad=True)
    context = Context(positions, positions, view=CAUSAL if causal else BIDIRECTIONAL)
    actual, expected = (attention(x, context)[real] for attention in (grouped, full))
    torch.testing.assert_close(actual, expected)

    direction = torch.randn_like(actual)
    ours = torch.autograd.grad(actual, [x, grouped.key.weight, grouped.value.bias], direction)
    theirs = torch.autograd.grad(expected, [x, full.key.weight, full.value.bias], direction)
    torch.testing.assert_close(ours[0], theirs[0])
    for one, repeated in zip(
        ours[1:], theirs[1:], strict=True
    ):  # a shared head collects its copies' gradients
        copies = repeated.unflatten(0, (grouped.kv_heads, -1, HEAD_WIDTH))
        torch.testing.assert_close(one, copies.sum(dim=1).flatten(0, 1))


@pytest.mark.parametrize(("attention", "heads"), [("gqa 3", 3), ("gqa 2", 2), ("mqa", 1)])
def test_the_state_holds_the_groups_only(attention, heads):
    grouped, state = GROUPED[attention](), State()
    tokens = Tokens(torch.ones(2, 5, dtype=torch.int64), torch.ones(2, 5, dtype=torch.bool), full=True)
    query, key, slots = Cache([{"attention": state}]).extend(tokens, CAUSAL, Rotary(MODEL))
    grouped(torch.randn(2, 5, 24), Context(query, key, view=CAUSAL, state=state, slots=slots))
    kept = [tensor[:, :, :5] for tensor in state.tensors]
    assert [tensor.shape for tensor in kept] == [(2, heads, 5, HEAD_WIDTH)] * 2


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (2, 1), (4, 2), (6, 3), (8, 4), (3, 1), (9, 3)])
def test_by_default_heads_are_halved(heads, kv_heads):
    model = ModelContext(width=heads * 2, heads=heads, ffn_width=8)
    assert GroupedQueryAttention(model).kv_heads == kv_heads


@pytest.mark.parametrize("kv_heads", [4, 5, 7, 12])
def test_kv_heads_that_do_not_divide_the_heads_are_refused(kv_heads):
    with pytest.raises(
        ConfigurationError, match=rf"kv_heads {kv_heads} .* 6 heads; expected one of 1, 2, 3, 6:"
    ):
        GroupedQueryAttention(MODEL, kv_heads=kv_heads)
