"""Every check that all torch modules share catches a fault; shown on norms, the smallest of them."""

import itertools

import torch
from tests.testing.mutants import SHARED, mutant_tests
from torch import nn

from plugformer.interfaces import Norm
from plugformer_plugins.norm.norms import RMSNorm


class Raises(RMSNorm):
    def forward(self, x):
        raise TypeError("no forward yet")


class DividesByItsLayer(RMSNorm):
    def __init__(self, model):
        super().__init__(model)
        self.share = 1 / (model.place.layer - 3)


class InfiniteInOneLayer(RMSNorm):
    def __init__(self, model):
        super().__init__(model)
        self.factor = float("inf") if model.place.cross else 1.0

    def forward(self, x):
        return super().forward(x) * self.factor


class HiddenValues(Norm):
    """Holds parameters that nobody draws."""

    def __init__(self, model):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(model.width))

    def forward(self, x):
        return nn.functional.normalize(x, dim=-1) * self.gain


class ForgetsToReset(RMSNorm):
    def __init__(self, model):
        super().__init__(model)
        self.bias = nn.Parameter(torch.zeros(model.width))

    def forward(self, x):
        return super().forward(x) + self.bias


class ResetsToZero(RMSNorm):
    def __init__(self, model):
        super().__init__(model)
        nn.init.ones_(self.weight)

    def reset_parameters(self):
        nn.init.zeros_(self.weight)


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


class Idle(RMSNorm):
    def __init__(self, model):
        super().__init__(model)
        self.idle = nn.Linear(2, 2)


class InfiniteGradient(RMSNorm):
    def forward(self, x):
        zero = self.weight - self.weight.detach()
        return super().forward(x) + zero.abs().sqrt()


class Noisy(RMSNorm):
    def forward(self, x):
        return super().forward(x) + 0.01 * torch.randn_like(x)


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


class AlwaysFloat32(RMSNorm):
    def forward(self, x):
        return super().forward(x).float().to(torch.float64 if x.dtype == torch.float64 else torch.float32)


class UnsavedGain(RMSNorm):
    def __init__(self, model):
        super().__init__(model)
        self.gain = torch.rand(model.width, dtype=torch.float64)

    def forward(self, x):
        return super().forward(x) * self.gain.to(x.dtype)


class UnsavedBuffer(RMSNorm):
    def __init__(self, model):
        super().__init__(model)
        self.register_buffer("gain", torch.rand(model.width), persistent=False)

    def forward(self, x):
        return super().forward(x) * self.gain


class SharesCopies(RMSNorm):
    def __deepcopy__(self, memo):
        return self


class OtherUnderCompilers(RMSNorm):
    def forward(self, x):
        return super().forward(x) * (2 if torch.compiler.is_compiling() else 1)


class AddsOneType(RMSNorm):
    """Adds what linear maps make, in bfloat16 under autocast, to zeros of the type of the input."""

    def forward(self, x):
        tokens = super().forward(x).flatten(0, -2)
        mapped = tokens @ torch.eye(tokens.shape[-1], dtype=x.dtype)
        return torch.zeros_like(tokens).index_add(0, torch.arange(len(tokens)), mapped).view(x.shape)


MUTANTS = {
    "constructs": (Raises,),
    "serves_or_refuses_each_place": (DividesByItsLayer, InfiniteInOneLayer),
    "draws_initial_values": (HiddenValues, ForgetsToReset, ResetsToZero, ResetsWider, CountsItsResets),
    "every_parameter_gets_a_gradient": (Idle, InfiniteGradient),
    "evaluation_is_repeatable": (Noisy, Counting),
    "runs_in_bfloat16": (AlwaysFloat32, AddsOneType),
    "runs_in_float32": (Rounds,),
    "saves_and_loads": (UnsavedGain, UnsavedBuffer, SharesCopies),
    "compiles": (OtherUnderCompilers,),
}


test_is_caught, _ = mutant_tests(MUTANTS, raising=(Raises,))


def test_every_shared_check_catches_one():
    assert set(MUTANTS) == {check.name for check in SHARED}
