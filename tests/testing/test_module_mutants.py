"""Every check that all torch modules share catches a fault; shown on norms, the smallest of them."""

import itertools

import torch
from tests.testing.mutants import SHARED, after, instead, mutant_tests
from torch import nn

from plugformer.interfaces import Norm
from plugformer_plugins.norm.norms import RMSNorm


def raise_an_error(self, x):
    raise TypeError("no forward yet")


class Grown(RMSNorm):
    """A norm with one thing more, made by `grow`."""

    def __init__(self, model):
        super().__init__(model)
        self.grow(model)


def growing(name, grow, forward=lambda self, output, x: output, **members):
    """Returns a norm with something more, with which its outputs are changed."""
    return after(name, instead("Growing", Grown, grow=grow, **members), forward=forward)


def returning(name, change):
    return after(name, RMSNorm, forward=change)


class HiddenValues(Norm):
    """Holds parameters that nobody draws."""

    def __init__(self, model):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(model.width))

    def forward(self, x):
        return nn.functional.normalize(x, dim=-1) * self.gain


class ResetsWider(RMSNorm):
    def __init__(self, model):
        super().__init__(model)
        self.maps = nn.Parameter(torch.randn(model.width, model.width))

    def reset_parameters(self):
        super().reset_parameters()
        if hasattr(self, "maps"):
            nn.init.normal_(self.maps, std=5.0)


class CountsItsResets(RMSNorm):
    resets = itertools.count()

    def reset_parameters(self):
        nn.init.constant_(self.weight, float(next(self.resets)))


class Counting(RMSNorm):
    def __init__(self, model):
        super().__init__(model)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Rounds(RMSNorm):
    def forward(self, x):
        return super().forward(x.bfloat16().float() if x.dtype == torch.float32 else x)


class AddsOneType(RMSNorm):
    """Adds what linear maps make, in bfloat16 under autocast, to zeros of the type of the input."""

    def forward(self, x):
        tokens = super().forward(x).flatten(0, -2)
        mapped = tokens @ torch.eye(tokens.shape[-1], dtype=x.dtype)
        return torch.zeros_like(tokens).index_add(0, torch.arange(len(tokens)), mapped).view(x.shape)


MUTANTS = {
    "constructs": (instead("Raises", RMSNorm, forward=raise_an_error),),
    "serves_or_refuses_each_place": (
        growing("DividesByItsLayer", lambda self, model: 1 / (model.place.layer - 3)),
        growing(
            "InfiniteInOneLayer",
            lambda self, model: setattr(self, "factor", float("inf") if model.place.cross else 1.0),
            lambda self, output, x: output * self.factor,
        ),
    ),
    "draws_initial_values": (
        HiddenValues,
        growing(
            "ForgetsToReset",
            lambda self, model: setattr(self, "bias", nn.Parameter(torch.zeros(model.width))),
            lambda self, output, x: output + self.bias,
        ),
        growing(
            "ResetsToZero",
            lambda self, model: nn.init.ones_(self.weight),
            reset_parameters=lambda self: nn.init.zeros_(self.weight),
        ),
        ResetsWider,
        CountsItsResets,
    ),
    "every_parameter_gets_a_gradient": (
        growing("Idle", lambda self, model: setattr(self, "idle", nn.Linear(2, 2))),
        returning("Infinite", lambda self, y, x: y + (self.weight - self.weight.detach()).abs().sqrt()),
    ),
    "evaluation_is_repeatable": (
        returning("Noisy", lambda self, output, x: output + 0.01 * torch.randn_like(x)),
        Counting,
    ),
    "runs_in_bfloat16": (
        returning("AlwaysFloat32", lambda self, y, x: y if x.dtype == torch.float64 else y.float()),
        AddsOneType,
    ),
    "runs_in_float32": (Rounds,),
    "saves_and_loads": (
        growing(
            "UnsavedGain",
            lambda self, model: setattr(self, "gain", torch.rand(model.width, dtype=torch.float64)),
            lambda self, output, x: output * self.gain.to(x.dtype),
        ),
        growing(
            "UnsavedBuffer",
            lambda self, model: self.register_buffer("gain", torch.rand(model.width), persistent=False),
            lambda self, output, x: output * self.gain,
        ),
        instead("SharesCopies", RMSNorm, __deepcopy__=lambda self, memo: self),
    ),
    "compiles": (returning("Other", lambda self, y, x: y * (2 if torch.compiler.is_compiling() else 1)),),
}


test_is_caught, _ = mutant_tests(
    MUTANTS, raising=("Raises", "DividesByItsLayer", "HiddenValues", "AddsOneType")
)


def test_every_shared_check_catches_one():
    assert set(MUTANTS) == {check.name for check in SHARED}
