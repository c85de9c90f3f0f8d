"""Context: what is allowed, written out by hand, which kernel shortcuts are right, and joint products."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from plugformer.interfaces import (
    BIDIRECTIONAL,
    CAUSAL,
    Context,
    PositionalEncoding,
    Positions,
    Tokens,
)
from plugformer.model import Cache


class Distance(PositionalEncoding):
    """A bias that is easy to recognize: key minus query position."""

    def bias(self, query, key):
        return (key.index[:, None, None, :] - query.index[:, None, :, None]).float()


def at(rows: list[str], encoding: PositionalEncoding | None = None) -> Positions:
    real = torch.tensor([[mark == "x" for mark in row] for row in rows])
    return Positions.of(len(rows[0]), encoding or PositionalEncoding(), None if real.all() else real)


def behind(past: list[str], new: int) -> Context:
    """Returns the context of new tokens of each row behind those of a cache."""
    cache = Cache([])
    for rows in (past, ["x" * new] * len(past)):
        real = torch.tensor([[mark == "x" for mark in row] for row in rows])
        tokens = Tokens(real.long(), real, bool(real.all()))
        query, key, slots = cache.extend(tokens, CAUSAL, PositionalEncoding())
    return Context(query, key, view=CAUSAL, slots=slots)


def picture(mask: torch.Tensor) -> list[list[str]]:
    """Draws a (batch, 1, query, key) mask, x for allowed."""
    return [["".join("x" if seen else "." for seen in row) for row in batch] for batch in mask[:, 0].tolist()]


@pytest.mark.parametrize(
    ("rows", "causal", "expected", "unmasked"),
    [
        (["xxx"], False, [["xxx"]], True),
        (["xx."], False, [["xx."]], False),
        (["xxx"], True, [["x..", "xx.", "xxx"]], False),
        (["xx."], True, [["x..", "xx.", "xx."]], False),
        (["xxx", "..."], False, [["xxx"], ["..."]], False),
    ],
)
def test_whole_sequences(rows, causal, expected, unmasked):
    """What is allowed, and which kernel shortcuts are right."""
    positions = at(rows)
    context = Context(positions, positions, view=CAUSAL if causal else BIDIRECTIONAL)
    assert picture(context.mask) == expected
    assert (context.is_causal, context.unmasked) == (causal, unmasked)


def test_a_step_against_a_cache_sees_everything_before_it():
    context = behind(["xxx", "xx."], 1)
    assert picture(context.mask) == [["xxxx"], ["xxx."]]
    assert context.query.index.tolist() == [[3], [2]]
    assert not context.is_causal
    assert not context.unmasked
    assert behind(["xxx", "xxx"], 1).unmasked


def test_a_chunk_against_a_cache_sees_the_past_and_its_own_past():
    assert picture(behind(["xx"], 2).mask) == [["xxx.", "xxxx"]]
    context = behind(["xx", "x."], 2)
    assert picture(context.mask) == [["xxx.", "xxxx"], ["xx..", "xxx."]]
    assert not context.is_causal
    assert not context.unmasked


@pytest.mark.parametrize("causal", [False, True])
def test_only_some_tokens_are_queries_and_keys(causal):
    positions, notes = at(["xxx", "xx."]), print
    whole = Context(positions, positions, view=CAUSAL if causal else BIDIRECTIONAL, observer=notes)
    context = whole.only(torch.tensor([[True, False, True], [False, True, False]]), None)
    seen = [["x..", "x..", "x.x"], ["...", ".x.", ".x."]] if causal else [["x.x"], [".x."]]
    assert picture(context.mask) == seen
    assert not context.is_causal
    assert torch.equal(context.real, context.key.mask)
    assert (context.view, context.observer) == (whole.view, notes)


def test_merged_is_the_bias_where_allowed():
    positions = at(["xx"], Distance())
    full = Context(positions, positions, view=BIDIRECTIONAL)
    causal = Context(positions, positions, view=CAUSAL)
    assert full.attn_mask.tolist() == [[[[0.0, 1.0], [-1.0, 0.0]]]]
    assert causal.attn_mask.tolist() == [[[[0.0, -torch.inf], [-1.0, 0.0]]]]


def linears(bias: bool = True) -> list[nn.Linear]:
    torch.manual_seed(2)
    return [nn.Linear(6, width, bias=bias).double() for width in (8, 4, 4)]


def product(maps: list[nn.Linear], x: torch.Tensor) -> torch.Tensor:
    positions = Positions.of(3, PositionalEncoding())
    return Context(positions, positions, view=CAUSAL).product(x, *maps)


def assert_equal_the_maps(maps: list[nn.Linear], x: torch.Tensor) -> None:
    """Compares values, and the gradients of `x` and of each map."""
    variables = [x, *(each for part in maps for each in part.parameters() if each.requires_grad)]
    actual, expected = product(maps, x), torch.cat([part(x) for part in maps], dim=-1)
    torch.testing.assert_close(actual, expected)
    direction = torch.randn_like(actual)
    torch.testing.assert_close(
        torch.autograd.grad(actual, variables, direction),
        torch.autograd.grad(expected, variables, direction),
    )


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def doubled_forward(part):
    part.forward = lambda x, original=part.forward: 2 * original(x)


OTHERS = {
    "as they are": lambda part: None,
    "hook": lambda part: part.register_forward_hook(lambda module, arguments, output: 2 * output),
    "pre-hook": lambda part: part.register_forward_pre_hook(lambda module, arguments: (2 * arguments[0],)),
    "parametrized": weight_norm,
    "frozen": lambda part: part.requires_grad_(False),
    "subclass": lambda part: setattr(part, "__class__", Doubled),
    "replaced forward": doubled_forward,
}


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("change", OTHERS)
def test_a_joint_product_equals_the_maps_by_themselves(change, bias):
    maps = linears(bias)
    OTHERS[change](maps[1])
    assert_equal_the_maps(maps, torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True))


def test_maps_with_and_without_bias_have_a_joint_product():
    maps = [*linears(True)[:2], linears(False)[2]]
    assert_equal_the_maps(maps, torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True))


def test_a_backward_hook_of_a_map_is_called():
    maps, seen = linears(), []
    maps[1].register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0].shape))
    product(maps, torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)).sum().backward()
    assert seen == [(2, 3, 4)]
