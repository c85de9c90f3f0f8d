"""Every built-in module that holds parameters can draw them again."""

from functools import partial

import pytest
import torch

from plugformer.interfaces import HeadContext, Input, ModelContext, ResidualContext
from plugformer.registry import Kind, Registry
from plugformer_testing.probes import RootMeanSquare
from plugformer_testing.subject import SUBLAYERS

MODEL = ModelContext(width=8, heads=2, ffn_width=8)
CONTEXTS = {
    Kind.POSITION: MODEL,
    Kind.ATTENTION: MODEL,
    Kind.FEED_FORWARD: MODEL,
    Kind.NORM: MODEL,
    Kind.RESIDUAL: ResidualContext(**vars(MODEL), sublayers=SUBLAYERS, norm=partial(RootMeanSquare, 8)),
    Kind.HEAD: HeadContext(**vars(MODEL), outputs=5, inputs=(Input("first"), Input("second"))),
}
REGISTRY = Registry.discover()
BUILT_IN = [
    (kind, entry.name)
    for kind in CONTEXTS
    for entry in REGISTRY.entries(kind)
    if entry.distribution == "plugformer"
]


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_reset_parameters_draws_every_value_from_the_stream(kind, name):
    component = REGISTRY.create(kind, name, CONTEXTS[kind])
    draws = []
    for spoilt in (7.0, -7.0):
        with torch.no_grad():
            for parameter in component.parameters():
                parameter.fill_(spoilt)
        torch.manual_seed(1)
        for module in reversed(list(component.modules())):
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
        draws.append({key: value.clone() for key, value in component.state_dict().items()})
    for key, value in draws[0].items():
        assert torch.equal(value, draws[1][key]), key


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_nothing_but_parameters_is_saved(kind, name):
    component = REGISTRY.create(kind, name, CONTEXTS[kind])
    assert sorted(component.state_dict()) == sorted(key for key, _ in component.named_parameters())
