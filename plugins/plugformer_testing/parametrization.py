"""The contract of parametrizations, see plugformer.interfaces.Parametrization."""

from math import isfinite

from plugformer.errors import ConfigurationError
from plugformer.interfaces import ParameterSize, Parametrization, Role, Updates
from plugformer.registry import Kind
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import Subject
from plugformer_testing.widths import require_one_size


@contract_check(Kind.PARAMETRIZATION, cases=tuple(Updates))
def factors_are_positive(subject: Subject, updates: Updates) -> None:
    """Factors are finite and above 0, and 1 for the base's sizes; or optimizers are refused.

    The refusal of how large updates are is a ConfigurationError.
    """
    parametrization: Parametrization = subject.create()
    for role in Role:
        for times in (1.0, 4.0):
            size = ParameterSize(role=role, fan_in=times, fan_out=times, longest=times, head_width=times)
            try:
                found = (parametrization.scale(size), parametrization.rate(size, updates))
            except ConfigurationError:
                continue
            sound = all(isfinite(factor) and factor > 0 for factor in found)
            require.that(sound, f"the factors of {size} are {found}, expected finite numbers above 0")
            require.that(times > 1 or found == (1, 1), f"the factors at the base's sizes are {found}, not 1")


@contract_check(Kind.PARAMETRIZATION)
def updates_keep_their_size_at_any_width(subject: Subject) -> None:
    """A few updates by Adam change the activations of each part of a model as much at any width.

    All other sizes stay, so that heads grow with the width.
    """
    parametrization = subject.component, dict(subject.options)
    require_one_size({"parametrization": parametrization, "ffn_width": 64})
