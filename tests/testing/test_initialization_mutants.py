"""Every check of initial values catches a fault that it is there for."""

import numpy as np
import torch
from tests.testing.mutants import mutant_tests
from torch import nn

from plugformer.interfaces import Initialization
from plugformer.registry import Kind


class DividesByAxes(Initialization):
    """Takes every parameter for a matrix or a vector."""

    def draw(self, values, parameter):
        values.normal_().div_(values.dim())


class Copies(Initialization):
    """Puts another tensor into the parameter's place."""

    def draw(self, values, parameter):
        values.data = torch.randn(values.shape, dtype=torch.float64)


class Freezes(Initialization):
    def draw(self, values, parameter):
        values.requires_grad_(False)


class NumPy(Initialization):
    def draw(self, values, parameter):
        values.copy_(torch.from_numpy(np.random.standard_normal(tuple(values.shape))))


class SeedOfItsOwn(Initialization):
    def draw(self, values, parameter):
        nn.init.normal_(values, generator=torch.Generator().manual_seed(1))


class DrawsOnce(Initialization):
    """Keeps what it has drawn; the first is larger."""

    def __init__(self):
        self.drawn = {}

    def draw(self, values, parameter):
        if parameter.path not in self.drawn:
            self.drawn[parameter.path] = torch.randn_like(values) / (1 + len(self.drawn))
        values.copy_(self.drawn[parameter.path])


class SmallerAndSmaller(Initialization):
    """Counts calls instead of layers."""

    def __init__(self):
        self.calls = 0

    def draw(self, values, parameter):
        self.calls += 1
        nn.init.normal_(values, std=1 / self.calls)


class Zeros(Initialization):
    def draw(self, values, parameter):
        nn.init.zeros_(values)


MUTANTS = {
    "values_are_finite": (DividesByAxes,),
    "parameters_stay_what_they_are": (Copies, Freezes),
    "values_follow_the_seed": (NumPy, SeedOfItsOwn),
    "each_parameter_is_drawn_alone": (DrawsOnce, SmallerAndSmaller),
    "a_small_network_learns": (Zeros,),
}


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.INITIALIZATION)
