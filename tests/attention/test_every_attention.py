"""What holds for every built-in attention, beyond the contract of all attentions."""

from dataclasses import replace

import pytest
import torch

from plugformer.errors import ConfigurationError
from plugformer.interfaces import BIDIRECTIONAL, Context, ModelContext, PositionalEncoding, Positions
from plugformer.registry import Kind

MODEL = ModelContext(width=24, heads=4, ffn_width=8, max_length=16)

every_attention = pytest.mark.parametrize("name", ["gqa", "mha", "mla", "mqa"])


@pytest.mark.parametrize("position", ["alibi", "rope", "t5"])
@every_attention
def test_relative_encodings_are_read(registry, name, position):
    attention = registry.create(Kind.ATTENTION, name, MODEL)
    x = torch.randn(2, 6, MODEL.width)

    def read(encoding: PositionalEncoding) -> torch.Tensor:
        positions = Positions.of(6, encoding)
        return attention(x, Context(positions, positions, view=BIDIRECTIONAL))

    encoding = registry.create(Kind.POSITION, position, MODEL)
    assert not torch.allclose(read(encoding), read(PositionalEncoding()))


@every_attention
def test_heads_that_do_not_divide_the_width_are_refused(registry, name):
    with pytest.raises(ConfigurationError, match=r"5 heads do not divide the width 24; .* 20 and 25"):
        registry.create(Kind.ATTENTION, name, replace(MODEL, heads=5))
