"""A contract is a list of checks: a sentence, a function that tries it, and cases to try it on."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from plugformer.registry import Kind


class Violation(Exception):  # noqa: N818 (a contract is violated; the program has no error)
    """A component does not keep its contract. The message describes the fault."""


class NotApplicable(Exception):  # noqa: N818
    """A case or a whole check does not apply to this component. The message gives the reason."""


@dataclass(frozen=True)
class Check:
    """One sentence of a contract.

    Attributes:
        function: Takes a Subject and, if there are cases, one of them. It raises Violation or NotApplicable,
            or returns a note for the report. Its name is that of the check, its docstring the sentence.
        cases: What it is tried on, the smallest first; None alone if there is nothing to choose.
        kinds: The kinds of component that it holds for; none if for all kinds of its module.
    """

    function: Callable[..., str | None]
    cases: tuple[Any, ...] = (None,)
    kinds: tuple[Kind, ...] = ()

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.function.__name__


def contract_check(cases: Iterable[Any] = (None,), *kinds: Kind) -> Callable[..., Check]:
    """Turns a function into a check."""
    return lambda function: Check(function, tuple(cases), kinds)


def require(condition: object, message: str) -> None:
    """Raises Violation with the message unless the condition is true."""
    if not condition:
        raise Violation(message)


def require_equal(found: object, expected: object, what: str) -> None:
    """Requires what was found to be what was expected."""
    require(found == expected, f"{what} is {found!r}, expected {expected!r}")


def require_finite(tensor: Tensor, what: str) -> None:
    """Requires that a tensor has neither NaN nor infinity."""
    require(tensor.isfinite().all(), f"{what} is not finite")


def require_close(actual: Tensor, expected: Tensor, message: str, *, tolerance: float = 1e-5) -> None:
    """Requires two tensors to agree in shape and, within a tolerance, in all values.

    The tolerance is far above the rounding of float64, in which most checks compute, and just above that of
    float32, in which a component may compute inside. Faults are as large as the values themselves.
    """
    try:
        torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)
    except AssertionError as error:
        lines = str(error).splitlines()
        difference = next((line for line in lines if "bsolute difference" in line), lines[0])
        raise Violation(f"{message} ({difference})") from None


def require_same(
    actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], how: str, *, tolerance: float = 0.0
) -> None:
    """Requires tensors of the same names to have the same values."""
    require_equal(sorted(actual), sorted(expected), f"{how}, what there is")
    for name, value in expected.items():
        require_close(actual[name], value, f"{how}, {name} is different", tolerance=tolerance)


def is_list_of_text(value: object) -> bool:
    """Returns whether a value is a list of text, such as words or names of labels."""
    return isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value)
