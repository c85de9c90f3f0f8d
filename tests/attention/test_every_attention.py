"""What holds for every built-in attention, beyond the contract of all attentions."""

from dataclasses import replace

import pytest
import torch

from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    EVERYTHING,
    PAST,
    Attention,
    Context,
    ModelContext,
    PositionalEncoding,
    Positions,
)
from plugformer.registry import Kind, Registry

MODEL = ModelContext(width=24, heads=4, ffn_width=8, max_length=16)
ATTENTIONS = ["gqa", "mha", "mla", "mqa"]
ENCODINGS = ["alibi", "none", "rope", "t5"]  # the others end before attention, at the embeddings
PATTERNS = {"full": ["xxxxxx", "xxxxxx"], "padded": ["xxxxxx", "xxxx.."]}

every_attention = pytest.mark.parametrize("name", ATTENTIONS)
every_encoding = pytest.mark.parametrize("position", ENCODINGS)
every_pattern = pytest.mark.parametrize("pattern", PATTERNS)


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.discover()


@pytest.fixture
def attention(registry, name) -> Attention:
    return registry.create(Kind.ATTENTION, name, MODEL).double()


@pytest.fixture
def encoding(registry, position) -> PositionalEncoding:
    return registry.create(Kind.POSITION, position, MODEL).double()


def read_pattern(pattern: str) -> torch.Tensor:
    return torch.tensor([[mark == "x" for mark in row] for row in PATTERNS[pattern]])


def sequence(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, MODEL.width, dtype=torch.float64)


class Collector:
    def __call__(self, name, value):
        self.weights = value


def test_the_list_is_complete(registry):
    entries = registry.entries(Kind.ATTENTION)
    assert [entry.name for entry in entries if entry.distribution == "plugformer"] == ATTENTIONS


@every_pattern
@every_encoding
@every_attention
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
def test_observed_equals_unobserved(attention, encoding, pattern, causal):
    real, collector = read_pattern(pattern), Collector()
    positions = Positions.of(6, encoding, None if real.all() else real)
    x = sequence(2, 6).requires_grad_()
    results = []
    for observer in (None, collector):
        context = Context(positions, positions, view=PAST if causal else EVERYTHING, observer=observer)
        output = attention(x, context)[real]
        parameters = list(attention.parameters())
        results.append((output, torch.autograd.grad(output.square().sum(), [x, *parameters])))
    torch.testing.assert_close(results[0], results[1])
    weights = collector.weights
    assert weights.shape == (2, MODEL.heads, 6, 6)
    torch.testing.assert_close(weights.sum(-1).transpose(1, 2)[real], torch.ones(int(real.sum()), 4).double())
    assert weights.transpose(1, 3).transpose(2, 3)[~real].eq(0).all()  # nobody reads padding


@pytest.mark.parametrize("position", ["alibi", "rope", "t5"])
@every_attention
def test_relative_encodings_are_read(attention, encoding):
    x = sequence(2, 6)

    def read(under: PositionalEncoding) -> torch.Tensor:
        positions = Positions.of(6, under)
        return attention(x, Context(positions, positions, view=EVERYTHING))

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
