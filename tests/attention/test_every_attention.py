"""What holds for every built-in attention, beyond the contract of all attentions."""

from dataclasses import replace

import pytest
import torch

from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    BIDIRECTIONAL,
    Attention,
    Context,
    ModelContext,
    PositionalEncoding,
    Positions,
)
from plugformer.registry import Kind, Registry

MODEL = ModelContext(width=24, heads=4, ffn_width=8, max_length=16)
ATTENTIONS = ["gqa", "mha", "mla", "mqa"]

every_attention = pytest.mark.parametrize("name", ATTENTIONS)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.discover()


@pytest.fixture
def attention(registry, name) -> Attention:
    return registry.create(Kind.ATTENTION, name, MODEL).double()


@pytest.fixture
def encoding(registry, position) -> PositionalEncoding:
    return registry.create(Kind.POSITION, position, MODEL).double()


def sequence(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, MODEL.width, dtype=torch.float64)


@pytest.mark.parametrize("position", ["alibi", "rope", "t5"])
@every_attention
def test_relative_encodings_are_read(attention, encoding):
    x = sequence(2, 6)

    def read(under: PositionalEncoding) -> torch.Tensor:
        positions = Positions.of(6, under)
        return attention(x, Context(positions, positions, view=BIDIRECTIONAL))

    assert not torch.allclose(read(encoding), read(PositionalEncoding()))


@every_attention
def test_every_projection_has_a_bias_or_none(registry, name):
    names = [
        {key for key, _ in registry.create(Kind.ATTENTION, name, MODEL, bias=bias).named_parameters()}
        for bias in (True, False)
    ]
    first = "latent" if name == "mla" else "key"
    assert {"query.bias", f"{first}.bias", "output.bias"} <= names[0]
    assert not any(key.endswith("bias") for key in names[1])


@every_attention
def test_heads_that_do_not_divide_the_width_are_refused(registry, name):
    with pytest.raises(ConfigurationError, match=r"5 heads do not divide the width 24; .* 20 and 25"):
        registry.create(Kind.ATTENTION, name, replace(MODEL, heads=5))
