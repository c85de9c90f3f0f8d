"""Parts of x-transformers keep the contract, and compute what x-transformers computes."""

import pytest
import torch
from plugformer_x_transformers.attention import XAttention
from torch import nn
from x_transformers import x_transformers as library

from plugformer import components, create, create_model
from plugformer.errors import ConfigurationError
from plugformer.interfaces import CAUSAL, Context, ModelContext, Place, PositionalEncoding, Positions, Tokens
from plugformer_testing import parametrize_with_checks

DISTRIBUTION = "plugformer-x-transformers"
MODEL = ModelContext(width=24, heads=4, ffn_width=40, place=Place(stack="decoder", view=CAUSAL))
REAL = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
KINDS = ("attention", "feed_forward", "norm", "position", "residual")
PARTS = [
    (kind, entry.name) for kind in KINDS for entry in components(kind) if entry.distribution == DISTRIBUTION
]
ATTENTIONS = [name for kind, name in PARTS if kind == "attention"]


@parametrize_with_checks("attention/x_cope")
def test_attention(check):
    check()


@parametrize_with_checks("feed_forward/x_scaled_geglu")
def test_feed_forward(check):
    check()


@parametrize_with_checks("norm/x_derf")
def test_norm(check):
    check()


@parametrize_with_checks("position/x_dynamic_bias")
def test_position(check):
    check()


@parametrize_with_checks("residual/x_gru_gating")
def test_residual(check):
    check()


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_cached_equals_uncached_in_a_model(kind, name):
    sizes = {"vocabulary": 20, "width": 24, "heads": 4, "layers": 2, "max_length": 8}
    parts = {"position": "none", kind: name}
    model = create_model("decoder-only", **parts, **sizes).double().eval()
    ids = torch.randint(4, 20, REAL.shape)
    expected, cache = model.decoder(Tokens(ids, REAL)), model.decoder.start()
    steps = [Tokens(ids[:, n : n + 1], REAL[:, n : n + 1]) for n in range(5)]
    found = torch.cat([model.decoder(step, cache=cache) for step in steps], dim=1)
    torch.testing.assert_close(found[REAL], expected[REAL], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_every_name_tells_its_source(kind, name):
    (entry,) = (entry for entry in components(kind) if entry.name == name)
    assert entry.summary
    assert entry.source.startswith("https://")


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attentions_are_those_of_the_library(name):
    """On whole sequences without padding, where x-transformers has the causal mask."""
    torch.manual_seed(0)
    ours = create("attention", name, MODEL).eval()
    (entry,) = (entry for entry in components("attention") if entry.name == name)
    settings = entry.defaults.get("settings", {})
    theirs = library.Attention(24, dim_head=6, heads=4, causal=True, **settings).eval()
    own = {path.removeprefix("attention.module."): values for path, values in ours.state_dict().items()}
    theirs.load_state_dict({path.replace("attend.kernel.", "attend."): each for path, each in own.items()})
    x, at = torch.randn(2, 9, 24), Positions.of(9, PositionalEncoding())
    torch.testing.assert_close(ours(x, Context(at, at, view=CAUSAL)), theirs(x))


def test_feed_forwards_have_the_models_width():
    for width in range(10, 90, 7):
        network = create("feed_forward", "x_relu_squared", ModelContext(width=24, heads=4, ffn_width=width))
        assert [each.out_features for each in network.modules() if isinstance(each, nn.Linear)] == [width, 24]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"selective": True}, "selective"),
        ({"no_such": True}, "no_such"),
        ({"qk_norm_groups": 6, "qk_norm": True}, "qk_norm_groups"),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        XAttention(MODEL, settings=settings)


def test_contextual_positions_need_an_order():
    with pytest.raises(ConfigurationError, match="use_cope"):
        create("attention", "x_cope", ModelContext(width=24, heads=4, ffn_width=8))
