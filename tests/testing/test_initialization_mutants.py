"""Every check of initial values catches a fault that it is there for."""

import numpy as np
import torch
from tests.testing.mutants import fault_test, instead

from plugformer.interfaces import Initialization
from plugformer.registry import Kind


def drawing(name, draw):
    return instead(name, Initialization, draw=lambda self, values, *_: draw(values))


MUTANTS = {
    "values_are_finite": drawing("DividesByAxes", lambda values: values.normal_().div_(values.dim())),
    "values_follow_the_seed": drawing(
        "NumPy", lambda values: values.copy_(torch.from_numpy(np.random.normal(size=values.shape)))
    ),
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.INITIALIZATION)
