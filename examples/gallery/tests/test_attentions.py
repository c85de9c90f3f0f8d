"""The attentions are their formulas, keep the contract, and say what they cannot do."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from plugformer_gallery.convolution import Convolution
from plugformer_gallery.cross_layer import CrossLayerAttention
from plugformer_gallery.retention import Retention
from plugformer_gallery.sliding_window import SlidingWindowAttention
from plugformer_gallery.talking_heads import TalkingHeadsAttention
from torch import Tensor

from plugformer import create
from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    BIDIRECTIONAL,
    CAUSAL,
    Attention,
    Context,
    ModelContext,
    Place,
    PositionalEncoding,
    Positions,
    Tokens,
)
from plugformer.interfaces.context import State
from plugformer.model import Cache
from plugformer_testing import parametrize_with_checks

DECODER = Place(stack="decoder", view=CAUSAL)
MODEL = ModelContext(width=24, heads=4, ffn_width=8, place=DECODER)
LENGTH, WIDTH = 9, 6


@parametrize_with_checks("attention/convolution")
def test_convolution(check):
    check()


@parametrize_with_checks("attention/cross_layer")
def test_cross_layer(check):
    check()


@parametrize_with_checks("attention/cross_layer", options={"sharing": 3, "kv_heads": 2})
def test_cross_layer_with_fewer_heads(check):
    check()


@parametrize_with_checks("attention/retention")
def test_retention(check):
    check()


@parametrize_with_checks("attention/sliding_window")
def test_sliding_window(check):
    check()


@parametrize_with_checks("attention/sliding_window", options={"window": 2})
def test_a_narrow_window(check):
    check()


@parametrize_with_checks("attention/sliding_window", options={"window": 3})
def test_a_wider_window(check):
    check()


@parametrize_with_checks("attention/talking_heads")
def test_talking_heads(check):
    check()


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(2, LENGTH, MODEL.width, dtype=torch.float64)


@pytest.fixture(params=["none", "rope", "alibi"])
def encoding(request: pytest.FixtureRequest) -> PositionalEncoding:
    made: PositionalEncoding = create("position", request.param, MODEL)
    return made


def at(encoding: PositionalEncoding, length: int = LENGTH) -> Positions:
    return Positions.of(length, encoding)


def read(attention: Attention, x: Tensor, here: Positions) -> Tensor:
    output: Tensor = attention(x, Context(here, here, view=CAUSAL))
    return output


def steps(attention: Attention, x: Tensor, real: Tensor | None = None) -> Iterator[tuple[Tensor, Cache]]:
    """Yields the output of one token after the other, and what is kept then."""
    real = torch.ones(x.shape[:2], dtype=torch.bool) if real is None else real
    cache = Cache([{"attention": State()}])
    for n in range(x.shape[1]):
        tokens = Tokens(torch.zeros(len(x), 1, dtype=torch.int64), real[:, n : n + 1])
        query, key, slots = cache.extend(tokens, CAUSAL, PositionalEncoding())
        state = cache.layers[0]["attention"]
        context = Context(query, key, view=CAUSAL, state=state, slots=slots)
        yield attention(x[:, n : n + 1], context), cache


def heads_of(attention: Attention, x: Tensor, here: Positions) -> list[Tensor]:
    """Returns rotated queries and keys, and values, each (batch, heads, length, head width)."""
    made = [
        attention.get_submodule(name)(x).unflatten(-1, (MODEL.heads, -1)).transpose(1, 2)
        for name in ("query", "key", "value")
    ]
    return [here.rotate(made[0]), here.rotate(made[1]), made[2]]


def test_a_convolution_is_its_formula(x: Tensor) -> None:
    """Conformer, figure 2, in a decoder: a loop over tokens and those before them; then token by token."""
    attention, kernel = Convolution(MODEL, kernel=3).double(), 3
    value, gate = attention.input(x).chunk(2, dim=-1)
    hidden = torch.nn.functional.pad(value * gate.sigmoid(), (0, 0, kernel - 1, 0))
    weight, bias = attention.depthwise.weight[:, 0], attention.depthwise.bias  # (width, kernel), (width,)
    mixed = [sum(weight[:, k] * hidden[:, n + k] for k in range(kernel)) + bias for n in range(LENGTH)]
    normalized = attention.norm(torch.stack(mixed, dim=1))
    expected = attention.output(normalized * normalized.sigmoid())
    torch.testing.assert_close(read(attention, x, at(PositionalEncoding())), expected)
    for n, (output, cache) in enumerate(steps(attention, x)):
        torch.testing.assert_close(output[:, 0], expected[:, n])
        assert [each.shape for each in cache.layers[0]["attention"].kept] == [(2, kernel - 1, MODEL.width)]


def test_an_even_kernel_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="kernel 4 is even; expected an odd one, such as 5"):
        Convolution(MODEL, kernel=4)


@pytest.mark.parametrize(("sharing", "owners"), [(2, [0, 0, 2, 2, 4]), (3, [0, 0, 0, 3, 3])])
def test_layers_of_a_group_share_keys_and_values(x: Tensor, sharing: int, owners: list[int]) -> None:
    """Brandon et al., figure 1: only the first of a group has maps for them."""
    here = at(create("position", "rope", MODEL))
    layers = [
        CrossLayerAttention(
            replace(MODEL, place=replace(DECODER, layer=layer, layers=5)), sharing=sharing, kv_heads=2
        ).double()
        for layer in range(5)
    ]
    reads = [layer if each.reads_layer is None else each.reads_layer for layer, each in enumerate(layers)]
    assert reads == owners
    assert [hasattr(each, "key") for each in layers] == [layer == owners[layer] for layer in range(5)]
    for layer, attention in enumerate(layers):
        owner = layers[owners[layer]]
        query = here.rotate(attention.query(x).unflatten(-1, (MODEL.heads, -1)).transpose(1, 2))
        key, value = (part(x).unflatten(-1, (2, -1)).transpose(1, 2) for part in (owner.key, owner.value))
        key, value = (each.repeat_interleave(2, dim=1) for each in (here.rotate(key), value))
        future = torch.ones(LENGTH, LENGTH).triu(1).bool()
        weights = (query @ key.mT / math.sqrt(WIDTH)).masked_fill(future, -math.inf).softmax(-1)
        expected = attention.output((weights @ value).transpose(1, 2).flatten(2))
        kept = State()
        owner(x, Context(here, here, view=CAUSAL, state=kept))
        context = Context(here, here, view=CAUSAL, state=State(kept))
        torch.testing.assert_close(attention(x, context), expected)


def test_key_value_heads_that_do_not_fit() -> None:
    with pytest.raises(ConfigurationError, match="3 key-value heads do not divide 4 heads"):
        CrossLayerAttention(MODEL, kv_heads=3)


def test_retention_is_its_recurrence(x: Tensor) -> None:
    """RetNet, equation 6: S = decay S + k v, o = q S, a loop over tokens."""
    attention, here = Retention(MODEL).double(), at(create("position", "rope", MODEL))
    query, key, value = heads_of(attention, x, here)
    decay = torch.tensor([1 - 2.0**-5, 1 - 2.0**-6, 1 - 2.0**-7, 1 - 2.0**-8], dtype=torch.float64)
    state, outputs = torch.zeros(2, MODEL.heads, WIDTH, WIDTH, dtype=torch.float64), []
    for n in range(LENGTH):
        state = decay[:, None, None] * state + key[:, :, n, :, None] * value[:, :, n, None] / math.sqrt(WIDTH)
        outputs.append(torch.einsum("bhk,bhkv->bhv", query[:, :, n], state))
    of_heads = torch.stack(outputs, dim=1)  # (batch, length, heads, head width)
    of_heads = of_heads / (of_heads.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    gate = attention.gate(x)
    expected = attention.output(gate * gate.sigmoid() * of_heads.flatten(2))
    torch.testing.assert_close(read(attention, x, here), expected)


def test_retention_keeps_a_state_of_one_size(x: Tensor) -> None:
    attention = Retention(MODEL).double()
    expected, sizes = read(attention, x, at(PositionalEncoding())), set()
    for n, (output, cache) in enumerate(steps(attention, x)):
        torch.testing.assert_close(output[:, 0], expected[:, n])
        sizes.add(sum(tensor.numel() for tensor in cache.layers[0]["attention"].tensors))
    assert sizes == {2 * MODEL.heads * WIDTH * WIDTH}


@pytest.mark.parametrize("place", [Place(), Place(stack="decoder", cross=True)])
def test_retention_refuses_places_without_a_past(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="choose another attention here"):
        Retention(ModelContext(width=24, heads=4, ffn_width=8, place=place))


@pytest.mark.parametrize("window", [2, 3, 64])
def test_a_sliding_window_is_multi_head_attention_of_what_is_near(
    x: Tensor, encoding: PositionalEncoding, window: int
) -> None:
    attention, here = SlidingWindowAttention(MODEL, window=window).double(), at(encoding)
    query, key, value = heads_of(attention, x, here)
    bias = encoding.bias(here, here)
    scores = query @ key.mT / math.sqrt(WIDTH) + (0 if bias is None else bias)
    near = torch.ones(LENGTH, LENGTH).tril().triu(1 - window).bool()
    weights = scores.masked_fill(~near, -math.inf).softmax(-1)
    expected = attention.output((weights @ value).transpose(1, 2).flatten(2))
    torch.testing.assert_close(read(attention, x, here), expected)


def test_the_cache_of_a_sliding_window_is_as_long_as_the_window() -> None:
    """Rows may have different lengths: the last real tokens of each are kept."""
    torch.manual_seed(0)
    attention, x = SlidingWindowAttention(MODEL, window=4).double(), torch.randn(2, 40, 24).double()
    real, lengths = torch.arange(40) < torch.tensor([[40], [20]]), set()
    expected = read(attention, x, at(PositionalEncoding(), 40))
    for n, (output, cache) in enumerate(steps(attention, x, real)):
        torch.testing.assert_close(output[real[:, n], 0], expected[real[:, n], n])
        lengths |= {tensor.shape[-2] for tensor in cache.layers[0]["attention"].kept[:2]}
    assert lengths == {4}


def test_cross_attention_has_no_window(x: Tensor) -> None:
    place = Place(stack="decoder", cross=True)
    attention = SlidingWindowAttention(ModelContext(width=24, heads=4, ffn_width=8, place=place), window=2)
    queries, keys = at(PositionalEncoding(), 1), at(PositionalEncoding())
    attention, memory = attention.double(), x.requires_grad_()
    output = attention(
        x[:, :1].detach(), Context(queries, keys, view=BIDIRECTIONAL, cross=True, memory=memory)
    )
    (gradient,) = torch.autograd.grad(output.sum(), memory)
    assert (gradient.abs().amax(-1) > 0).all()


def test_talking_heads_is_its_formula(x: Tensor, encoding: PositionalEncoding) -> None:
    """Talking-heads attention, section 3, a loop over heads."""
    attention, here = TalkingHeadsAttention(MODEL).double(), at(encoding)
    query, key, value = heads_of(attention, x, here)
    bias = encoding.bias(here, here)
    scores = query @ key.mT / math.sqrt(WIDTH) + (0 if bias is None else bias)
    future = torch.ones(LENGTH, LENGTH).triu(1).bool()

    def talk(maps: list[Tensor], weights: Tensor) -> list[Tensor]:
        return [sum(row[g] * maps[g] for g in range(MODEL.heads)) for row in weights]

    mixed = talk(list(scores.unbind(1)), attention.before.weight)
    weights = talk(
        [each.masked_fill(future, -math.inf).softmax(-1) for each in mixed], attention.after.weight
    )
    of_heads = [weights[head] @ value[:, head] for head in range(MODEL.heads)]
    torch.testing.assert_close(read(attention, x, here), attention.output(torch.cat(of_heads, -1)))


@pytest.mark.parametrize(
    "make", [CrossLayerAttention, Retention, SlidingWindowAttention, TalkingHeadsAttention]
)
def test_sizes_that_do_not_fit(make: Callable[[ModelContext], Attention]) -> None:
    with pytest.raises(ConfigurationError, match="4 heads do not divide the width 22"):
        make(ModelContext(width=22, heads=4, ffn_width=8, place=DECODER))
