"""The positional encodings are their formulas, keep the contract, and say what they cannot do."""

import math

import pytest
import torch
from plugformer_gallery.shaw import RelativePositionRepresentations
from plugformer_gallery.yarn import YaRN
from torch import Tensor

from plugformer import create
from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    CAUSAL,
    Attention,
    Context,
    ModelContext,
    PositionalEncoding,
    Positions,
)
from plugformer_testing import parametrize_with_checks

MODEL = ModelContext(width=24, heads=4, ffn_width=8, max_length=256)
LENGTH, WIDTH = 7, 6


@parametrize_with_checks("position/shaw")
def test_shaw(check):
    check()


@parametrize_with_checks("position/shaw", options={"max_distance": 1})
def test_near_distances(check):
    check()


@parametrize_with_checks("position/yarn")
def test_yarn(check):
    check()


def positions(encoding: PositionalEncoding) -> Positions:
    return Positions.of(LENGTH, encoding)


@pytest.mark.parametrize("name", ["mha", "gqa", "mqa"])
def test_shaw_is_equation_4(name: str) -> None:
    """A loop over queries and keys: every attention of heads of that width reads it."""
    torch.manual_seed(0)
    attention: Attention = create("attention", name, MODEL).double()
    encoding = RelativePositionRepresentations(MODEL, max_distance=2).double()
    x, here = torch.randn(2, LENGTH, 24, dtype=torch.float64), positions(encoding)
    query, key, value = (
        attention.get_submodule(part)(x).unflatten(-1, (-1, WIDTH)).transpose(1, 2)
        for part in ("query", "key", "value")
    )
    scores = torch.full((2, MODEL.heads, LENGTH, LENGTH), -math.inf, dtype=torch.float64)
    shared = MODEL.heads // key.shape[1]
    for head in range(MODEL.heads):
        for i in range(LENGTH):
            for j in range(i + 1):
                a = encoding.table[max(-2, min(2, j - i)) + 2]
                k = key[:, head // shared, j]
                scores[:, head, i, j] = (query[:, head, i] * (k + a)).sum(-1) / math.sqrt(WIDTH)
    weights = scores.softmax(-1)
    read = torch.stack([weights[:, head] @ value[:, head // shared] for head in range(MODEL.heads)], dim=2)
    expected = attention.get_submodule("output")(read.flatten(2))
    got = attention(x, Context(here, here, view=CAUSAL))
    torch.testing.assert_close(got, expected)


def test_shaw_says_which_head_width_it_needs() -> None:
    """Latent attention compares latents with one another, which are wider than a head."""
    attention: Attention = create("attention", "mla", MODEL)
    x = torch.randn(2, LENGTH, 24)

    def read(encoding: PositionalEncoding) -> Tensor:
        here = positions(encoding)
        return attention(x, Context(here, here, view=CAUSAL))

    with pytest.raises(ConfigurationError, match=r"representations have width 6: set head_width to 16$"):
        read(RelativePositionRepresentations(MODEL))
    assert read(RelativePositionRepresentations(MODEL, head_width=16)).isfinite().all()


def test_yarn_without_a_factor_is_rope() -> None:
    heads, rope = torch.randn(2, 4, LENGTH, WIDTH), create("position", "rope", MODEL)
    yarn = YaRN(MODEL, factor=1)
    torch.testing.assert_close(positions(yarn).rotate(heads), positions(rope).rotate(heads))


def test_yarn_slows_down_what_turns_rarely_and_scales_all() -> None:
    """Sections 3.2 and 3.4; of a head of width 8 the pairs turn 40.7, 4.07, 0.407 and 0.0407 times in 256."""
    rates = YaRN(MODEL, factor=2, original_length=256).rates(8)
    ramp = (256 / (2 * math.pi) * 0.1 - 1) / 31
    expected = [1.0, (1 - ramp) * 0.05 + ramp * 0.1, 0.005, 0.0005]
    torch.testing.assert_close(rates, torch.tensor(expected, dtype=torch.float64))
    heads = torch.randn(2, 4, LENGTH, WIDTH)
    grown = positions(YaRN(MODEL, factor=16)).rotate(heads).norm(dim=-1) / heads.norm(dim=-1)
    torch.testing.assert_close(grown, torch.full_like(grown, 0.1 * math.log(16) + 1))


def test_yarn_was_trained_on_what_is_left_of_the_longest_sequence() -> None:
    chosen = YaRN(MODEL, factor=4, original_length=64)
    torch.testing.assert_close(YaRN(MODEL, factor=4).rates(8), chosen.rates(8))


def test_yarn_says_what_does_not_fit() -> None:
    with pytest.raises(ConfigurationError, match="slow is 40; expected less than fast, which is 32"):
        YaRN(MODEL, slow=40)
    with pytest.raises(ConfigurationError, match="odd width 3"):
        positions(YaRN(MODEL)).rotate(torch.zeros(2, 4, LENGTH, 3))
