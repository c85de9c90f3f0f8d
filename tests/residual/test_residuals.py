"""Each residual connection against its formula, written once more, and the depths against the papers."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from plugformer.interfaces import CAUSAL, ModelContext, Place, ResidualContext
from plugformer_plugins.residual.norms import (
    DeepNorm,
    LayerScale,
    ParallelResidual,
    PostNorm,
    PreNorm,
    SandwichNorm,
)
from plugformer_testing.probes import Function, RootMeanSquare

WIDTH = 6
ALONE, READING = ("attention", "feed_forward"), ("attention", "cross_attention", "feed_forward")
MODEL = ResidualContext(
    **vars(ModelContext(width=WIDTH, heads=1, ffn_width=1)),
    sublayers=READING,
    norm=partial(RootMeanSquare, WIDTH),
)
FUNCTIONS = {"attention": torch.sin, "cross_attention": torch.cos, "feed_forward": torch.tanh}


def computed(residual: nn.Module, x: torch.Tensor) -> torch.Tensor:
    real = torch.ones(x.shape[:2], dtype=torch.bool)
    return residual(x, {name: Function(FUNCTIONS[name], real) for name in READING})


def perturbed(residual: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in residual.parameters():
            parameter.add_(torch.randn_like(parameter))
    return residual


X = torch.linspace(-2, 2, 2 * 3 * WIDTH).view(2, 3, WIDTH)


FORMULAS = {
    PreNorm: lambda residual, x, name, function: x + function(residual.norms[name](x)),
    PostNorm: lambda residual, x, name, function: residual.norms[name](x + function(x)),
    DeepNorm: lambda residual, x, name, function: residual.norms[name](3**0.25 * x + function(x)),
    SandwichNorm: lambda residual, x, name, function: (
        x + residual.after[name](function(residual.before[name](x)))
    ),
    LayerScale: lambda residual, x, name, function: (
        x + residual.scales[name] * function(residual.norms[name](x))
    ),
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_sublayers_follow_the_formula(kind):
    residual, x = perturbed(kind(MODEL)), X
    for name in READING:
        x = FORMULAS[kind](residual, x, name, FUNCTIONS[name])
    torch.testing.assert_close(computed(residual, X), x)


def test_parallel():
    residual = perturbed(ParallelResidual(MODEL))
    h = residual.norm(X)
    torch.testing.assert_close(computed(residual, X), X + h.sin() + h.cos() + h.tanh())


@pytest.mark.parametrize(("layers", "init"), [(1, 0.1), (18, 0.1), (19, 1e-5), (24, 1e-5), (25, 1e-6)])
def test_scales_start_by_the_depth(layers, init):
    """Touvron et al. 2021, section 2."""
    residual = LayerScale(replace(MODEL, place=Place(layers=layers)))
    for scale in residual.scales.values():
        torch.testing.assert_close(scale.detach(), torch.full((WIDTH,), init))
    assert LayerScale(MODEL, init=0.5).scales["attention"].tolist() == [0.5] * WIDTH


@pytest.mark.parametrize(
    ("place", "sublayers", "alpha", "beta"),
    [
        # Wang et al. 2022, figure 2, for 6 and 12 layers, with the roots taken by hand
        (Place(layers=6), ALONE, 1.8612, 0.3799),
        (Place(stack="decoder", layers=12, view=CAUSAL), ALONE, 2.2134, 0.3195),
        (Place(layers=6, read_by=6), ALONE, 1.4180, 0.4970),
        (Place(layers=12, read_by=6), ALONE, 1.6863, 0.4179),
        (Place(stack="decoder", layers=6, view=CAUSAL), READING, 2.0598, 0.3433),
    ],
)
def test_alpha_and_beta_are_the_papers(place, sublayers, alpha, beta):
    residual = DeepNorm(replace(MODEL, place=place, sublayers=sublayers))
    assert (residual.alpha, residual.gain) == (pytest.approx(alpha, abs=1e-4), pytest.approx(beta, abs=1e-4))


def test_deepnorm_scales_what_values_pass_through(tiny_model):
    """Figure 2: networks, and the value and output projections; query and key projections are left alone."""
    settings = ("model.initialization=xavier", "model.layers=3")
    plain = dict(tiny_model(*settings, "model.residual=post").named_parameters())
    deep = dict(tiny_model(*settings, "model.residual=deepnorm").named_parameters())
    assert plain.keys() == deep.keys()
    encoder, decoder = 0.87 * (3**4 * 3) ** (-1 / 16), 36**-0.25
    scaled = 0
    for name, value in plain.items():
        maps = {"up", "down", "value", "output"} & set(name.split("."))
        beta = {"encoder": encoder, "decoder": decoder}[name.split(".")[0]] if maps else 1
        factor = beta if maps and name.endswith("weight") else 1
        torch.testing.assert_close(deep[name], value * factor, msg=name)
        scaled += factor != 1
    assert scaled == 3 * 4 + 3 * 6


@pytest.mark.parametrize(
    ("residual", "expected"),
    [
        ("pre", True),
        ("post", False),
        ("sandwich", True),
        ("parallel", True),
        ("layer_scale", True),
        ("deepnorm", False),
    ],
)
def test_a_final_norm_follows_and_can_be_set(tiny_model, residual, expected):
    model = tiny_model(f"model.residual={residual}")
    for stack in (model.encoder, model.decoder):
        assert isinstance(stack.final_norm, nn.Identity) is not expected
    other = tiny_model(f"model.residual={residual}", f"model.final_norm={str(not expected).lower()}")
    assert isinstance(other.encoder.final_norm, nn.Identity) is expected
