"""A contract is a list of checks: a sentence, a function that tries it, and cases to try it on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import torch
from torch import Tensor

from plugformer.registry import Kind

CheckFunction: TypeAlias = Callable[..., str | None]
"""Takes a Subject and, if the check has cases, one of them. Raises Violation or NotApplicable.

It may return a note for the report.
"""


class Violation(Exception):  # noqa: N818 (a contract is violated; the program has no error)
    """A component does not keep its contract. The message describes the fault."""


class NotApplicable(Exception):  # noqa: N818
    """A case or a whole check does not apply to this component. The message gives the reason."""


@dataclass(frozen=True)
class Check:
    """One sentence of a contract.

    Attributes:
        function: Tries it. Its name is the name of the check, and its docstring is the sentence.
        cases: What it is tried on, the smallest first; None alone if there is nothing to choose.
        kinds: The kinds of component that it holds for; none if for all kinds of its module.
    """

    function: CheckFunction
    cases: tuple[Any, ...] = (None,)
    kinds: tuple[Kind, ...] = ()

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.function.__name__


def contract_check(cases: Iterable[Any] = (None,), *kinds: Kind) -> Callable[[CheckFunction], Check]:
    """Turns a function into a check."""
    return lambda function: Check(function, tuple(cases), kinds)


def fail(message: str) -> NoReturn:
    """Raises Violation."""
    raise Violation(message)


def require(condition: object, message: str) -> None:
    """Raises Violation with the message unless the condition is true."""
    if not condition:
        fail(message)


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
        fail(f"{message} ({difference})")


def require_finite(tensor: Tensor, message: str) -> None:
    """Requires that a tensor has neither NaN nor infinity."""
    require(tensor.isfinite().all(), message)


def is_list_of_text(value: object) -> bool:
    """Returns whether a value is a list of text, such as words or names of labels."""
    return isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value)
