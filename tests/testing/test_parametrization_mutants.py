"""Every check of parametrizations catches a fault that it is there for."""

from tests.testing.mutants import fault_test, instead

from plugformer.interfaces import Parametrization
from plugformer.registry import Kind
from plugformer_plugins.parametrization.schemes import MaximalUpdate


class OneRate(MaximalUpdate):
    """Scales initial values alone."""

    def __init__(self):
        super().__init__(base_width=32)

    def rate(self, size, updates):
        return 1.0


MUTANTS = {
    "factors_are_positive": instead(
        "NegativeInWideModels",
        Parametrization,
        scale=lambda self, size: 2 - size.fan_in,
        rate=lambda self, size, updates: 1.0,
    ),
    "updates_keep_their_size_at_any_width": OneRate,
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.PARAMETRIZATION)
