"""A check: one sentence of a contract, the function that tries it, and the cases it is tried on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import torch
from torch import Tensor

from plugformer.registry import Kind

Function: TypeAlias = Callable[..., str | None]
"""Takes a Subject and, if the check has cases, one of them; raises Violation or NotApplicable.

What it returns is a note for those who read the report.
"""


class Violation(Exception):  # noqa: N818 (what it says is that a contract is violated)
    """A component does not keep its contract; the message names the fault, the cause is what it raised."""


class NotApplicable(Exception):  # noqa: N818
    """A case or a whole check does not concern this component; the message says why."""


@dataclass(frozen=True)
class Check:
    """One sentence of a contract.

    Attributes:
        function: Tries it; its name is the check's in reports and in declarations of expected failures, and
            its docstring the sentence.
        cases: What it is tried on, the smallest first; None alone if there is nothing to choose.
        kinds: The kinds of component that it holds for; none if for all that its module is about.
    """

    function: Function
    cases: tuple[Any, ...] = (None,)
    kinds: tuple[Kind, ...] = ()

    @property
    def name(self) -> str:
        """The check's name."""
        return self.function.__name__


def check(cases: Iterable[Any] = (None,), *, kinds: tuple[Kind, ...] = ()) -> Callable[[Function], Check]:
    """Makes a function a check."""
    return lambda function: Check(function, tuple(cases), kinds)


def fail(message: str) -> NoReturn:
    """Reports a violation of a contract.

    Raises:
        Violation: Always.
    """
    raise Violation(message)


def require(condition: bool, message: str) -> None:
    """Raises Violation with the message unless the condition holds."""
    if not condition:
        fail(message)


def require_close(actual: Tensor, expected: Tensor, message: str, *, tolerance: float = 1e-5) -> None:
    """Requires two tensors to agree in shape and, within a tolerance, in all values.

    The tolerance is far above the rounding of float64, in which most checks compute, and just above that of
    float32, in which a component may compute inside; faults are of the size of the values themselves.
    """
    try:
        torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)
    except AssertionError as error:
        lines = str(error).splitlines()
        difference = next((line for line in lines if "bsolute difference" in line), lines[0])
        fail(f"{message} ({difference})")


def require_finite(tensor: Tensor, message: str) -> None:
    """Requires that a tensor holds neither NaN nor infinity."""
    require(bool(tensor.isfinite().all()), message)


def is_list_of_text(value: object) -> bool:
    """Returns whether a value is a list of text, such as words or the names of labels."""
    return isinstance(value, list | tuple) and all(isinstance(each, str) and each for each in value)
